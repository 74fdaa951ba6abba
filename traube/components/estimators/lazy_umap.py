"""umap-learn with a lazy import of pynndescent, its search for neighbours: that compiles 97 functions at its import, in half
a minute where it is new, and exact neighbours need none of them.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

SEARCH = "pynndescent"
TABLES = {f"{SEARCH}.distances": "named_distances", f"{SEARCH}.sparse": "sparse_named_distances"}
# UMAP asks for the metric's name even where it was given the neighbours; pynndescent has these in both tables
KNOWN = ("cosine", "euclidean", "manhattan", "correlation")


def import_umap() -> ModuleType:
    """Return umap-learn. It meets placeholders at its import, which import pynndescent at their first use, whoever uses
    them; who imports pynndescent gets pynndescent.
    """
    if "umap" not in sys.modules and SEARCH not in sys.modules:
        placeholders = {name: ModuleType(name) for name in (SEARCH, *TABLES)}
        setattr(placeholders[SEARCH], NNDescent.__name__, NNDescent)
        for name, table in TABLES.items():
            setattr(placeholders[name], table, LazyTable(name, table))
        sys.modules.update(placeholders)
        try:
            import_module("umap")
        finally:
            for name in placeholders:
                del sys.modules[name]
    return import_module("umap")


class _LazyClass(type):
    """The type of a class that stands for pynndescent's of the same name."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(SEARCH), cls.__name__)(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return SEARCH in sys.modules and isinstance(instance, getattr(sys.modules[SEARCH], cls.__name__))


class NNDescent(metaclass=_LazyClass):
    """pynndescent's index: calling this makes one of pynndescent's own."""


class LazyTable(Mapping[str, Any]):
    """A table of pynndescent's distances by name."""

    def __init__(self, module: str, table: str) -> None:
        self._module, self._table = module, table

    def _loaded(self) -> Mapping[str, Any]:
        table: Mapping[str, Any] = getattr(import_module(self._module), self._table)
        return table

    def __contains__(self, name: object) -> bool:
        return name in KNOWN or name in self._loaded()

    def __getitem__(self, name: str) -> Any:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())
