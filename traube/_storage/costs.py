"""Stored costs of encoding."""

import math

from traube._core.measure import Cost
from traube._storage.storage import Storage

COST = "cost"  # kind of document
NO_TASK = ""  # in place of a task's name: texts that somebody grouped


def save_cost(storage: Storage, task: str, fingerprint: str, cost: Cost) -> None:
    """Store the cost of encoding a task's texts, unless it was measured on more of them before."""
    before = get_cost(storage, task, fingerprint)
    if before is None or before.texts <= cost.texts:
        content = {**vars(cost), "memory": None if math.isnan(cost.memory) else cost.memory}
        if math.isnan(cost.money):
            del content["money"]
        storage.save("document", {"kind": COST, "key": f"{task}/{fingerprint}", "content": content})


def get_cost(storage: Storage, task: str, fingerprint: str) -> Cost | None:
    """Return the cost of encoding a task's texts; None where it was not measured."""
    return read_costs(storage, key=f"{task}/{fingerprint}").get((task, fingerprint))


def read_costs(storage: Storage, **equal: str) -> dict[tuple[str, str], Cost]:
    """Return the costs of encoding, by task (empty: texts of no task) and fingerprint of the model."""
    found = {}
    for row in storage.read_rows("document", kind=COST, **equal):
        kept, (task, _, fingerprint) = row["content"], row["key"].rpartition("/")
        memory, money = (math.nan if kept.get(name) is None else kept[name] for name in ("memory", "money"))
        found[task, fingerprint] = Cost(kept["texts"], kept["seconds"], memory, money)
    return found
