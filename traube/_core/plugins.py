"""Plug-ins: packages that add to Traube what no other file of it names.

A plug-in is a folder of `traube/papers/`, or an installed package that an entry point of the group `traube.plugins` names.
What it adds lies in modules, or in packages of modules, that are called after the kind of their content: `readers`,
`methods`, `trainers`, `similarities`, `kinds`, `commands` and `paper`. Each is imported when its kind is needed.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import TypeVar

from traube._core.errors import Conflict, Failed

GROUP = "traube.plugins"
PAPERS = Path(__file__).parents[1] / "papers"
T = TypeVar("T")


def modules_of(package: ModuleType) -> list[ModuleType]:
    """Import the modules and packages of a package, in the order of their names."""
    return [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]


@cache
def find_plugins() -> dict[str, str]:
    """Return the packages of the plug-ins by name: first the papers of `traube/papers/`, then what is installed."""
    papers = {module.name: f"traube.papers.{module.name}" for module in iter_modules([str(PAPERS)])}
    installed = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return collect("plug-in", [*papers.items(), *((entry.name, entry.value) for entry in installed)])


def import_plugins(kind: str) -> list[tuple[str, ModuleType]]:
    """Import the modules of a kind that the plug-ins have; return each with the name of its plug-in.

    Raises
    ------
    TraubeError
        If one cannot be imported.
    """
    modules: list[tuple[str, ModuleType]] = []
    for name, package in find_plugins().items():
        try:
            if find_spec(f"{package}.{kind}") is not None:
                module = import_module(f"{package}.{kind}")
                modules += [(name, one) for one in (modules_of(module) if hasattr(module, "__path__") else [module])]
        except Exception as error:
            raise Failed(f"plug-in '{name}' ({package}): {error}; update or uninstall it") from error
    return modules


class Registrations:
    """Modules that enter things into registries: those of a package of Traube's, and the plug-ins' of a kind.

    They are imported when a registry is first read, since they import the package that holds it.
    """

    def __init__(self, package: str, kind: str) -> None:
        self._package, self._kind, self._is_begun, self._lock = package, kind, False, RLock()

    def complete(self) -> None:
        """Import the modules, once."""
        with self._lock:
            if self._is_begun:  # and done, or this is a module that is being imported
                return
            self._is_begun = True
            try:
                modules_of(import_module(self._package))
                import_plugins(self._kind)
            except BaseException:
                self._is_begun = False
                raise


class Registry(MutableMapping[str, T]):
    """Things by name."""

    def __init__(self, registrations: Registrations) -> None:
        self._registrations, self._things = registrations, dict[str, T]()

    def _complete(self) -> dict[str, T]:
        self._registrations.complete()
        return self._things

    def __getitem__(self, name: str) -> T:
        return self._complete()[name]

    def __setitem__(self, name: str, thing: T) -> None:
        self._complete()[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._complete()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._complete())

    def __len__(self) -> int:
        return len(self._complete())


def collect(what: str, named: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return things by name.

    Raises
    ------
    TraubeError
        If two have the same name.
    """
    by_name: dict[str, T] = {}
    for name, value in named:
        if name in by_name:
            raise Conflict(f"there are two {what}s called '{name}': rename or uninstall one of them")
        by_name[name] = value
    return by_name
