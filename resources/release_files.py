"""The files of a release: frozen data, every score, and metrics that DVC compares. Equal runs give equal bytes."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from traube._core.errors import Missing
from traube._core.escaping import format_csv
from traube._core.files import write_json, write_text
from traube._core.hashing import frame_digest
from traube._pipeline.current import current_cells
from traube._pipeline.params import Params
from traube._reports.charts import draw_bars
from traube._reports.tables import leaderboard
from traube._storage import Storage
from traube.components.method import name_methods
from traube.tasks.stored import get_manifest

DIGITS = 6


def write_datasets(storage: Storage, tasks: Iterable[str], folder: Path) -> None:
    """Write the frozen corpora and splits, and their versions."""
    versions = {}
    for task in sorted(tasks):
        manifest, row = get_manifest(storage, task), storage.get_task(task)
        if manifest is None or row is None:
            continue
        target = folder / "tasks" / task
        target.mkdir(parents=True, exist_ok=True)
        for table in ("corpus", "splits"):
            shutil.copyfile(storage.get_path(row.files[table]), target / f"{table}.parquet")
        versions[task] = {"corpus": manifest.corpus_version, "splits": manifest.rows_version}
    write_json(folder / "datasets.json", versions)


def write_scores(storage: Storage, params: Params, folder: Path) -> None:
    """Write all scores of the benchmark's own tasks, models and protocol, and of each task and model their hash for git.

    There is a row for each split, level, method, seed and metric.
    """
    protocols = {params.protocol: params.chosen()}
    cells = _select_benchmark_rows(current_cells(storage, protocols), params)
    scores = storage.read_scores(cells).merge(
        cells.assign(method=name_methods(cells))[["cell_id", "task", "model", "method", "seed"]]
    )
    columns = ["task", "model", "method", "seed", "split", "level", "metric", "value"]
    scores = scores[columns].sort_values(columns[:-1], ignore_index=True).round(DIGITS)
    write_text(folder / "scores.csv", format_csv(scores))
    hashes: dict[str, dict[str, str]] = {}
    for (task, model), rows in scores.groupby(["task", "model"]):
        hashes.setdefault(str(task), {})[str(model)] = frame_digest(rows.reset_index(drop=True))
    write_json(folder / "scores.json", hashes)


def write_metrics(storage: Storage, params: Params, folder: Path) -> None:
    """Write the leaderboard as a table and a chart, and each model's best score by task and level for `dvc metrics diff`."""
    from matplotlib import rc_context

    table = leaderboard(storage, protocols={params.protocol: params.chosen()})
    table = _select_benchmark_rows(table[table["status"] == "done"], params)
    columns = ["task", "level", "model", "method", "metric", "mean", "sd", "low", "high", "rank_low", "rank_high"]
    if table.empty:
        raise Missing(
            "there is no score of params.yaml's tasks and models in TRAUBE_HOME: `dvc repro --force benchmark`"
        )
    best = table[table["best"].astype(bool)][columns].round(DIGITS)
    write_text(folder / "leaderboard.csv", format_csv(best))
    with rc_context({"svg.hashsalt": "traube"}):  # equal scores, equal bytes
        draw_bars(best).savefig(folder / "leaderboard.svg", bbox_inches="tight", metadata={"Date": None})
    metrics: dict[str, dict[str, dict[str, float]]] = {}
    for row in best.itertuples(index=False):
        metrics.setdefault(row.task, {}).setdefault(row.level, {})[row.model] = row.mean
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1, sort_keys=True) + "\n")


def _select_benchmark_rows(table: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Return the rows of the tasks, models and protocol in params.yaml, without this machine's own checkpoints."""
    return table[
        table["task"].isin(params.tasks)
        & table["model"].isin(params.models)
        & (table["protocol"] == params.protocol)
        & ~table["own_choice"].astype(bool)
    ]
