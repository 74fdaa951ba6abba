"""MTEB's result files, written and read. What was read is kept apart: published rows stand beside
measured ones, never among them.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.foundation.errors import TraubeError
from traube.foundation.files import locked, write_json
from traube.foundation.seals import Damaged, read_parquet, write_parquet
from traube.methods import parse_method
from traube.models import model_cards
from traube.store import Store
from traube.tasks.task import TaskCard

V_MEASURE = "v_measure/noise_as_cluster"
LANGUAGES = {"de": "deu-Latn", "en": "eng-Latn"}
IMPORTED_COLUMNS = (
    "source",
    "task",
    "model",
    "revision",
    "dataset_revision",
    "mteb_version",
    "metric",
    "mean",
    "sd",
    "splits",
)
IMPORTED = "published.parquet"  # its name in homes that exist


# writing


def export_mteb(store: Store, protocols: Mapping[str, Protocol], method: str, folder: Path) -> list[Path]:
    """Write `<org>__<model>/<revision>/<Task>.json` for every model and labelled
    task scored by a method.

    MTEB knows one method; its own is mini-batch k-means on the vectors as they are. A revision that
    the hub does not know is the model's fingerprint. Seeds are averaged, split by split.

    Returns
    -------
    The files

    Raises
    ------
    TraubeError
        If nothing is scored by that method.
    """
    cells = current_cells(store, protocols)
    cells = cells[cells["status"] == "done"]
    methods = cells["reducer"] + "/" + cells["clusterer"]
    if len(cells) and method not in set(methods):
        parse_method(method)  # a misspelt one is named as such
        raise TraubeError(f"nothing is scored by {method}; `traube run --method {method}` scores it")
    cells = cells[methods == method]
    scores = store.scores(cells, [V_MEASURE, "ami/noise_as_cluster"]).merge(cells, on="cell_id")
    written = []
    for (task, model, protocol), rows in scores.groupby(["task", "model", "protocol"]):
        card = store.card(task)
        if card is None:
            continue
        org, revision = _model_folder(model, rows["fingerprint"].iloc[0])
        # protocols are no part of MTEB's layout; the first keeps the plain place
        base = folder if protocol == min(scores["protocol"]) else folder / protocol.replace(" ", "_")
        path = base / org / revision / f"{card.mteb or task}.json"
        write_json(path, _result(card, rows))
        written.append(path)
    if not written:
        raise TraubeError(f"nothing is scored by {method} yet: `traube run --method {method}`")
    return written


def _model_folder(model: str, fingerprint: str) -> tuple[str, str]:
    card = model_cards().get(model)
    if card is None or card.model is None or "/" not in card.model or Path(card.model).is_absolute():
        return f"traube__{model}", fingerprint
    return card.model.replace("/", "__"), card.revision or fingerprint


def _result(card: TaskCard, rows: pd.DataFrame) -> dict[str, Any]:
    """One result in MTEB's form."""
    entry: dict[str, Any] = {}
    for metric, name, plural in ((V_MEASURE, "v_measure", "v_measures"), ("ami/noise_as_cluster", "ami", "ami_scores")):
        own = rows[rows["metric"] == metric]
        by_split = own.groupby(["level", "split"], sort=False)["value"].mean()
        levels = {f"Level {i}": by_split[level].tolist() for i, level in enumerate(by_split.index.unique("level"))}
        values = by_split.to_numpy()
        entry |= {name: float(values.mean()), f"{name}_std": float(values.std()), plural: levels}
    main = {
        "main_score": entry["v_measure"],
        "hf_subset": "default",
        "languages": [LANGUAGES.get(card.language, card.language)],
    }
    seconds = float(rows.drop_duplicates("cell_id")["seconds"].sum())
    return {
        "dataset_revision": str(rows["data_version"].iloc[0]),
        "task_name": card.mteb or card.name,
        "mteb_version": None,
        "evaluation_time": seconds,
        "kg_co2_emissions": None,
        "scores": {"test": [{**main, **entry}]},
    }


# reading


def import_mteb(store: Store, path: Path) -> pd.DataFrame:
    """Read results in MTEB's form and keep them as published rows; rows of the same
    source are replaced.

    Parameters
    ----------
    path : a result file, a folder of them (`<org>__<model>/<revision>/<Task>.json`), or a
        `.jsonl` / `.jsonl.gz` of flat rows

    Returns
    -------
    DataFrame with IMPORTED_COLUMNS; scores in [0, 1]; `splits` is a list of each split's V-measure,
    empty where not given

    Raises
    ------
    TraubeError
        If there is nothing to read, or a file is not of that form; the message names file and line.
    """
    if not path.exists():
        raise TraubeError(f"{path}: there is no such file or folder")
    flat = path.name.endswith((".jsonl", ".jsonl.gz"))
    try:
        rows = list(_flat_rows(path) if flat else _result_rows(path))
    except (OSError, EOFError) as error:
        raise TraubeError(f"{path}: cannot be read ({error})") from None
    if not rows:
        raise TraubeError(f"{path}: holds no clustering results in MTEB's form")
    table = pd.DataFrame([{"source": str(path.resolve()), **row} for row in rows], columns=list(IMPORTED_COLUMNS))
    with locked(store.table(IMPORTED)):
        _replace(store, path, table)
    return table


def _replace(store: Store, path: Path, table: pd.DataFrame) -> None:
    others = imported_results(store)
    others = others[others["source"] != str(path.resolve())]
    both = pd.concat([others, table], ignore_index=True) if len(others) else table
    write_parquet(store.table(IMPORTED), both)


def imported_results(store: Store) -> pd.DataFrame:
    """What was imported; DataFrame with IMPORTED_COLUMNS.

    Raises
    ------
    TraubeError
        If the file is damaged: only whoever imported the results can do so again.
    """
    path = store.table(IMPORTED)
    try:
        return read_parquet(path)
    except FileNotFoundError:
        return pd.DataFrame(columns=list(IMPORTED_COLUMNS))
    except Damaged:
        raise TraubeError(f"{path}: damaged; delete it, and import the results again") from None


def _flat_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows with model, task, v_measure and v_measures, as in a dump of a results repository."""
    open_ = gzip.open if path.suffix == ".gz" else open
    with open_(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                yield _row(
                    row["task"], row["model"], row["model_revision"], row["dataset_revision"], row["mteb_version"], row
                )
            except (ValueError, KeyError, TypeError) as error:
                raise TraubeError(f"{path}: line {number}: not a result in MTEB's form ({error!r})") from None


def _result_rows(path: Path) -> Iterator[dict[str, Any]]:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*.json") if p.name != "model_meta.json")
    for file in files:
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
            if path.is_dir() and not {"scores", "task_name"} <= set(result):
                continue  # something else that lies there too
            for entry in result["scores"].get("test", []):
                if "v_measure" not in entry:
                    continue  # another kind of task
                model = file.parent.parent.name.replace("__", "/", 1)
                yield _row(
                    *(
                        result["task_name"],
                        model,
                        file.parent.name,
                        result["dataset_revision"],
                        result.get("mteb_version"),
                    ),
                    entry,
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraubeError(f"{file}: not a result in MTEB's form ({error!r})") from None


def _row(
    task: str, model: str, revision: str, dataset: str, version: str | None, entry: Mapping[str, Any]
) -> dict[str, Any]:
    measures = entry.get("v_measures") or []
    levels = list(measures.values()) if isinstance(measures, dict) else [measures]
    splits = [float(v) for level in levels for v in level]
    sd = entry.get("v_measure_std")
    return {
        "task": task,
        "model": model,
        "revision": revision,
        "dataset_revision": dataset,
        "mteb_version": version or "",
        "metric": V_MEASURE,
        "mean": float(entry["v_measure"]),
        "sd": float(sd) if sd is not None else (float(np.std(splits)) if splits else float("nan")),
        "splits": splits,
    }
