"""Models that a person took off the benchmark: what was scored of them before counts no more, until `clean` removes it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pandas as pd

from traube._core.errors import Conflict, unknown
from traube._storage import Document, Storage
from traube.models import checkpoints


class Forgotten(Document):
    """A forgotten model, its key: no cell that was made before `since` counts."""

    kind: ClassVar[str] = "forgotten"
    since: str  # as cells have it


def read_forgotten(storage: Storage) -> dict[str, str]:
    """Return when each forgotten model was forgotten."""
    return {forgotten.key: forgotten.since for forgotten in storage.read_documents(Forgotten)}


def list_spent(storage: Storage) -> list[str]:
    """Return the models that were forgotten over a day ago and not evaluated since: what is stored of them may go."""
    day_ago = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="microseconds")
    counting = {*drop_forgotten(storage.read_cells(), storage)["model"]}
    return [model for model, since in read_forgotten(storage).items() if since < day_ago and model not in counting]


def drop_spent(storage: Storage) -> None:
    """Forget that models were forgotten of which nothing is left: no cells, and no folder of checkpoints."""
    there = {*storage.read_cells()["model"], *(folder.name for folder in checkpoints.folders())}
    recall(storage, {*list_spent(storage)} - there)


def forget(storage: Storage, model: str, named: Iterable[str], champions: Mapping[str, str]) -> int:
    """Take a model off the benchmark, and return how many cells count no more.

    Parameters
    ----------
    storage : Storage
        The storage that holds the model's cells.
    model : str
        Name of the model.
    named : iterable of str
        Models of params.yaml, which the next night would evaluate again.
    champions : mapping of str to str
        Name of each task's champion, by task.

    Raises
    ------
    Conflict
        If params.yaml names the model, or it is a champion.
    Unknown
        If nothing of the model is scored.
    """
    cells = storage.read_cells()
    counting = drop_forgotten(cells, storage)
    if model not in {*cells["model"]}:
        raise unknown("scored model", model, {*counting["model"]})
    if model in {*named}:
        raise Conflict(f"{model}: take it off `models:` of params.yaml first: the next night would evaluate it again")
    if served := sorted(task for task, champion in champions.items() if champion == model):
        raise Conflict(
            f"{model} is the champion of {', '.join(served)}: make another one champion first, `traube promote {served[0]}`"
        )
    storage.save_document(Forgotten(key=model, since=datetime.now(UTC).isoformat(timespec="microseconds")))
    return int((counting["model"] == model).sum())


def recall(storage: Storage, models: Iterable[str]) -> list[str]:
    """Count what is stored of models again, since somebody asks for them; return those that were forgotten."""
    recalled = [forgotten for forgotten in storage.read_documents(Forgotten) if forgotten.key in {*models}]
    for forgotten in recalled:
        storage.remove_document(forgotten)
    return [forgotten.key for forgotten in recalled]


def drop_forgotten(cells: pd.DataFrame, storage: Storage) -> pd.DataFrame:
    """Return the cells of models that are not forgotten, or were evaluated again since."""
    forgotten = read_forgotten(storage)
    return cells[cells["created"] > cells["model"].map(forgotten).fillna("")] if forgotten else cells
