"""MTEB's result files, written and read; published rows stand beside measured ones, never among them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from traube._core.errors import Corrupt, Malformed, Missing
from traube._core.files import write_json
from traube._pipeline.current import current_cells, drop_sweeps
from traube._pipeline.params import Protocol
from traube._reports.mteb_results import DEFAULT, TEST, Skipped, describe_skipped, read_results
from traube._storage import Document, Storage, write_table
from traube.components import parse_method
from traube.components.method import name_methods
from traube.models import model_cards
from traube.tasks.stored import get_card
from traube.tasks.task import TaskCard

V_MEASURE = "v_measure/noise_as_cluster"
MTEB_METHOD = "none/minibatch_kmeans"
LANGUAGES = {"de": "deu-Latn", "en": "eng-Latn"}
ABOUT = ("source", "task", "split", "subset", "model", "revision", "dataset_revision", "mteb_version")
IMPORTED_COLUMNS = (*ABOUT, "metric", "mean", "sd", "splits")


class Imported(Document):
    """The results of a source, its key: the path of MTEB's files."""

    kind: ClassVar[str] = "import"


def export_mteb(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    folder: Path,
    method: str | None = None,
    protocol_name: str | None = None,
) -> dict[Path, str]:
    """Write `<org>__<model>/<revision>/<Task>.json` for every model, and labeled task that it is scored on.

    MTEB's files hold one method. A revision that the hub does not know is the model's fingerprint. Seeds are averaged,
    split by split.

    Parameters
    ----------
    protocols : mapping of str to Protocol
        By name. MTEB's layout knows none: those of the first by name that is scored lie in the folder itself, those of
        others in folders of theirs.
    folder : Path
        Where to write.
    method : str, optional
        By default MTEB's own, mini-batch k-means on the vectors as they are, where a protocol has it; else any k-means on
        the vectors, or else the first by name.
    protocol_name : str, optional
        Write scores under this protocol only.

    Returns
    -------
    dict of Path to str
        The files, and the method of each.
    """
    cells = drop_sweeps(current_cells(storage, protocols), protocols)
    cells = cells[(cells["status"] == "done") & ((protocol_name is None) | (cells["protocol"] == protocol_name))]
    cells = cells.assign(method=name_methods(cells))
    if method is not None and len(cells):
        method = parse_method(method).name  # a misspelled one is named as such
        if method not in set(cells["method"]):
            raise Missing(f"nothing is scored by {method}; `traube run --method {method}` scores it")
    usual = {}
    for name, protocol_cells in cells.groupby("protocol"):
        nearest = [near for near in (MTEB_METHOD, "none/kmeans") if near in set(protocol_cells["method"])]
        usual[name] = method or [*nearest, protocol_cells["method"].min()][0]
    cells = cells[cells["method"] == cells["protocol"].map(usual)]
    scores = storage.read_scores(cells, [V_MEASURE, "ami/noise_as_cluster"]).merge(cells, on="cell_id")
    written = {}
    for (task, model, protocol), rows in scores.groupby(["task", "model", "protocol"]):
        card = get_card(storage, task)
        if card is None:
            continue
        org, revision = f"traube__{model}", str(rows["fingerprint"].iloc[0])
        known = model_cards().get(model)
        if known is not None and known.model and "/" in known.model and not Path(known.model).is_absolute():
            org, revision = known.model.replace("/", "__"), known.revision or revision
        base = folder if protocol == min(scores["protocol"]) else folder / protocol.replace(" ", "_")
        # whatever a model is called, in this process or by whoever wrote the database, its folder lies in ours
        org, revision = (re.sub(r"^\.+|[^A-Za-z0-9_.+-]+", "_", name) for name in (org, revision))
        path = base / org / revision / f"{card.mteb or task}.json"
        write_json(path, _result(card, rows))
        written[path] = usual[protocol]
    if not written:
        by = f" by {method}" if method else ""
        raise Missing(f"no labeled task is scored{by} yet: `traube run{f' --method {method}' if method else ''}`")
    return written


def _result(card: TaskCard, rows: pd.DataFrame) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for metric, name, plural in ((V_MEASURE, "v_measure", "v_measures"), ("ami/noise_as_cluster", "ami", "ami_scores")):
        metric_rows = rows[rows["metric"] == metric]
        by_split = metric_rows.groupby(["level", "split"], sort=False)["value"].mean()
        levels = {f"Level {i}": by_split[level].tolist() for i, level in enumerate(by_split.index.unique("level"))}
        values = by_split.to_numpy()
        entry |= {name: float(values.mean()), f"{name}_std": float(values.std()), plural: levels}
    languages = [LANGUAGES.get(card.language, card.language)]
    main = {"main_score": entry["v_measure"], "hf_subset": DEFAULT, "languages": languages}
    return {
        "dataset_revision": str(rows["data_version"].iloc[0]),
        "task_name": card.mteb or card.name,
        "mteb_version": None,
        "evaluation_time": float(rows.drop_duplicates("cell_id")["seconds"].sum()),
        "kg_co2_emissions": None,
        "scores": {TEST: [{**main, **entry}]},
    }


def import_mteb(storage: Storage, path: Path) -> tuple[pd.DataFrame, list[Skipped]]:
    """Read results in MTEB's form and keep them as published rows; replace rows of the same source.

    Parameters
    ----------
    storage : Storage
        The storage that keeps the rows.
    path : Path
        As in `traube._reports.mteb_results.read_results`.

    Returns
    -------
    rows : DataFrame
        With IMPORTED_COLUMNS, a row for each model, task, split and subset; scores in [0, 1]; `splits` is a list of each
        split's V-measure, empty where not given.
    skipped : list of Skipped
        What was not read, and why.

    Raises
    ------
    TraubeError
        If nothing can be read; the message names the first fault.
    """
    results = read_results(path)
    if not results.rows:
        faults = describe_skipped(results.skipped)
        if path.is_dir() or not faults:
            faults = [f"{path}: holds no clustering results in MTEB's form", *faults]
        raise Malformed("; ".join(faults[:2]))
    rows = [{**row, "metric": V_MEASURE} for row in results.rows]
    table = pd.DataFrame(rows, columns=list(IMPORTED_COLUMNS))
    storage.save_document(Imported(key=str(path.resolve())), {"results": write_table(table)})
    return table, results.skipped


def imported_results(storage: Storage) -> pd.DataFrame:
    """Return the imported results, a DataFrame with IMPORTED_COLUMNS."""
    try:
        read = [_read_imported(storage, source) for source in storage.read_documents(Imported)]
    except Corrupt as error:
        raise Corrupt(f"imported results are corrupt ({error}); import them again") from None
    empty = pd.DataFrame(columns=list(IMPORTED_COLUMNS))
    return pd.concat(read, ignore_index=True)[list(IMPORTED_COLUMNS)] if read else empty


def _read_imported(storage: Storage, source: Imported) -> pd.DataFrame:
    table = storage.read_table(source.files["results"])
    if missing := [name for name in IMPORTED_COLUMNS if name not in table]:
        raise Corrupt(f"{source.key}: no column {missing[0]}")
    return table
