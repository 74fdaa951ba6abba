"""Backups of a data directory in one archive, and copies of results from one storage to another.

Databases are copied by SQLite's own backup, so writers may go on. Each is copied before what it
refers to: MLflow's and Dagster's, then the catalog, then files, then blobs.
"""

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from traube._core.disk import replacing, walk
from traube._core.errors import TraubeError
from traube._storage.blobs import IDENTITY, Corrupt, make_marker
from traube._storage.storage import Storage

ABOUT = "traube-backup.json"
FORMAT = 1  # raise when an archive has to be read in another way
DATA, CHECKPOINTS = "data", "checkpoints"  # folders of the archive
HISTORY = ("mlflow.db", "mlartifacts", "dagster")  # of MLflow and Dagster
_DATABASES = ("mlflow.db", "dagster", "catalog.db")  # in this order
_MADE_AGAIN = (  # not copied into a backup as files; blobs are taken from the storage
    "blobs", "embeddings", "compiled", "weights", "dev.json", "dev.stopped", ".env"
)  # fmt: skip
_TRANSIENT = (".lock", "-wal", "-shm", "-journal")


def write_backup(storage: Storage, checkpoints: Path, file: Path) -> list[str]:
    """Write a backup of a data directory and its checkpoints to a new file; return what was left out, one line each.

    Others may write to the storage meanwhile.
    """
    if file.exists():
        raise TraubeError(f"{file}: is there already; give the backup another name")
    left_out: list[str] = []
    about = {"format": FORMAT, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as new, tarfile.open(new, "w") as archive, TemporaryDirectory(dir=file.parent) as folder:
        _add(archive, ABOUT, json.dumps(about).encode())
        for name, path in _list_files(storage.folder, checkpoints):
            if path.resolve() in (file.resolve(), new.resolve()) or Path(folder).resolve() in path.resolve().parents:
                continue
            with suppress(FileNotFoundError):  # was deleted meanwhile
                if not _is_sqlite(path):
                    archive.add(path, name)
                    continue
                try:
                    archive.add(_copy_database(path, Path(folder) / "copy.db"), name)
                except sqlite3.DatabaseError as error:
                    left_out.append(f"{path}: corrupt ({error})")
        _add(archive, f"{DATA}/blobs/{IDENTITY}", make_marker(storage.blobs.get_identity() or ""))
        for blob, _ in storage.blobs.list():
            try:
                _add(archive, f"{DATA}/blobs/{blob[:2]}/{blob}", storage.blobs.get(blob))
            except Corrupt as error:
                left_out.append(str(error))
    return left_out


def restore_backup(file: Path, folder: Path, checkpoints: Path) -> None:
    """Restore a backup into a data directory that is empty but for `.env`, and its checkpoints beside others."""
    if folder.is_dir() and (present := sorted(path.name for path in folder.iterdir() if path.name != ".env")):
        raise TraubeError(f"{folder}: is not empty ({present[0]}); set TRAUBE_HOME to an empty folder")
    if not hasattr(tarfile, "data_filter"):
        raise TraubeError("Python 3.11.4 or newer is needed: an earlier one cannot keep an archive in its folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(file) as archive, TemporaryDirectory(dir=folder, prefix=".restore-") as temporary:
            _check_members(file, archive, checkpoints)
            archive.extractall(temporary, filter="data")
            for name, target in ((CHECKPOINTS, checkpoints), (DATA, folder)):
                target.mkdir(parents=True, exist_ok=True)
                for path in sorted((Path(temporary) / name).glob("*")):
                    shutil.move(path, target / path.name)
    except (tarfile.TarError, EOFError) as error:
        raise TraubeError(f"{file}: no backup of Traube, or corrupt ({error}); nothing was restored") from None


def copy_results(source: Storage, target: Storage) -> tuple[int, list[str]]:
    """Copy all results; return the number of blobs, and what was corrupt, one line each.

    Results that the target has stay; of two of one key the newer revision counts.
    """
    corrupt, count = [], 0
    for blob, _ in source.blobs.list():
        try:
            target.blobs.put(source.blobs.get(blob))
            count += 1
        except Corrupt as error:
            corrupt.append(str(error))
    return count, corrupt + target.rebuild()


def copy_files(source: Path, target: Path) -> None:
    """Copy what a data directory holds besides results and histories, such as studies, unless the target has it."""
    skipped = {*_DATABASES, *HISTORY}
    for name, path in _list_files(source, None):
        inner = Path(name).relative_to(DATA)
        if inner.parts[0] not in skipped and not (target / inner).exists():
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), replacing(target / inner) as new:
                shutil.copy2(path, new)


def _list_files(folder: Path, checkpoints: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the path of each file that cannot be regenerated."""
    found = []
    for base, root in ((DATA, folder), *([(CHECKPOINTS, checkpoints)] if checkpoints else [])):
        for entry in walk(root) if root.is_dir() else ():
            path = Path(entry.path)
            inner = path.relative_to(root)
            is_checkpoint = checkpoints is not None and path.is_relative_to(checkpoints)
            if base == DATA and (inner.parts[0] in _MADE_AGAIN or is_checkpoint):
                continue
            if entry.is_file(follow_symlinks=False) and not path.name.endswith(_TRANSIENT):
                rank = _DATABASES.index(inner.parts[0]) if inner.parts[0] in _DATABASES else len(_DATABASES)
                found.append((rank, f"{base}/{inner.as_posix()}", path))
    return ((name, path) for _, name, path in sorted(found))


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".db" and file.read(6) in (b"SQLite", b"")


def _copy_database(path: Path, copy: Path) -> Path:
    """Copy a consistent snapshot of a database, while others may write to it."""
    copy.unlink(missing_ok=True)
    # not `mode=ro`: the next reader rolls back what a killed process left in the journal
    with (
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=60)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return copy


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), int(datetime.now(UTC).timestamp()), 0o600
    archive.addfile(member, BytesIO(content))


def _check_members(file: Path, archive: tarfile.TarFile, checkpoints: Path) -> None:
    """Refuse an archive that is no backup, or that would replace checkpoints."""
    first = archive.next()
    content = archive.extractfile(first) if first is not None and first.name == ABOUT else None
    try:
        about = json.loads(content.read()) if content else {}
    except ValueError:
        about = {}
    if about.get("format") != FORMAT:
        raise TraubeError(f"{file}: no backup of this version of Traube; nothing was restored")
    names = {parts[1] for name in archive.getnames() if (parts := Path(name).parts)[0] == CHECKPOINTS and parts[1:]}
    if present := sorted(name for name in names if (checkpoints / name).exists()):
        fix = "move it away, or set TRAUBE_CHECKPOINTS to another folder"
        raise TraubeError(f"{checkpoints / present[0]}: is there already; {fix}")
