"""What encoding took, as it is stored."""

import math

from traube.core.measure import Cost
from traube.storage.storage import Storage

COST = "cost"  # kind of document


def save_cost(storage: Storage, task: str, fingerprint: str, cost: Cost) -> None:
    """Keep what it took to encode a task's texts, unless it was measured on more of them before."""
    before = get_cost(storage, task, fingerprint)
    if before is None or before.texts <= cost.texts:
        content = {**vars(cost), "memory": None if math.isnan(cost.memory) else cost.memory}
        storage.save("document", {"kind": COST, "key": f"{task}/{fingerprint}", "content": content})


def get_cost(storage: Storage, task: str, fingerprint: str) -> Cost | None:
    """Return what it took to encode a task's texts; None where that was not measured."""
    for row in storage.read_rows("document", kind=COST, key=f"{task}/{fingerprint}"):
        kept = row["content"]
        return Cost(kept["texts"], kept["seconds"], math.nan if kept["memory"] is None else kept["memory"])
    return None
