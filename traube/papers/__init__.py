"""Papers: what they printed, beside what is measured here. One folder a paper, found by itself.

A paper's folder offers `PAPER`, specs of its tables and figures, and keeps in `published/` what is
printed, as csv. It says nothing of assets, files or an orchestrator: whoever wants its tables made
gives it a `Context`.
"""

from importlib import import_module
from pkgutil import iter_modules

from traube.papers.context import Context
from traube.papers.spec import Drawing, Figure, Paper, Table

__all__ = ["Context", "Drawing", "Figure", "Paper", "Table", "papers"]


def papers() -> dict[str, Paper]:
    """All papers with tables or figures, by the name of their folder."""
    folders = [module.name for module in iter_modules(__path__) if module.ispkg]
    modules = {name: import_module(f"{__name__}.{name}") for name in folders}
    return {name: module.PAPER for name, module in modules.items() if hasattr(module, "PAPER")}
