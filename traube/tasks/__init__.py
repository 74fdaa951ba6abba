"""Tasks: the data model (`task`), the registry of those that come with Traube, and
the user's own cards.

How raw data becomes texts and splits belongs here; each raw format is a module in `readers/`. What
is computed of a task does not.
"""

import re
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from traube.foundation.cards import read_each, task_files
from traube.foundation.config import read_yaml
from traube.foundation.errors import TraubeError, unknown
from traube.tasks.source import Source
from traube.tasks.task import Task

__all__ = ["Source", "card_errors", "get_source", "load_task", "sources"]

_LEGAL = re.compile(r"[a-z0-9][a-z0-9_]*")
_RESERVED = {"checkpoints", "leaderboard", "papers", "registry", "report", "studies"}  # names of the asset graph


def sources() -> dict[str, Source]:
    """All tasks by name: Traube's own, then those of the cards that can be used."""
    return {**_built_in(), **_read_cards()[0]}


def card_errors() -> dict[Path, TraubeError]:
    """The cards that cannot be used, and why: a broken card does not take the others down."""
    return _read_cards()[1]


def get_source(name: str) -> Source:
    """The source of a task.

    Raises
    ------
    TraubeError
        If there is no such task, or its card is broken.
    """
    cards, errors = _read_cards()
    for path, error in errors.items():
        if path.stem == name and name not in _built_in():
            raise error
    known = {**cards, **_built_in()}
    if name not in known:
        raise unknown("task", name, known)
    return known[name]


def load_task(name: str) -> Task:
    """Read a task from its raw data, which is downloaded first where that can be done.

    Raises
    ------
    Unavailable
        If its raw data is missing.
    TraubeError
        If there is no such task, or its raw data cannot be read.
    """
    source = get_source(name)
    source.fetch()
    return source.load()


@lru_cache(maxsize=1)
def _readers() -> tuple[ModuleType, ...]:
    """The modules of `traube.tasks.readers`, found by themselves."""
    from traube.tasks import readers

    return tuple(import_module(f"{readers.__name__}.{module.name}") for module in iter_modules(readers.__path__))


def _built_in() -> dict[str, Source]:
    readers = [module for module in _readers() if hasattr(module, "sources")]
    return {source.name: source for module in readers for source in module.sources()}


def _card_readers() -> dict[str, Any]:
    """By the key that a card has, what reads its data."""
    return {key: reader for module in _readers() for key, reader in getattr(module, "CARDS", {}).items()}


def _read_cards() -> tuple[dict[str, Source], dict[Path, TraubeError]]:
    """The sources of the cards, and the errors of those that are broken."""
    taken = set(_built_in())

    def read(path: Path) -> Source:
        source = _read_card(path, taken)
        taken.add(path.stem)
        return source

    return read_each(task_files(), read)


def _read_card(path: Path, taken: set[str]) -> Source:
    if not _LEGAL.fullmatch(path.stem):
        raise TraubeError(f"{path}: a task's name is the name of its card: use small letters, digits and _ only")
    if path.stem in taken | _RESERVED:
        raise TraubeError(f"{path}: the name '{path.stem}' is taken; rename the card")
    value, key_lines = read_yaml(path)
    if (name := value.get("name", path.stem)) != path.stem:
        line = key_lines.get(("name",), 1)
        raise TraubeError(f"{path}: line {line}: name: '{name}' is not the name of the card; leave it out")
    readers = _card_readers()
    for key, reader in readers.items():
        if key in value:
            return reader.from_card(path, value, key_lines)
    keys = ", ".join(f"`{key}`" for key in sorted(readers))
    raise TraubeError(f"{path}: line 1: expected one of the keys {keys} (a task) or `model`")
