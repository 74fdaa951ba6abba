"""The registry of tasks: those that come with Traube, and the user's own, described by cards in `cards/`."""

import re
from pathlib import Path

from traube.cards import task_files
from traube.config import read_yaml
from traube.errors import TraubeError, unknown
from traube.task import Task
from traube.tasks import blurbs, german_rows, newsgroups, pydocs, reddit, shorttext, tenkgnad, trec_car
from traube.tasks.mteb_rows import MtebRows
from traube.tasks.source import Source
from traube.tasks.table import Table

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


def _built_in() -> dict[str, Source]:
    return {
        source.name: source
        for module in (pydocs, blurbs, tenkgnad, reddit, german_rows, shorttext, newsgroups, trec_car)
        for source in module.sources()
    }


def _read_cards() -> tuple[dict[str, Source], dict[Path, TraubeError]]:
    """The sources of the cards, and the errors of those that are broken."""
    found: dict[str, Source] = {}
    errors: dict[Path, TraubeError] = {}
    taken = set(_built_in())
    for path in task_files():
        try:
            found[path.stem] = _read_card(path, taken | set(found))
        except TraubeError as error:
            errors[path] = error
    return found, errors


def _read_card(path: Path, taken: set[str]) -> Source:
    if not _LEGAL.fullmatch(path.stem):
        raise TraubeError(f"{path}: a task's name is the name of its card: use small letters, digits and _ only")
    if path.stem in taken | _RESERVED:
        raise TraubeError(f"{path}: the name '{path.stem}' is taken; rename the card")
    value, key_lines = read_yaml(path)
    if (name := value.get("name", path.stem)) != path.stem:
        line = key_lines.get(("name",), 1)
        raise TraubeError(f"{path}: line {line}: name: '{name}' is not the name of the card; leave it out")
    if "file" in value:
        return Table.from_card(path, value, key_lines)
    if "rows" in value or "dataset" in value:
        return MtebRows.from_card(path, value, key_lines)
    if "pydocs" in value:
        return pydocs.Pydocs.from_card(path, value, key_lines)
    raise TraubeError(
        f"{path}: line 1: expected a key `file` (table), `rows` or `dataset` (MTEB's form), `pydocs` or `model`"
    )
