"""Data that no result uses any more: rows of the catalog, and files that whoever wrote them left behind."""

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from traube._storage.costs import NO_TASK, EncodingCost
from traube._storage.rows import ArtifactRow, CatalogRow, CellRow, DocumentRow, EmbeddingRow
from traube._storage.storage import DAY, WEEK, Storage

OWNED = ("matrix", "reduction", "representations", "places")  # artifacts whose keys begin with what they are made of
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}(\.\w+)?")  # see `traube._core.disk.replacing`
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")  # see `traube.models.pins`; what packages unpack has their name before it
_TRAINING = re.compile(r"(\..+)\.[0-9a-f]{16}")  # see `Trainer.fit`


@dataclass(frozen=True)
class Unused:
    """A row of the catalog, or a file or folder."""

    name: str  # table and key, or the path
    size: int  # bytes
    reason: str  # why it may go
    remove: Callable[[], int]  # removes it, unless it is in use again; returns how many are gone


def find_unused(
    storage: Storage,
    checkpoints: Path,
    owners: Collection[str],
    pinned: Collection[str] = (),
    outdated: Collection[str] = (),
) -> list[Unused]:
    """Return what may be removed and is older than a day.

    Parameters
    ----------
    storage : Storage
        The storage.
    checkpoints : Path
        The folder of checkpoints and of the state of trainings.
    owners : collection of str
        How the names of embeddings and reductions begin that are in use (`name_vectors`). Other artifacts begin with
        a cell.
    pinned : collection of str, optional
        Fingerprints of the models whose weights are served.
    outdated : collection of str, optional
        Ids of cells that may go too, except those that a document names.

    Returns
    -------
    list of Unused
        Rows, files and folders.
    """
    cells = {row.cell_id: row for row in storage.read_rows(CellRow)}
    outdated = {*outdated} - storage.list_kept_cells()
    fingerprints = {row.fingerprint for row in cells.values()} | {owner.split("-")[0] for owner in owners}
    candidates: list[tuple[str, CatalogRow, str]] = [
        *((cell_id, cells[cell_id], "of a cell that does not count today") for cell_id in outdated),
        *(
            (f"{owner}/{row.block}", row, "embeddings of a model that is gone, or was another then")
            for row in storage.read_rows(EmbeddingRow)
            if (owner := f"{row.fingerprint}-{row.numerics}") not in owners
        ),
        *(
            (f"{row.kind}/{row.key}", row, f"{row.kind} of a model, texts or a cell that is gone")
            for row in storage.read_rows(ArtifactRow)
            if row.kind in OWNED and not {row.key, "-".join(row.key.split("-")[:2])} & {*owners, *cells}
        ),
        *(
            (f"{row.kind}/{row.key}", row, "cost of a model that is gone, or was another then")
            for row in storage.read_rows(DocumentRow, kind=EncodingCost.kind)
            if row.key.rpartition("/")[0] != NO_TASK and row.key.rpartition("/")[2] not in fingerprints
        ),
    ]
    rows = [
        Unused(f"{row.table}/{name}", getattr(row, "bytes", 0), reason, partial(storage.remove, [row]))
        for name, row, reason in candidates
        if time.time() - datetime.fromisoformat(row.created).timestamp() >= DAY
    ]
    files = [
        Unused(str(path), _get_size(path), reason, partial(_remove_path, path, seconds, lock))
        for path, seconds, lock, reason in _find_paths(storage.folder, checkpoints, owners, pinned)
        if _get_age(path) >= seconds
    ]
    return sorted(rows + files, key=lambda unused: unused.name)


Removable = tuple[Path, float, Path | None, str]  # seconds that it is kept, lock of its users, reason for removal


def _find_paths(
    folder: Path, checkpoints: Path, owners: Collection[str], pinned: Collection[str]
) -> Iterator[Removable]:
    for path in folder.rglob(".*"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():
            yield path, DAY, None, "left half written"
    for path in folder.glob("embeddings/*"):
        if path.is_dir() and path.name not in owners:
            lock = path.with_name(f"{path.name}.lock")
            yield path, DAY, lock, "embeddings of a model that is gone, or was another then"
    for path in folder.glob("weights/*"):
        if path.is_dir() and _FINGERPRINT.fullmatch(path.name) and path.name not in pinned:
            yield path, DAY, path.with_name(f"{path.name}.lock"), "weights of a model that is not served any more"
    for path in checkpoints.glob(".*"):
        if path.is_dir() and (match := _TRAINING.fullmatch(path.name)):
            yield path, WEEK, path.with_name(f"{match[1]}.lock"), "of a training that was stopped over a week ago"
    for pattern, what in (("trainings/*", "training that was stopped"), ("reductions-*", "run that was killed")):
        for path in folder.glob(pattern):
            yield path, WEEK, None, f"of a {what} over a week ago"


def _remove_path(path: Path, seconds: float, lock: Path | None) -> bool:
    """Remove a file or folder, unless it was written to or locked since the search."""
    from filelock import FileLock, Timeout

    with suppress(FileNotFoundError, Timeout), FileLock(lock, timeout=0) if lock else nullcontext():
        if _get_age(path) >= seconds:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            return True
    return False


def _walk(path: Path) -> list[Path]:
    return [path, *path.rglob("*")] if path.is_dir() else [path]


def _get_age(path: Path) -> float:
    """Return the seconds since a file, or anything in a folder, was written."""
    return time.time() - max(file.lstat().st_mtime for file in _walk(path))


def _get_size(path: Path) -> int:
    return sum(file.lstat().st_size for file in _walk(path) if not file.is_dir())
