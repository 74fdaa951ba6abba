"""Exchange of checkpoints between nodes that share a storage.

A row of the table `model` is the manifest of a checkpoint: name, hash of contents, blobs of files. An exchange replaces
only checkpoints that are stored. A checkpoint that is removed on a node stays on the others, and is not fetched again
while its contents are the same. Where two nodes have different checkpoints under one name, each keeps its own.
"""

import shutil
import sys
import time
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any

from traube._core import paths, settings
from traube._core.disk import read_json, replace_folder
from traube._core.errors import Corrupt, TraubeError
from traube._core.files import locked, write_json
from traube._core.hashing import digest, file_sha256
from traube._storage import CheckpointRow, Storage, open_storage
from traube.models import checkpoints

NOTE = ".exchanged.json"
SETTLED = 10.0  # seconds since the last file was written
Note = dict[str, Any]


def exchange_with_nodes() -> None:
    """Exchange checkpoints where nodes share a database, by `TRAUBE_DATABASE` and `TRAUBE_BLOBS`."""
    if settings.database():
        exchange_checkpoints(open_storage(paths.home()), paths.checkpoints())


def exchange_checkpoints(storage: Storage, root: Path) -> None:
    """Store the checkpoints that are new or changed here, and fetch those that other nodes have stored.

    Checkpoints that others are writing to are left for the next exchange.
    """
    with locked(root / NOTE):
        notes = read_json(root / NOTE)
        stored = {row.name for row in storage.read_rows(CheckpointRow)}
        here = {path.name for path in root.iterdir() if path.is_dir() and not path.is_symlink()}
        for name in sorted(filter(checkpoints.NAME.fullmatch, stored | here)):
            before = notes.get(name, {})
            notes[name] = _exchange(storage, root / name, before)
            if notes[name] != before:
                write_json(root / NOTE, notes)


def _exchange(storage: Storage, folder: Path, note: Note) -> Note:
    """Exchange one checkpoint; return the record of it."""
    row = _find_newest(storage, folder.name)
    if folder.is_symlink():
        return note
    if not folder.exists():
        is_removed = row is None or row.content == note.get("content")
        return note if row is None or is_removed else _fetch(storage, folder, row, note)
    state = checkpoints.state(folder)
    if state == note.get("state") and row is not None:
        return note if row.content == note["content"] else _fetch(storage, folder, row, note)
    if note.get("kept") == [state, row and row.content]:
        return note
    files = _list_files(folder)
    if not files or checkpoints.find_unfinished(folder) is not None:
        return note
    is_settled = time.time() - max(path.stat().st_mtime for path in files.values()) > SETTLED
    return _store(storage, folder, state, note) if is_settled else note


def _find_newest(storage: Storage, name: str) -> CheckpointRow | None:
    return max(storage.read_rows(CheckpointRow, name=name), key=attrgetter("revision"), default=None)


def _list_files(folder: Path) -> dict[str, Path]:
    """Return the files that are exchanged, by name: no links, and nothing hidden."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path for name, path in named.items() if paths.is_plain(name)}


def _store(storage: Storage, folder: Path, state: str, note: Note) -> Note:
    """Store a checkpoint, unless another node has stored another version since the last exchange."""
    files = _list_files(folder)
    content = digest({name: file_sha256(path) for name, path in files.items()})
    with storage.hold("", folder.name, "checkpoint"):
        newest = _find_newest(storage, folder.name)
        if newest is not None and newest.content not in (content, note.get("content")):
            sys.stderr.write(
                f"{folder}: another node has stored other files under this name; yours stay, and are not stored: "
                "rename the folder to store it too, or remove it to get the other one\n"
            )
            return {**note, "kept": [state, newest.content]}
        if newest is None or newest.content != content:
            about = checkpoints.read_about(folder)
            storage.save(CheckpointRow(name=folder.name, content=content, provenance=about), files)
            storage.remove([] if newest is None else [newest])
    return {"content": content, "state": state}


def _fetch(storage: Storage, folder: Path, row: CheckpointRow, note: Note) -> Note:
    """Put a stored checkpoint into its place."""
    try:
        write_folder(storage, row.files, folder)
    except (TraubeError, OSError) as error:
        sys.stderr.write(f"checkpoint {folder.name}: not fetched: {error}\n")
        return note
    return {"content": row.content, "state": checkpoints.state(folder)}


def write_folder(storage: Storage, files: Mapping[str, str], folder: Path, is_fixed: bool = False) -> None:
    """Replace what a folder holds by stored files, blobs by path in it: by all of them, or none if one is corrupt.

    Files of a fixed folder, which nobody changes, take no room besides their blobs where the disk has links.
    """
    # names come from any writer of the storage: each must lead to a file of its own in the folder
    is_nested = any(str(parent) in files for name in files for parent in PurePosixPath(name).parents)
    if not files or not all(map(paths.is_plain, files)) or is_nested:
        raise Corrupt(f"{storage.catalog.name}: '{folder.name}' is no list of a checkpoint's files")
    new = folder.with_name(f".{folder.name}.fetched")
    shutil.rmtree(new, ignore_errors=True)
    try:
        for name, blob in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            if is_fixed:
                storage.blobs.write_to(blob, new / name)
            else:
                (new / name).write_bytes(storage.blobs.get(blob))
        replace_folder(folder, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
