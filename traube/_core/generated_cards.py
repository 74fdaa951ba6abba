"""Cards that commands write into the data directory, for files and models that are named without a card.

A record holds the text of each. A card that holds something else was damaged, and is written again from the
record: a card that lost its end may still be read, and would then describe another task.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from traube._core import paths
from traube._core.disk import read_json
from traube._core.escaping import escape_controls
from traube._core.files import locked, write_json, write_text
from traube._core.inputs import is_file

RECORD = ".generated_cards.json"  # in the data directory: the text of each card by the name of its file
logger = logging.getLogger(__name__)


@contextmanager
def writing_cards() -> Iterator[None]:
    """Hold the lock under which a card is looked up, named and written: of several processes one writes it.

    Damaged cards are written again before.
    """
    with locked(paths.generated_cards()):
        for path, text in _find_damaged().items():
            write_text(path, text)
            warn_of_damage(path)
        yield


def write_card(path: Path, comment: str, settings: Mapping[str, Any]) -> None:
    """Write a card with a comment above it, and record its text. The caller holds the lock of `writing_cards`."""
    import yaml  # here, since every command imports this module

    text = f"# {comment}\n{yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, width=1000)}"
    record = read_json(paths.home() / RECORD)
    if record.get(path.name) != text:
        write_json(paths.home() / RECORD, {**record, path.name: text})
    if not is_file(path) or not _holds(path, text):
        write_text(path, text)


def restore_cards() -> None:
    """Write damaged cards again, and name each in a warning."""
    if _find_damaged():  # otherwise nobody waits for the lock, and nothing is written
        with writing_cards():
            pass


def warn_of_damage(path: Path) -> None:
    """Warn that a card was damaged, and is written again."""
    card = escape_controls(str(path))
    logger.warning("%s: was damaged or edited, and is written again; to keep an edited card, put it into cards/", card)


def _find_damaged() -> dict[Path, str]:
    """Return the recorded texts of the cards that hold something else. A card that was deleted is not missed."""
    folder, damaged_cards = paths.generated_cards(), {}
    for name, text in read_json(paths.home() / RECORD).items():
        path = folder / name
        # whatever the record holds, nothing but a card of this folder is replaced
        is_card = path.name == name and path.suffix == ".yaml" and is_file(path) and not path.is_symlink()
        if is_card and isinstance(text, str) and not _holds(path, text):
            damaged_cards[path] = text
    return damaged_cards


def _holds(path: Path, text: str) -> bool:
    """Return whether a file holds a text; a file that nobody may read is left to its readers, who say so."""
    with suppress(OSError, UnicodeEncodeError):
        content = text.encode()
        return path.stat().st_size == len(content) and path.read_bytes() == content
    return True
