"""Tables on disk: tasks, cells, scores, assignments. It knows where things lie, not what they mean."""

from traube.store.store import CELL_COLUMNS, Manifest, Store

__all__ = ["CELL_COLUMNS", "Manifest", "Store"]
