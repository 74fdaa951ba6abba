"""Stored costs of encoding."""

import math
from typing import ClassVar

from traube._core.measure import Cost
from traube._storage.documents import Document
from traube._storage.storage import Storage

NO_TASK = ""  # in place of a task's name: texts that somebody grouped


class EncodingCost(Document):
    """The cost of encoding a task's texts, under the task and the model's fingerprint."""

    kind: ClassVar[str] = "cost"
    texts: int
    seconds: float
    memory: float | None = None  # as `Cost` has it, and None for nan
    money: float | None = None

    @property
    def cost(self) -> Cost:
        """The cost, with nan for what is not known."""
        memory, money = (math.nan if value is None else value for value in (self.memory, self.money))
        return Cost(self.texts, self.seconds, memory, money)


def save_cost(storage: Storage, task: str, fingerprint: str, cost: Cost) -> None:
    """Store the cost of encoding a task's texts, unless it was measured on more of them before."""
    before = get_cost(storage, task, fingerprint)
    if before is None or before.texts <= cost.texts:
        memory, money = (None if math.isnan(value) else value for value in (cost.memory, cost.money))
        key = f"{task}/{fingerprint}"
        storage.save_document(EncodingCost(key=key, texts=cost.texts, seconds=cost.seconds, memory=memory, money=money))


def get_cost(storage: Storage, task: str, fingerprint: str) -> Cost | None:
    """Return the cost of encoding a task's texts; None where it was not measured."""
    measured = storage.get_document(EncodingCost, f"{task}/{fingerprint}")
    return None if measured is None else measured.cost


def read_costs(storage: Storage) -> dict[tuple[str, str], Cost]:
    """Return the costs of encoding, by task (empty: texts of no task) and fingerprint of the model."""
    keyed = ((measured.key.rpartition("/"), measured.cost) for measured in storage.read_documents(EncodingCost))
    return {(task, fingerprint): cost for (task, _, fingerprint), cost in keyed}
