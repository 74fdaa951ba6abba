"""Scores that MLflow lacks: documents, entered before scores are stored and removed once MLflow has them."""

from collections.abc import Sequence

from traube.core import paths
from traube.pipeline.plan import Request
from traube.storage import open_storage

DEBT = "debt"  # kind of these documents


def add_debt(model: str, task: str, protocol: str, own_choice: Sequence[str] = ()) -> list[list[str]]:
    """Note that MLflow lacks scores of a model on a task, and return the ids of cells to report, by run.

    `own_choice` are the ids of those cells that are of methods or seeds that are not the protocol's. They are
    returned with those that earlier runs could not report.
    """
    storage, key = open_storage(paths.home()), f"{task}/{model}/{protocol}"
    known = [row["content"]["own_choice"] for row in storage.read_rows("document", kind=DEBT, key=key)]
    lacking = [list(ids) for ids in dict.fromkeys(map(tuple, [*(known[0] if known else ()), own_choice])) if ids]
    storage.save("document", {"kind": DEBT, "key": key, "content": {"own_choice": lacking}})
    return lacking


def settle_debt(model: str, task: str, protocol: str) -> None:
    """Note that MLflow has all scores of a model on a task under a protocol."""
    storage = open_storage(paths.home())
    storage.remove("document", storage.read_rows("document", kind=DEBT, key=f"{task}/{model}/{protocol}"))


def unlogged(request: Request) -> dict[str, list[str]]:
    """Return the requested tasks of which MLflow lacks scores, by model."""
    debts = {row["key"] for row in open_storage(paths.home()).read_rows("document", kind=DEBT)}
    name = request.protocol_name
    by_model = {m: [task for task in request.tasks if f"{task}/{m}/{name}" in debts] for m in request.models}
    return {model: lacking for model, lacking in by_model.items() if lacking}
