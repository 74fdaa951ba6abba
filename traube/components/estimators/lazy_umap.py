"""The package umap-learn with a lazy import of pynndescent, its search for neighbors.

pynndescent compiles 97 functions at its import, in half a minute on a new installation, and exact neighbors need none
of them.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from threading import Lock
from types import ModuleType
from typing import Any

from traube._core.errors import Incompatible
from traube.components.estimators.compiled import UMAP, compile_once

SEARCH = "pynndescent"
TABLES = {f"{SEARCH}.distances": "named_distances", f"{SEARCH}.sparse": "sparse_named_distances"}
_LOCK = Lock()
# UMAP asks for the metric's name even where it was given the neighbors; pynndescent has these in both tables
KNOWN = ("cosine", "euclidean", "manhattan", "correlation")


def import_umap() -> ModuleType:
    """Import umap-learn with placeholders, each of which imports pynndescent when it is first used.

    A later import of pynndescent itself gives pynndescent.
    """
    with _LOCK:
        if "umap" not in sys.modules and SEARCH not in sys.modules:
            placeholders = {name: _Placeholder(name) for name in (SEARCH, *TABLES)}
            setattr(placeholders[SEARCH], NNDescent.__name__, NNDescent)
            for name, table in TABLES.items():
                setattr(placeholders[name], table, LazyTable(name, table))
            sys.modules.update(placeholders)
            try:
                with compile_once(UMAP):
                    import_module("umap")
            finally:
                for name in placeholders:
                    sys.modules.pop(name, None)
        return import_module("umap")


class _Placeholder(ModuleType):
    """A module that stands for one of pynndescent while umap-learn is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the machinery of imports asks for them
            raise AttributeError(name)
        raise Incompatible(
            f"umap-learn {version('umap-learn')} needs {self.__name__}.{name}, which Traube does not import for it: "
            "install an earlier umap-learn"
        )


class _LazyClass(type):
    """The type of a class that stands for pynndescent's of the same name."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(SEARCH), cls.__name__)(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        # of a module that another thread is importing, nothing is an instance yet
        return isinstance(instance, getattr(sys.modules.get(SEARCH), cls.__name__, ()))


class NNDescent(metaclass=_LazyClass):
    """The index of pynndescent: calling this makes one of pynndescent's own."""


class LazyTable(Mapping[str, Any]):
    """A table of pynndescent's distances by name."""

    def __init__(self, module: str, table: str) -> None:
        self._module, self._table = module, table

    def _load(self) -> Mapping[str, Any]:
        table: Mapping[str, Any] = getattr(import_module(self._module), self._table)
        return table

    def __contains__(self, name: object) -> bool:
        return name in KNOWN or name in self._load()

    def __getitem__(self, name: str) -> Any:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())
