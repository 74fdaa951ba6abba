"""Papers: the numbers they printed, beside those measured here. One folder for each paper, discovered automatically.

It offers `PAPER`, specs of its tables and figures, measured from a `Context`; `published/` holds what is printed.
"""

import sys

from traube._core.plugins import modules_of
from traube._papers.context import Context
from traube._papers.spec import Drawing, Figure, Paper, Table

__all__ = ["Context", "Drawing", "Figure", "Paper", "Table", "papers"]


def papers() -> dict[str, Paper]:
    """Return all papers with tables or figures by the name of their folder."""
    modules = {module.__name__.rpartition(".")[2]: module for module in modules_of(sys.modules[__name__])}
    return {name: module.PAPER for name, module in modules.items() if hasattr(module, "PAPER")}
