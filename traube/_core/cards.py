"""The user's cards: YAML files, a task's or, with a key `model`, a model's.

They lie in `cards/`, and in the data directory those that commands write for files and models that are named without a
card (`generated_cards`). A card in `cards/` goes before a generated one of the same name.

A component is a card that Dagster finds, too: `cards/NAME/defs.yaml` with a `type` and the card as its `attributes`.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from traube._core import paths
from traube._core.config import LARGEST, read_yaml
from traube._core.errors import Malformed, TraubeError
from traube._core.inputs import is_file

C = TypeVar("C")

SUFFIXES = (".yaml", ".yml")
COMPONENT = "defs.yaml"
TASK_TYPE, MODEL_TYPE, FOLDER_TYPE = "TraubeTask", "TraubeModel", "TraubeFolder"  # what a component's type ends with


def task_files() -> list[Path]:
    """Return the files of the user's task cards."""
    return [path for path in _files() if not _is_model(path)]


def model_files() -> list[Path]:
    """Return the files of the user's model cards."""
    return [path for path in _files() if _is_model(path)]


def list_watched() -> list[Path]:
    """Return the folders that components ask to be watched for new models; a relative path begins at the component."""
    watched = []
    for path in sorted(paths.cards().glob(f"*/{COMPONENT}")):
        if is_file(path) and _get_type(path) == FOLDER_TYPE:
            place = read_values(path)[0].get("path")
            if not isinstance(place, str) or not place:
                raise Malformed(f"{path}: expected `path`, the folder that is watched")
            watched.append(path.parent / Path(place).expanduser())
    return watched


def list_names() -> set[str]:
    """Return the names of all cards, including those that cannot be used."""
    return {name_card(path) for path in _files()}


def is_component(path: Path) -> bool:
    """Return whether Dagster finds the card, too."""
    return path.name == COMPONENT


def name_card(path: Path) -> str:
    """Return the name of a card: its file's, of a component its folder's."""
    return path.parent.name if is_component(path) else path.stem


def read_values(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """Read a card's keys and values, of a component its attributes; return them and the line of each key path."""
    value, lines = read_yaml(path)
    if not is_component(path):
        return value, lines
    if not isinstance(card := value.get("attributes"), dict):
        raise Malformed(f"{path}: line 1: expected `attributes`, the keys of a card")
    return card, {key[1:]: line for key, line in lines.items() if key[0] == "attributes" and key[1:]}


def model_file(name: str) -> Path | None:
    """Return the card of the model of that name, if there is one."""
    if Path(name).name != name:  # the name would lead out of the folder
        return None
    for folder in (paths.cards(), paths.generated_cards()):
        places = [folder / name / COMPONENT, *(folder / f"{name}{suffix}" for suffix in SUFFIXES)]
        files = [path for path in places if is_file(path)]
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
            cards[name_card(path)] = read_one(path, read)
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
    user_cards = [*_in_folder(paths.cards()), *_list_components(paths.cards())]
    names = {name_card(path) for path in user_cards}
    return sorted([*user_cards, *(path for path in _in_folder(paths.generated_cards()) if path.stem not in names)])


def _in_folder(folder: Path) -> list[Path]:
    # hidden files are those that a card is written to before it gets its name, and what editors and systems leave
    names = (path for path in folder.glob("*") if path.suffix in SUFFIXES and not path.name.startswith("."))
    return [path for path in names if not is_component(path) and is_file(path)]


def _list_components(folder: Path) -> list[Path]:
    components = (path for path in folder.glob(f"*/{COMPONENT}") if is_file(path))
    return [path for path in components if _get_type(path) in (TASK_TYPE, MODEL_TYPE)]


def _get_type(path: Path) -> str:
    """Return which of our components a file is; empty if it is another's."""
    types = [line.split("#")[0].strip() for line in _read_lines(path) if line.startswith("type:")]
    known = (TASK_TYPE, MODEL_TYPE, FOLDER_TYPE)
    return next((name for name in known if types and types[0].endswith(f".{name}")), "")


def is_generated(path: Path) -> bool:
    """Return whether a command, not a person, has written the card."""
    return path.parent == paths.generated_cards()


def _is_model(path: Path) -> bool:
    if is_component(path):
        return _get_type(path) == MODEL_TYPE
    # decided by the lines, because a model's card need not be valid YAML
    return any(line.startswith("model:") for line in _read_lines(path))


def _read_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []  # a task's reader says why it cannot be read
