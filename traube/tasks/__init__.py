"""Tasks: the data model (`task`), the registry of the tasks that come with Traube, and the user's own cards.

Other rooms import what is listed here, and the modules without an underscore.
"""

import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from traube._core.cards import name_card, read_each, read_values, task_files
from traube._core.errors import Conflict, Invalid, Malformed, TraubeError, Unknown, unknown
from traube._core.plugins import collect, import_plugins, modules_of
from traube.tasks.scored_pairs import PAIRS, PairCard, make_pairs
from traube.tasks.source import Source
from traube.tasks.task import CLUSTERING, Task, TaskType

__all__ = [
    "CLUSTERING",
    "PAIRS",
    "PairCard",
    "Source",
    "TaskType",
    "card_errors",
    "get_source",
    "load_pairs",
    "load_task",
    "make_pairs",
    "own_tasks",
    "sources",
]

_LEGAL = re.compile(r"[a-z0-9][a-z0-9_]*")
# names of the asset graph
RESERVED = {
    "leaderboard",
    "models",
    "papers",
    "registry",
    "regressions",
    "report",
    "results",
    "sweeps",
    "task_reports",
    "trainers",
    "weights",
}


def sources(kind: TaskType | None = CLUSTERING) -> dict[str, Source]:
    """Return the sources of the tasks of a type by name.

    Traube's own tasks come first, then those of the cards that can be used.

    Parameters
    ----------
    kind : TaskType or None, default=CLUSTERING
        The type; None means all types.

    Returns
    -------
    dict of str to Source
        Sources by the names of their tasks.

    Examples
    --------
    >>> from traube.tasks import PAIRS, sources
    >>> "pydocs_s2s" in sources(), "pydocs_s2s" in sources(PAIRS)
    (True, False)
    """
    known = {**_built_in(), **_read_cards()[0]}
    return {name: source for name, source in known.items() if kind in (None, source.card.type)}


def own_tasks() -> set[str]:
    """Return the names of the user's own tasks of clustering, which cards describe.

    Returns
    -------
    set of str
        Names of the cards.

    Examples
    --------
    >>> from traube.tasks import own_tasks
    >>> "pydocs_s2s" in own_tasks()
    False
    """
    return {name for name, source in _read_cards()[0].items() if source.card.type is CLUSTERING}


def card_errors() -> dict[Path, TraubeError]:
    """Return the errors of the tasks' cards that cannot be used.

    A broken card does not take the others down.

    Returns
    -------
    dict of Path to TraubeError
        Errors by the files of the cards.

    Examples
    --------
    >>> from traube.tasks import card_errors
    >>> card_errors()
    {}
    """
    return _read_cards()[1]


def get_source(name: str, kind: TaskType | None = CLUSTERING) -> Source:
    """Return the source of a task.

    Parameters
    ----------
    name : str
        Name of the task.
    kind : TaskType or None, default=CLUSTERING
        Type that the task must have; None means any type.

    Returns
    -------
    Source
        The source, from which the task can be read.

    Raises
    ------
    Unknown
        If there is no such task, or it is of another type.
    TraubeError
        If the task's card cannot be used.

    Examples
    --------
    >>> from traube.tasks import get_source
    >>> get_source("pydocs_s2s").card.language
    'en'
    """
    source = sources(None).get(name)
    if source is None:
        for path, error in card_errors().items():
            if name_card(path) == name:
                raise error
        raise unknown("task", name, sources(kind))
    if kind is not None and source.card.type is not kind:
        source_type = source.card.type
        raise Unknown(f"'{name}' is a task of {source_type.name}: `traube {source_type.command} -t {name}` scores it")
    return source


def load_task(name: str) -> Task:
    """Read a task from its raw data, which is downloaded first where that can be done.

    Parameters
    ----------
    name : str
        A task of `sources()`: one that comes with Traube, or of a card in `cards/`.

    Returns
    -------
    Task
        The task, with its texts and splits.

    Raises
    ------
    Unavailable
        If its raw data is missing.
    TraubeError
        If there is no such task, or its raw data cannot be read.

    Examples
    --------
    >>> from traube import load_task
    >>> load_task("pydocs")
    Traceback (most recent call last):
        ...
    traube._core.errors.Unknown: unknown task 'pydocs': did you mean pydocs_s2s or pydocs_p2p or pydocs_s2s_full?
    """
    source = get_source(name)
    source.fetch()
    return source.load()


def load_pairs(name: str) -> Task:
    """Read a pair task from its raw data, which is downloaded first where that can be done.

    Parameters
    ----------
    name : str
        A task of `sources(PAIRS)`.

    Returns
    -------
    Task
        The task, with its texts and pairs.

    Raises
    ------
    Unavailable
        If its raw data is missing.
    TraubeError
        If there is no such task, or its raw data cannot be read.

    Examples
    --------
    >>> from traube import load_pairs
    >>> load_pairs("pydocs_s2s")
    Traceback (most recent call last):
        ...
    traube._core.errors.Unknown: 'pydocs_s2s' is a task of clustering: `traube run -t pydocs_s2s` scores it
    """
    source = get_source(name, PAIRS)
    source.fetch()
    return source.load()


@lru_cache(maxsize=1)
def _import_readers() -> tuple[ModuleType, ...]:
    from traube.tasks import readers

    return (*modules_of(readers), *(module for _, module in import_plugins("readers")))


def _built_in() -> dict[str, Source]:
    readers = [module for module in _import_readers() if hasattr(module, "sources")]
    return collect("task", ((source.name, source) for module in readers for source in module.sources()))


def _read_cards() -> tuple[dict[str, Source], dict[Path, TraubeError]]:
    """Return the sources of the cards, and the errors of the broken ones."""
    taken = {*_built_in(), *RESERVED}
    readers = {key: reader for module in _import_readers() for key, reader in getattr(module, "CARDS", {}).items()}

    def read(path: Path) -> Source:
        card = name_card(path)
        if not _LEGAL.fullmatch(card):
            raise Invalid(f"{path}: a task's name is the name of its card: use small letters, digits and _ only")
        if card in taken:
            raise Conflict(f"{path}: the name '{card}' is taken; rename the card")
        value, key_lines = read_values(path)
        if (name := value.get("name", card)) != card:
            line = key_lines.get(("name",), 1)
            raise Conflict(f"{path}: line {line}: name: '{name}' is not the name of the card; leave it out")
        key = next((key for key in readers if key in value), None)
        if key is None:
            keys = ", ".join(f"`{key}`" for key in sorted(readers))
            raise Malformed(f"{path}: line 1: expected one of the keys {keys} (a task) or `model`")
        source: Source = readers[key].from_card(path, value, key_lines)
        taken.add(card)
        return source

    return read_each(task_files(), read)
