"""Models that a Python package carries. No code of the package runs: its files are found and read.

Weights in 4 bits are unpacked once, into a folder as sentence-transformers reads it, below `weights/` in the data
directory. The folder may be deleted.
"""

import hashlib
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from traube._core import paths
from traube._core.disk import read_json
from traube._core.errors import Corrupt, Missing, TraubeError, Unavailable, install_hint
from traube._core.files import locked, write_json
from traube._core.hashing import digest, file_sha256, get_sha256
from traube._core.inputs import read_bytes
from traube._core.system_errors import explain_errors
from traube.models._model_files import get_stamp
from traube.models._q4 import VERSION, read_encoder, write_encoder
from traube.models.card import ModelCard

LARGEST = 2**30  # bytes of a file in 4 bits
HASHES = "hashes.json"  # in the folder: the SHA-256 of each of its files


def find_package(name: str) -> Path | None:
    """Return the folder of a package without importing it; None where it is not installed."""
    spec = find_spec(name)  # of a top-level name: finds without importing
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def locate_package(card: ModelCard) -> Path:
    """Return the folder of the package that carries a model.

    Raises
    ------
    Unavailable
        If the package is not installed.
    """
    folder = find_package(card.package or "")
    if folder is None:
        how = f": {install_hint(card.extra, 'setup')}" if card.extra else ""
        raise Unavailable(f"model '{card.name}': the package {card.package} is not installed{how}")
    return folder


def is_installed(card: ModelCard) -> bool:
    """Return whether the package that carries a model is installed."""
    try:
        return card.kind == "packaged" and locate_package(card).is_dir()
    except Unavailable:
        return False


def check_packed(card: ModelCard) -> None:
    """Refuse a file in 4 bits that is not there, or is not the one that its card names."""
    path = _locate_file(card)
    if get_sha256(path, get_stamp(path)) != card.sha256:
        raise _wrong_checksum(card, path)


def unpack(card: ModelCard) -> Path:
    """Return the folder of a model that a package carries in 4 bits, and make it unless it is there and whole.

    Several processes may do so at once.

    Raises
    ------
    Unavailable
        If the package is not installed.
    TraubeError
        If its file is not the one that the card names, or cannot be read, or the folder cannot be written.
    """
    path, folder = _locate_file(card), _locate_unpacked(card)
    if _is_whole(folder):
        return folder
    content = read_bytes(path, LARGEST)
    if hashlib.sha256(content).hexdigest() != card.sha256:
        raise _wrong_checksum(card, path)
    try:
        encoder = read_encoder(content)
    except TraubeError as error:
        raise Corrupt(f"model '{card.name}': {path}: {error}") from None
    with locked(folder), explain_errors(folder):
        if not _is_whole(folder):  # another process may have made it meanwhile
            new = folder.with_name(f".{folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            try:
                new.mkdir()
                write_encoder(encoder, new)
                files = [file for file in sorted(new.rglob("*")) if file.is_file()]
                write_json(new / HASHES, {file.relative_to(new).as_posix(): file_sha256(file) for file in files})
                shutil.rmtree(folder, ignore_errors=True)
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return folder


def is_packed(card: ModelCard) -> bool:
    """Return whether a model is carried in 4 bits that nobody has unpacked here, so that it has encoded nothing here."""
    return bool(card.file) and not _locate_unpacked(card).is_dir()


def _locate_unpacked(card: ModelCard) -> Path:
    return paths.own_home() / "weights" / f"{card.package}-{digest([VERSION, card.sha256])}"


def _locate_file(card: ModelCard) -> Path:
    path = locate_package(card) / (card.file or "")
    if not path.is_file():
        raise Missing(f"model '{card.name}': {path}: there is no such file; reinstall {card.package}")
    return path


def _wrong_checksum(card: ModelCard, path: Path) -> TraubeError:
    return Corrupt(f"model '{card.name}': {path}: checksum mismatch; reinstall {card.package}")


def _is_whole(folder: Path) -> bool:
    """Return whether a folder holds the very files that were written into it."""
    hashes = read_json(folder / HASHES)
    with suppress(OSError):
        files = {name: folder / name for name in hashes if paths.is_plain(name)}
        return bool(hashes) and all(get_sha256(path, get_stamp(path)) == hashes[name] for name, path in files.items())
    return False
