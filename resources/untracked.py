"""Scores that MLflow lacks: documents, entered before scores are stored and removed once MLflow has them."""

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

from traube._core import paths
from traube._pipeline.request import Request
from traube._storage import Document, open_storage


class Debt(Document):
    """Scores that MLflow lacks, under the task, the model and the protocol."""

    kind: ClassVar[str] = "debt"
    own_choice: list[list[str]]  # ids of cells that are of methods or seeds that are not the protocol's, by run


def add_debt(model: str, task: str, protocol: str, own_choice: Sequence[str] = ()) -> list[list[str]]:
    """Note that MLflow lacks scores of a model on a task, and return the ids of cells to report, by run.

    `own_choice` are the ids of those cells that are of methods or seeds that are not the protocol's. They are
    returned with those that earlier runs could not report.
    """
    storage, key = open_storage(paths.home()), f"{task}/{model}/{protocol}"
    known = storage.get_document(Debt, key)
    lacking = [
        list(ids) for ids in dict.fromkeys(map(tuple, [*(known.own_choice if known else ()), own_choice])) if ids
    ]
    storage.save_document(Debt(key=key, own_choice=lacking))
    return lacking


def settle_debt(model: str, task: str, protocol: str) -> None:
    """Note that MLflow has all scores of a model on a task under a protocol."""
    storage = open_storage(paths.home())
    if debt := storage.get_document(Debt, f"{task}/{model}/{protocol}"):
        storage.remove_document(debt)


def find_untracked(request: Request) -> dict[str, list[str]]:
    """Return the requested tasks of which MLflow lacks scores, by model."""
    keys = {debt.key for debt in open_storage(paths.home()).read_documents(Debt)}
    lacking: dict[str, list[str]] = {}
    for model, task in product(request.models, request.tasks):
        if f"{task}/{model}/{request.protocol_name}" in keys:
            lacking.setdefault(model, []).append(task)
    return lacking
