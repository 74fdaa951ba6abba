"""The user's cards in `cards/`: YAML files, a task's or, with a key `model`, a model's."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from traube.core import paths
from traube.core.config import LARGEST
from traube.core.errors import TraubeError
from traube.core.inputs import is_file

C = TypeVar("C")

SUFFIXES = (".yaml", ".yml")


def task_files() -> list[Path]:
    return [path for path in _files() if not _is_model(path)]


def model_files() -> list[Path]:
    return [path for path in _files() if _is_model(path)]


def model_file(name: str) -> Path | None:
    """The card of the model of that name, if there is one."""
    if Path(name).name != name:  # it would lead elsewhere
        return None
    files = [path for suffix in SUFFIXES if is_file(path := paths.cards() / f"{name}{suffix}")]
    return next((path for path in reversed(files) if _is_model(path)), None)


def read_each(files: Iterable[Path], read: Callable[[Path], C]) -> tuple[dict[str, C], dict[Path, TraubeError]]:
    """What is read of each card by name, and the errors of those that cannot be used, which take no other down."""
    found: dict[str, C] = {}
    errors: dict[Path, TraubeError] = {}
    for path in files:
        try:
            found[path.stem] = read_one(path, read)
        except TraubeError as error:
            errors[path] = error
    return found, errors


def read_one(path: Path, read: Callable[[Path], C]) -> C:
    """What is read of a card; whatever is wrong with it, one kind of error."""
    try:
        return read(path)
    except TraubeError:
        raise
    except Exception as error:  # a card can hold anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TraubeError(f"{path}: cannot be used ({reason[:200]})") from error


def _files() -> list[Path]:
    return sorted(path for path in paths.cards().glob("*") if path.suffix in SUFFIXES and is_file(path))


def _is_model(path: Path) -> bool:
    # told from its lines, because it need not be valid YAML to be one
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST).decode("utf-8", errors="replace")
    except OSError:
        return False  # a task's reader says why it cannot be read
    return any(line.startswith("model:") for line in text.splitlines())
