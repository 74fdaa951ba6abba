"""Checkpoints: folders below `checkpoints/`, written by a trainer or put there by a person; each is a model.

Nothing in a folder is unpickled or executed, and nothing outside of `checkpoints/` is read.
"""

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from traube._core import paths
from traube._core.cards import read_each
from traube._core.config import SHOWN
from traube._core.disk import read_json, walk
from traube._core.errors import Conflict, Invalid, Malformed, TraubeError, Unsafe, unknown
from traube._core.files import locked, write_json
from traube._core.hashing import digest
from traube._core.inputs import is_folder
from traube.models._card import ModelCard, Precision, catalogue
from traube.models._model_files import ModelFile
from traube.models._similarity import FOLDER, WEIGHTS, TrainedSimilarity, load_network
from traube.models._tensors import check_tensors
from traube.models._vetting import library_errors
from traube.models._weights import check_folder

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
ATTEMPTS = "attempts.json"
ABOUT = "checkpoint.json"
LARGEST_ABOUT = 2**20  # bytes
PARTIAL = (".tmp", ".part", ".partial", ".incomplete")


def folders() -> list[Path]:
    """Return the checkpoints, good or bad, by name."""
    root = paths.checkpoints()
    entries = root.iterdir() if root.is_dir() else ()
    return sorted(p for p in entries if p.is_dir() and not p.name.startswith("."))


def make_card(folder: Path) -> ModelCard:
    """Return the model card of a checkpoint. Cheap: looks at names only."""
    if not NAME.fullmatch(folder.name) or ".." in folder.name:
        raise Invalid(f"{folder}: rename it: a checkpoint's name is of a-z, 0-9, _ . and -, without '..'")
    if folder.name in catalogue():
        raise Conflict(f"{folder}: rename it: '{folder.name}' is a model of the catalogue")
    root, place = paths.checkpoints().resolve(), Path(os.path.realpath(folder))
    if folder.is_symlink() and not place.is_relative_to(root):
        raise Unsafe(f"{folder}: a link that leads out of {root.name}/; put the folder itself there")
    for entry in walk(folder):
        if entry.is_symlink() and not Path(os.path.realpath(entry)).is_relative_to(place):
            raise Unsafe(f"{entry.path}: a link that leads out of {folder.name}/; put the file itself there")
    # if the base model was evaluated in another precision than fp32, so is the trained model
    known = get_args(Precision)
    if (precision := read_about(folder).get("precision", "fp32")) not in known:
        where = f"{folder / ABOUT}: precision"
        raise Invalid(f"{where}: '{str(precision)[:SHOWN]}' is none of {', '.join(known)}")
    # whatever that folder holds: a broken similarity must not be taken for its encoder
    kind: Literal["pairwise", "transformer"] = "pairwise" if is_folder(folder / FOLDER) else "transformer"
    return ModelCard(name=folder.name, kind=kind, model=str(folder), precision=precision)


def trained_on(model: str) -> str | None:
    """Return the task whose test texts a checkpoint was trained on; None if there is none, or it is unknown."""
    about = read_about(paths.checkpoints() / model)
    parts = about.get("parts", ["test"])
    return str(about["task"]) if "task" in about and isinstance(parts, list) and "test" in parts else None


def read_about(folder: Path) -> dict[str, Any]:
    """Return what a trainer wrote of a checkpoint; nothing if it wrote none, or the file cannot be read."""
    with suppress(TraubeError):
        about = ModelFile(folder, ABOUT).parse(LARGEST_ABOUT)
        return about if isinstance(about, dict) else {}
    return {}


def state(folder: Path) -> str:
    """Return a hash of the files' names, sizes and times. While the hash changes, somebody is writing."""
    if folder.is_symlink():
        return digest(str(folder.readlink()))
    files = [(str(p.relative_to(folder)), p.lstat()) for p in sorted(folder.rglob("*")) if not p.is_dir()]
    return digest([(name, s.st_size, s.st_mtime_ns) for name, s in files])


def find_unfinished(folder: Path) -> str | None:
    """Return why a folder is not complete yet; None if the folder looks complete."""
    if partial := next((p.name for p in sorted(folder.rglob("*")) if p.suffix in PARTIAL), None):
        return f"{partial} is being written"
    is_there = (folder / "config.json").exists() or (folder / "modules.json").exists()
    return None if is_there else "there is no config.json or modules.json yet"


def check(folder: Path) -> ModelCard:
    """Refuse a checkpoint that cannot be evaluated; read every tensor, once for each `state`."""
    with library_errors(f"{folder}: cannot be read"):
        card = make_card(folder)
        vetted = check_folder(folder, card)
        names = vetted.weights
        if card.kind == "pairwise":
            if (folder / FOLDER).is_symlink():
                raise Unsafe(f"{folder}: {FOLDER} is a link to a folder; put the folder itself there")
            names.append(f"{FOLDER}/{WEIGHTS}")
        for file in (ModelFile(folder, name) for name in names):
            path = file.locate()
            if fault := _find_fault(path, path.stat().st_mtime_ns):
                raise Malformed(f"{file.path}: {fault}")
        check_tensors(vetted)
        if card.kind == "pairwise":
            load_network(TrainedSimilarity.at(folder))
        return card


@lru_cache(maxsize=256)
def _find_fault(path: Path, _changed: int) -> str:
    """Return what is wrong with a weights file; empty if nothing. One tensor is in memory at a time."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (not a dict)
                tensor = weights.get_tensor(name)
                if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                    return f"NaN or infinity in {name}"
    except (SafetensorError, OSError) as error:
        return f"not a complete safetensors file ({error})"
    return ""


def cards() -> dict[str, ModelCard]:
    """Return the checkpoints that may be requested, by name. Errors in their files are reported when they are loaded."""
    entries = ((folder.name, find_card(folder.name)) for folder in folders())
    return {name: card for name, card in entries if card}  # the sensor and `traube doctor` report the others


def find_card(name: str) -> ModelCard | None:
    """Return the card of the checkpoint of that name, if it may be requested; read no other folder."""
    folder = paths.checkpoints() / name
    try:
        return make_card(folder) if folder.name == name and is_folder(folder) else None
    except TraubeError:
        return None


def errors() -> dict[Path, TraubeError]:
    """Return the checkpoints that cannot be evaluated, and why."""
    return read_each(folders(), check)[1]


def attempts() -> dict[str, int]:
    """Return how often the evaluation of a checkpoint was requested again, by name."""
    try:
        return {name: int(n) for name, n in read_json(paths.home() / ATTEMPTS).items()}
    except (ValueError, TypeError, OverflowError):
        return {}


def request_again(name: str) -> int:
    """Have the sensor evaluate a checkpoint once more; return the number of the attempt."""
    if name not in cards():
        raise unknown("checkpoint", name, cards())
    path = paths.home() / ATTEMPTS
    with locked(path):
        counted = attempts()
        counted[name] = counted.get(name, 0) + 1
        write_json(path, counted)
    return counted[name]
