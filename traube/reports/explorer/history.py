"""How a model's score went from one state of its weights, the data and the code to the next."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from traube.comparison.candidates import main_metric
from traube.models.checkpoints import trained_on
from traube.pipeline.params import Protocol
from traube.reports.explorer.board import number
from traube.storage import Storage
from traube.tasks.stored import get_card

STATE = ["protocol", "model", "fingerprint", "data_version", "code_version"]


def history(storage: Storage, protocols: Mapping[str, Protocol], task: str) -> list[dict[str, Any]]:
    """Everything ever scored of a task: for each model, weights, data and code, the mean of the best
    method, in order of time.

    A checkpoint of the task's own (`<trainer>__<task>__<name>`) belongs to its trainer's `line`, so
    that one can see how its checkpoints went.
    """
    cells = storage.read_cells(task)
    cells = cells[cells["status"] == "done"]
    if cells.empty:
        return []
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    card = get_card(storage, task)
    wanted = {name: main_metric(card, protocols.get(name)) for name in cells["protocol"].unique()}
    scores = storage.read_scores(cells, set(wanted.values())).merge(cells[["cell_id", "method", "created", *STATE]])
    scores = scores[scores["metric"] == scores["protocol"].map(wanted)]
    means = scores.groupby([*STATE, "method"], dropna=False).agg(mean=("value", "mean"), created=("created", "max"))
    best = means.reset_index().sort_values("mean", ascending=False).drop_duplicates(STATE).sort_values("created")
    return [
        {
            "line": _line(row.model, task),
            "protocol": row.protocol,
            "model": row.model,
            "weights": row.fingerprint[:12],
            "data": row.data_version[:12],
            "code": str(row.code_version),
            "method": row.method,
            "score": number(100 * row.mean),
            "created": row.created,
        }
        for row in best.itertuples(index=False)
        if pd.notna(row.mean)
    ]


def _line(model: str, task: str) -> str:
    trainer, *rest = model.split("__")
    return f"{trainer}'s checkpoints" if rest and trained_on(model) == task else model
