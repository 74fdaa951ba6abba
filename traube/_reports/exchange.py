"""MTEB's result files, written and read; published rows stand beside measured ones, never among them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from traube._core.errors import TraubeError
from traube._core.files import write_json
from traube._core.inputs import parse_json, read_bytes
from traube._pipeline.current import current_cells, drop_sweeps
from traube._pipeline.params import Protocol
from traube._storage import Corrupt, Storage, write_table
from traube.components import parse_method
from traube.components._method import name_methods
from traube.models import model_cards
from traube.tasks._stored import get_card
from traube.tasks._task import TaskCard

V_MEASURE = "v_measure/noise_as_cluster"
MTEB_METHOD = "none/minibatch_kmeans"
LANGUAGES = {"de": "deu-Latn", "en": "eng-Latn"}
ABOUT = ("source", "task", "model", "revision", "dataset_revision", "mteb_version")
IMPORTED_COLUMNS = (*ABOUT, "metric", "mean", "sd", "splits")
Score = Annotated[float, Field(ge=0, le=1)]  # a V-measure
Name = Annotated[str, Field(max_length=500)]
NameOrEmpty = Annotated[Name | None, AfterValidator(lambda name: name or "")]
R = TypeVar("R")
IMPORTED = "import"  # kind of the document of the results of a source


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
            raise TraubeError(f"nothing is scored by {method}; `traube run --method {method}` scores it")
    usual = {}
    for name, own in cells.groupby("protocol"):
        nearest = [near for near in (MTEB_METHOD, "none/kmeans") if near in set(own["method"])]
        usual[name] = method or [*nearest, own["method"].min()][0]
    cells = cells[cells["method"] == cells["protocol"].map(usual)]
    scores = storage.read_scores(cells, [V_MEASURE, "ami/noise_as_cluster"]).merge(cells, on="cell_id")
    written = {}
    for (task, model, protocol), rows in scores.groupby(["task", "model", "protocol"]):
        card = get_card(storage, task)
        if card is None:
            continue
        org, revision = f"traube__{model}", rows["fingerprint"].iloc[0]
        known = model_cards().get(model)
        if known is not None and known.model and "/" in known.model and not Path(known.model).is_absolute():
            org, revision = known.model.replace("/", "__"), known.revision or revision
        base = folder if protocol == min(scores["protocol"]) else folder / protocol.replace(" ", "_")
        path = base / org / revision / f"{card.mteb or task}.json"
        write_json(path, _result(card, rows))
        written[path] = usual[protocol]
    if not written:
        by = f" by {method}" if method else ""
        raise TraubeError(f"no labeled task is scored{by} yet: `traube run{f' --method {method}' if method else ''}`")
    return written


def _result(card: TaskCard, rows: pd.DataFrame) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for metric, name, plural in ((V_MEASURE, "v_measure", "v_measures"), ("ami/noise_as_cluster", "ami", "ami_scores")):
        own = rows[rows["metric"] == metric]
        by_split = own.groupby(["level", "split"], sort=False)["value"].mean()
        levels = {f"Level {i}": by_split[level].tolist() for i, level in enumerate(by_split.index.unique("level"))}
        values = by_split.to_numpy()
        entry |= {name: float(values.mean()), f"{name}_std": float(values.std()), plural: levels}
    languages = [LANGUAGES.get(card.language, card.language)]
    main = {"main_score": entry["v_measure"], "hf_subset": "default", "languages": languages}
    return {
        "dataset_revision": str(rows["data_version"].iloc[0]),
        "task_name": card.mteb or card.name,
        "mteb_version": None,
        "evaluation_time": float(rows.drop_duplicates("cell_id")["seconds"].sum()),
        "kg_co2_emissions": None,
        "scores": {"test": [{**main, **entry}]},
    }


def import_mteb(storage: Storage, path: Path) -> pd.DataFrame:
    """Read results in MTEB's form and keep them as published rows; replace rows of the same source.

    Parameters
    ----------
    storage : Storage
        The storage that keeps the rows.
    path : Path
        A result file, a folder of them (`<org>__<model>/<revision>/<Task>.json`), or a `.jsonl` / `.jsonl.gz` of flat rows.

    Returns
    -------
    DataFrame
        With IMPORTED_COLUMNS; scores in [0, 1]; `splits` is a list of each split's V-measure, empty where not given.

    Raises
    ------
    TraubeError
        If there is nothing to read, or a file is not of that form; the message names file and line.
    """
    if path.name.endswith((".jsonl", ".jsonl.gz")):  # a dump of a results repository
        lines = enumerate(read_bytes(path).split(b"\n"), 1)
        rows = [_parsed(line, f"{path}: line {n}", _Result.model_validate).row() for n, line in lines if line.strip()]
    else:
        rows = list(_result_rows(path))
    if not rows:
        raise TraubeError(f"{path}: holds no clustering results in MTEB's form")
    table = pd.DataFrame([{"source": str(path.resolve()), **row} for row in rows], columns=list(IMPORTED_COLUMNS))
    row = {"kind": IMPORTED, "key": str(path.resolve())}
    storage.save("document", row, {"results": write_table(table)})
    return table


def imported_results(storage: Storage) -> pd.DataFrame:
    """Return the imported results, a DataFrame with IMPORTED_COLUMNS."""
    try:
        read = [storage.read_table(row["files"]["results"]) for row in storage.read_rows("document", kind=IMPORTED)]
    except Corrupt as error:
        raise TraubeError(f"imported results are corrupt ({error}); import them again") from None
    return pd.concat(read, ignore_index=True) if read else pd.DataFrame(columns=list(IMPORTED_COLUMNS))


class _Result(BaseModel):
    """One model's result on one task, as MTEB writes it; other fields are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    task: Annotated[Name, Field(min_length=1)]
    model: Annotated[Name, Field(min_length=1)]
    revision: NameOrEmpty = Field(validation_alias="model_revision")
    dataset_revision: NameOrEmpty
    mteb_version: NameOrEmpty
    mean: Score = Field(validation_alias="v_measure")
    sd: Score | None = Field(None, validation_alias="v_measure_std")
    splits: list[Score] | dict[str, list[Score]] | None = Field(None, validation_alias="v_measures")

    def row(self) -> dict[str, Any]:
        measures, sd = self.splits or [], self.sd
        splits = [v for level in measures.values() for v in level] if isinstance(measures, dict) else measures
        if sd is None:
            sd = float(np.std(splits)) if splits else float("nan")
        return {**self.model_dump(), "metric": V_MEASURE, "sd": sd, "splits": splits}


def _result_rows(path: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(p for p in path.rglob("*.json") if p.name != "model_meta.json") if path.is_dir() else [path]:
        result = _parsed(read_bytes(file), str(file), dict)
        if path.is_dir() and not {"scores", "task_name"} <= set(result):
            continue  # something else that lies there too
        yield from _parsed(result, str(file), partial(_rows_of, file))


def _rows_of(file: Path, result: dict[str, Any]) -> list[dict[str, Any]]:
    about = {
        "task": result["task_name"],
        "model": file.parent.parent.name.replace("__", "/", 1),
        "model_revision": file.parent.name,
        "dataset_revision": result["dataset_revision"],
        "mteb_version": result.get("mteb_version"),
    }
    entries = result["scores"].get("test", [])
    # without a V-measure it is another kind of task
    return [_Result.model_validate({**entry, **about}).row() for entry in entries if "v_measure" in entry]


def _parsed(given: Any, where: str, make: Callable[[Any], R]) -> R:
    """Make an object of JSON or a part of it, or raise a TraubeError that says where and why not."""
    try:
        return make(parse_json(given) if isinstance(given, bytes) else given)
    except ValidationError as error:
        first = error.errors()[0]
        fault = f"{'.'.join(map(str, first['loc'][:2]))}: {first['msg']}"
    except KeyError as error:
        fault = f"{error} is missing"
    except (ValueError, TypeError, AttributeError) as error:
        fault = " ".join(str(error).split())[:200]
    raise TraubeError(f"{where}: not a result in MTEB's form ({fault})")
