"""Tasks: the data model (`task`), the registry of those that come with Traube, and
the user's own cards.

How raw data becomes texts and splits belongs here; each raw format is a module in `readers/`. What
is computed of a task does not.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from traube.foundation.cards import read_each, task_files
from traube.foundation.config import read_yaml
from traube.foundation.errors import TraubeError, Unknown, unknown
from traube.foundation.plugins import modules_of
from traube.tasks.scored_pairs import PairSource, PairTask
from traube.tasks.source import Source
from traube.tasks.task import Task

__all__ = [
    "PairSource",
    "PairTask",
    "Source",
    "card_errors",
    "get_pair_source",
    "get_source",
    "load_pairs",
    "load_task",
    "own_tasks",
    "pair_sources",
    "sources",
]

S = TypeVar("S")

_LEGAL = re.compile(r"[a-z0-9][a-z0-9_]*")
# names of the asset graph
_RESERVED = {"checkpoints", "leaderboard", "papers", "registry", "report", "studies", "sweeps"}


def sources() -> dict[str, Source]:
    """All tasks by name: Traube's own, then those of the cards that can be used."""
    cards = {name: source for name, source in _read_cards()[0].items() if isinstance(source, Source)}
    return {**_built_in(), **cards}


def own_tasks() -> set[str]:
    """Names of the tasks that cards describe: the user's own."""
    return {name for name, source in _read_cards()[0].items() if isinstance(source, Source)}


def pair_sources() -> dict[str, PairSource]:
    """All pair tasks by name, as `sources`."""
    cards = {name: source for name, source in _read_cards()[0].items() if isinstance(source, PairSource)}
    return {**_built_in_pairs(), **cards}


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
    known = sources()
    if name not in known and name in pair_sources():
        raise Unknown(f"'{name}' is a pair task: `traube pairs -t {name}` scores it")
    return _named("task", name, known)


def get_pair_source(name: str) -> PairSource:
    """The source of a pair task; as `get_source`."""
    known = pair_sources()
    if name not in known and name in sources():
        raise Unknown(f"'{name}' is no pair task: `traube run -t {name}` evaluates it")
    return _named("pair task", name, known)


def _named(kind: str, name: str, known: Mapping[str, S]) -> S:
    if name in known:
        return known[name]
    for path, error in card_errors().items():
        if path.stem == name:
            raise error
    raise unknown(kind, name, known)


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


def load_pairs(name: str) -> PairTask:
    """Read a pair task from its raw data; as `load_task`."""
    source = get_pair_source(name)
    source.fetch()
    return source.load()


@lru_cache(maxsize=1)
def _readers() -> tuple[ModuleType, ...]:
    """The modules of `traube.tasks.readers`, found by themselves."""
    from traube.tasks import readers

    return tuple(modules_of(readers))


def _built_in() -> dict[str, Source]:
    readers = [module for module in _readers() if hasattr(module, "sources")]
    return {source.name: source for module in readers for source in module.sources()}


def _built_in_pairs() -> dict[str, PairSource]:
    readers = [module for module in _readers() if hasattr(module, "pair_sources")]
    return {source.name: source for module in readers for source in module.pair_sources()}


def _read_cards() -> tuple[dict[str, Source | PairSource], dict[Path, TraubeError]]:
    """The sources of the cards, and the errors of those that are broken."""
    taken = {*_built_in(), *_built_in_pairs()}

    def read(path: Path) -> Source | PairSource:
        source = _read_card(path, taken)
        taken.add(path.stem)
        return source

    return read_each(task_files(), read)


def _read_card(path: Path, taken: set[str]) -> Source | PairSource:
    if not _LEGAL.fullmatch(path.stem):
        raise TraubeError(f"{path}: a task's name is the name of its card: use small letters, digits and _ only")
    if path.stem in taken | _RESERVED:
        raise TraubeError(f"{path}: the name '{path.stem}' is taken; rename the card")
    value, key_lines = read_yaml(path)
    if (name := value.get("name", path.stem)) != path.stem:
        line = key_lines.get(("name",), 1)
        raise TraubeError(f"{path}: line {line}: name: '{name}' is not the name of the card; leave it out")
    readers = {key: reader for module in _readers() for key, reader in getattr(module, "CARDS", {}).items()}
    for key, reader in readers.items():
        if key in value:
            made: Source | PairSource = reader.from_card(path, value, key_lines)
            return made
    keys = ", ".join(f"`{key}`" for key in sorted(readers))
    raise TraubeError(f"{path}: line 1: expected one of the keys {keys} (a task) or `model`")
