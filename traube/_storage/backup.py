"""Backups of a data directory in one archive, and copies of results from one storage to another.

What an archive may hold is a list (`traube._storage.backup_contents`), which both directions keep to. The catalog is not on it:
it is made again from the blobs. MLflow's database is copied by SQLite's own backup before the files that it names, and
these before the blobs, so writers may go on.
"""

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from typing_extensions import override

from traube._core.config import read_yaml
from traube._core.disk import replacing, walk
from traube._core.errors import Conflict, Corrupt, Incompatible, Malformed, TraubeError, Unsafe
from traube._core.inputs import LONGEST_NAME, LONGEST_PATH, check_file, parse_json
from traube._core.system_errors import explain_errors
from traube._storage.backup_contents import (
    ABOUT,
    CARD,
    CHECKPOINTS,
    DATA,
    MLARTIFACTS,
    MLFLOW,
    Fate,
    find_fate,
    find_largest,
)
from traube._storage.blobs import IDENTITY, make_marker
from traube._storage.storage import Storage

FORMAT = 1  # raise when an archive has to be read in another way
CHUNK = 2**20  # bytes that are read of an archive at once; headers are far shorter
DEEPEST = 20  # folders; a served model's numbers lie seven deep
END = bytes(2 * tarfile.BLOCKSIZE)  # what ends an archive
_SKIPPED = ("blobs", "dagster", "dagster_shared")  # blobs are taken from the storage; of Dagster nothing is kept
_TRANSIENT = (".lock", "-wal", "-shm", "-journal")


def write_backup(storage: Storage, checkpoints: Path, file: Path) -> list[str]:
    """Write a backup of a data directory and its checkpoints to a new file; return what was left out, one line each.

    Others may write to the storage meanwhile.
    """
    if file.exists():
        raise Conflict(f"{file}: is there already; give the backup another name")
    about = {"format": FORMAT, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    file.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(file) as new,
        tarfile.open(new, "w", dereference=True) as archive,
        TemporaryDirectory(dir=file.parent) as folder,
    ):
        _add(archive, ABOUT, json.dumps(about).encode())
        files, left_out = _list_files(storage.folder, checkpoints)
        for name, path in files.items():
            with suppress(FileNotFoundError):  # was deleted meanwhile
                if name != f"{DATA}/{MLFLOW}":
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


def restore_backup(
    file: Path, folder: Path, checkpoints: Path, adopt_history: Callable[[Path], list[str]] | None = None
) -> list[str]:
    """Restore a backup into a data directory that is empty but for `.env`, and its checkpoints beside others.

    The catalog is left to whoever opens the storage, which makes it from the blobs.

    Parameters
    ----------
    file : Path
        The archive.
    folder : Path
        The data directory.
    checkpoints : Path
        The folder of checkpoints.
    adopt_history : callable, optional
        Takes MLflow's database of the archive over into one of this installation; without it, none is restored.

    Returns
    -------
    list of str
        What is corrupt, or no part of a history that is taken over, one line each.

    Raises
    ------
    TraubeError
        If the archive holds anything that is on no list, or would replace a file. Nothing is written then.
    """
    if folder.is_dir() and (present := sorted(path.name for path in folder.iterdir() if path.name != ".env")):
        raise Conflict(f"{folder}: is not empty ({present[0]}); set TRAUBE_HOME to an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        explain_errors(folder),
        _open_archive(file) as archive,
        TemporaryDirectory(dir=folder, prefix=".restore-") as temporary,
    ):
        kept = _check_members(file, archive)
        names = {name.split("/")[1] for name in kept if name.startswith(f"{CHECKPOINTS}/")}
        if present := sorted(name for name in names if os.path.lexists(checkpoints / name)):
            fix = "move it away, or set TRAUBE_CHECKPOINTS to another folder"
            raise Conflict(f"{checkpoints / present[0]}: is there already; {fix}")
        lines = [line for member in kept.values() if (line := _extract(archive, member, Path(temporary)))]
        if (history := Path(temporary) / DATA / MLFLOW).exists():
            lines += adopt_history(history) if adopt_history else [f"{MLFLOW}: not restored: MLflow is not installed"]
            history.unlink()
        for name, target in ((CHECKPOINTS, checkpoints), (DATA, folder)):
            target.mkdir(parents=True, exist_ok=True)
            for path in sorted((Path(temporary) / name).glob("*")):
                shutil.move(path, target / path.name)
    return lines


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
    for name, path in _list_files(source, None)[0].items():
        inner = Path(name).relative_to(DATA)
        if inner.parts[0] not in (MLFLOW, MLARTIFACTS) and not os.path.lexists(target / inner):
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), replacing(target / inner) as new:
                shutil.copy2(path, new)


def _list_files(folder: Path, checkpoints: Path | None) -> tuple[dict[str, Path], list[str]]:
    """Return the files that cannot be made again, by their names in an archive, and what is on no list, one line each."""
    files: dict[str, Path] = {}
    others: Counter[Path] = Counter()
    for base, root in ((DATA, folder), *([(CHECKPOINTS, checkpoints)] if checkpoints else [])):
        for entry in walk(root):
            path = Path(entry.path)
            inner = path.relative_to(root)
            is_checkpoint = checkpoints is not None and path.is_relative_to(checkpoints)
            if base == DATA and (inner.parts[0] in _SKIPPED or inner.parts[0].startswith(".") or is_checkpoint):
                continue
            if entry.is_dir(follow_symlinks=False) or path.name.endswith(_TRANSIENT):
                continue
            name = f"{base}/{inner.as_posix()}"
            fate = find_fate(name)
            if fate is Fate.KEPT and entry.is_file(follow_symlinks=False):
                files[name] = path
            elif fate is not Fate.MADE_AGAIN:
                others[root / inner.parts[0]] += 1
    ordered = sorted(files, key=lambda name: (name != f"{DATA}/{MLFLOW}", name))
    lines = [f"{path}: files or links that a backup does not hold: {count:,}" for path, count in others.items()]
    return {name: files[name] for name in ordered}, lines


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
    archive.addfile(member, io.BytesIO(content))


class _Archive(io.FileIO):
    """A file that is read in small parts, whatever sizes an archive's headers name."""

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= CHUNK:
            raise tarfile.ReadError("a header is too long")
        return super().read(size)


@contextmanager
def _open_archive(file: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive as backups are: not compressed, so no file in it is larger than the archive."""
    check_file(file)
    try:
        with _Archive(file) as opened, tarfile.open(fileobj=opened, mode="r:") as archive:
            yield archive
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise Malformed(f"{file}: no backup of Traube, or corrupt ({error}); nothing was restored") from None


def _check_members(file: Path, archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return the files of an archive to restore, by name; refuse it if it holds anything else than a backup does."""
    first = archive.next()
    is_header = first is not None and first.name == ABOUT and first.isreg() and first.size <= CARD
    header = archive.extractfile(first) if first is not None and is_header else None
    try:
        about = parse_json(header.read(CARD)) if header else None
    except ValueError:
        about = None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise Incompatible(f"{file}: no backup of this version of Traube; nothing was restored")
    size = file.stat().st_size
    kept: dict[str, tarfile.TarInfo] = {}
    folders: set[str] = set()
    while (
        member := archive.next()
    ) is not None:  # each is looked at before the next: sizes may lead backward, without end
        fault = "headers for all files" if archive.pax_headers else _find_fault(member, size, kept, folders)
        if fault:
            raise Unsafe(f"{file}: {member.name[:200]}: {fault}; nothing was restored")
        if find_fate(member.name) is Fate.KEPT:
            kept[member.name] = member
            folders.update(map(str, Path(member.name).parents))
    content = archive.fileobj
    assert content is not None, file
    content.seek(archive.offset)
    # tarfile takes the end of a file for the end of an archive, too
    if size % tarfile.RECORDSIZE or content.read(len(END)) != END:
        raise tarfile.ReadError("cut off")
    return kept


def _find_fault(member: tarfile.TarInfo, size: int, files: Collection[str], folders: Collection[str]) -> str:
    """Return why a backup cannot hold a member, beside the files and folders before it; empty if it can."""
    if not member.isreg() or member.issparse():
        return "a link, a folder or no plain file, and backups have none"
    if find_fate(member.name) is None:
        return "is not on the list of what a backup holds"
    if not 0 <= member.size <= size - member.offset_data:
        return f"{member.size:,} bytes, more than the archive has"
    if (largest := find_largest(member.name)) is not None and member.size > largest:
        return f"{member.size:,} bytes; {largest:,} at most"
    path = Path(member.name)
    if len(os.fsencode(path)) > LONGEST_PATH // 2 or any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        return "the name is too long"
    if len(path.parts) > DEEPEST:
        return f"nested deeper than {DEEPEST} folders"
    is_taken = member.name in folders or any(str(place) in files for place in (path, *path.parents))
    return "occurs twice" if is_taken else ""


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> str:
    """Write a file of an archive below a folder, a blob only if it matches its name; return what is corrupt, in one line."""
    target, sha256 = folder / member.name, hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None, member.name
    target.touch(mode=0o600, exist_ok=False)
    with target.open("wb") as file:
        while chunk := content.read(CHUNK):
            sha256.update(chunk)
            file.write(chunk)
    is_blob = member.name.startswith((f"{DATA}/blobs/", f"{DATA}/pending/")) and target.name != IDENTITY
    if is_blob and sha256.hexdigest() != target.name:
        target.unlink()
        return f"{member.name}: checksum mismatch"
    if member.name.startswith(f"{DATA}/generated_cards/") and _names_endpoint(target):
        target.unlink()
        return f"{member.name}: not restored: an endpoint, which texts would be sent to; name it again (-m URL#MODEL)"
    return ""


def _names_endpoint(card: Path) -> bool:
    """Return whether a card is of a model behind an endpoint."""
    try:
        entry, _ = read_yaml(card)
    except TraubeError:  # whoever reads it names it
        return False
    return "url" in entry or entry.get("kind") == "endpoint"
