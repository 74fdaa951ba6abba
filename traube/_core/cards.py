"""The user's cards: YAML files, a task's or, with a key `model`, a model's.

They lie in `cards/`, and in the data directory those that commands write for files and models that are named without a
card (`generated_cards`). A card in `cards/` goes before a generated one of the same name.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from traube._core import paths
from traube._core.config import LARGEST
from traube._core.errors import Malformed, TraubeError
from traube._core.inputs import is_file

C = TypeVar("C")

SUFFIXES = (".yaml", ".yml")


def task_files() -> list[Path]:
    """Return the files of the user's task cards."""
    return [path for path in _files() if not _is_model(path)]


def model_files() -> list[Path]:
    """Return the files of the user's model cards."""
    return [path for path in _files() if _is_model(path)]


def list_names() -> set[str]:
    """Return the names of all cards, including those that cannot be used."""
    return {path.stem for path in _files()}


def model_file(name: str) -> Path | None:
    """Return the card of the model of that name, if there is one."""
    if Path(name).name != name:  # the name would lead out of the folder
        return None
    for folder in (paths.cards(), paths.generated_cards()):
        files = [path for suffix in SUFFIXES if is_file(path := folder / f"{name}{suffix}")]
        if files:
            return next((path for path in reversed(files) if _is_model(path)), None)
    return None


def read_each(files: Iterable[Path], read: Callable[[Path], C]) -> tuple[dict[str, C], dict[Path, TraubeError]]:
    """Read each card by name; return what was read, and the errors of cards that cannot be used.

    A broken card takes no other down.
    """
    cards: dict[str, C] = {}
    errors: dict[Path, TraubeError] = {}
    for path in files:
        try:
            cards[path.stem] = read_one(path, read)
        except TraubeError as error:
            errors[path] = error
    return cards, errors


def read_one(path: Path, read: Callable[[Path], C]) -> C:
    """Read a card; raise one kind of error, whatever is wrong with the card."""
    try:
        return read(path)
    except TraubeError:
        raise
    except Exception as error:  # a card can hold anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise Malformed(f"{path}: cannot be used ({reason[:200]})") from error


def _files() -> list[Path]:
    user_cards = _in_folder(paths.cards())
    names = {path.stem for path in user_cards}
    return sorted([*user_cards, *(path for path in _in_folder(paths.generated_cards()) if path.stem not in names)])


def _in_folder(folder: Path) -> list[Path]:
    # hidden files are those that a card is written to before it gets its name, and what editors and systems leave
    names = (path for path in folder.glob("*") if path.suffix in SUFFIXES and not path.name.startswith("."))
    return [path for path in names if is_file(path)]


def is_generated(path: Path) -> bool:
    """Return whether a command, not a person, has written the card."""
    return path.parent == paths.generated_cards()


def _is_model(path: Path) -> bool:
    # decided by the lines, because a model's card need not be valid YAML
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST).decode("utf-8", errors="replace")
    except OSError:
        return False  # a task's reader says why it cannot be read
    return any(line.startswith("model:") for line in text.splitlines())
