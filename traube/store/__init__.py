"""Tables on disk: tasks, cells, scores, assignments. It knows where things lie, not what they mean."""

from traube.store.cells import CELL_COLUMNS
from traube.store.index import one_look
from traube.store.store import REDUCTIONS, Cost, Manifest, Store

__all__ = ["CELL_COLUMNS", "REDUCTIONS", "Cost", "Manifest", "Store", "one_look"]
