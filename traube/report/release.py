"""What a release holds: the data as it was frozen, every score, and the metrics that DVC compares.
Equal runs, equal bytes.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Params, Protocol
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_json, write_text
from traube.foundation.inert import csv_text
from traube.report.tables import leaderboard
from traube.store import Store

DIGITS = 6


def write_datasets(store: Store, tasks: Iterable[str], folder: Path) -> None:
    """The frozen corpora and splits, and their versions."""
    versions = {}
    for task in sorted(tasks):
        manifest = store.manifest(task)
        if manifest is None:
            continue
        target = folder / "tasks" / task
        target.mkdir(parents=True, exist_ok=True)
        for table in ("corpus.parquet", "splits.parquet"):
            shutil.copyfile(store.folder / "tasks" / task / table, target / table)
        versions[task] = {"corpus": manifest.corpus_version, "splits": manifest.splits_version}
    write_json(folder / "datasets.json", versions)


def write_scores(store: Store, params: Params, folder: Path) -> None:
    """Every score of the benchmark's own tasks, models and protocol: one row per split, level,
    method, seed and metric.
    """
    protocols = {params.protocol: params.chosen()}
    cells = _own(current_cells(store, protocols), params)
    scores = store.scores(cells).merge(
        cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])[["cell_id", "task", "model", "method", "seed"]]
    )
    columns = ["task", "model", "method", "seed", "split", "level", "metric", "value"]
    scores = scores[columns].sort_values(columns[:-1], ignore_index=True)
    write_text(folder / "scores.csv", csv_text(scores.round(DIGITS)))


def write_metrics(store: Store, params: Params, folder: Path) -> None:
    """The leaderboard as a table, and each model's best score by task and level for
    `dvc metrics diff`.
    """
    protocols: Mapping[str, Protocol] = {params.protocol: params.chosen()}
    table = leaderboard(store, protocols=protocols)
    table = _own(table[table["status"] == "done"], params)
    shown = ["task", "level", "model", "method", "metric", "mean", "sd", "low", "high", "rank_low", "rank_high"]
    if table.empty:
        raise TraubeError(
            "there is no score of params.yaml's tasks and models in TRAUBE_HOME: `dvc repro --force benchmark`"
        )
    best = table[table["best"].astype(bool)][shown].round(DIGITS)
    write_text(folder / "leaderboard.csv", csv_text(best))
    metrics: dict[str, dict[str, dict[str, float]]] = {}
    for row in best.itertuples(index=False):
        metrics.setdefault(row.task, {}).setdefault(row.level, {})[row.model] = row.mean
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1, sort_keys=True) + "\n")


def _own(table: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Rows of the tasks, models and protocol that params.yaml names: checkpoints of this machine
    are no part of a release.
    """
    return table[
        table["task"].isin(params.tasks)
        & table["model"].isin(params.models)
        & (table["protocol"] == params.protocol)
        & ~table["own_choice"].astype(bool)
    ]
