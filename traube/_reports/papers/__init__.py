"""Papers: the numbers they printed, beside those measured here.

A plug-in's module `paper` offers `PAPER`, specs of its tables and figures, measured from a `Context`.
"""

from traube._core.plugins import import_plugins
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing, Figure, Paper, Table

__all__ = ["Context", "Drawing", "Figure", "Paper", "Table", "papers"]


def papers() -> dict[str, Paper]:
    """Return the papers by the names of their plug-ins."""
    return {name: module.PAPER for name, module in import_plugins("paper")}
