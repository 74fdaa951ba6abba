"""Discovery of the modules of a folder that no other file names."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: ModuleType) -> list[ModuleType]:
    """Import the modules and packages of a package, in the order of their names."""
    return [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
