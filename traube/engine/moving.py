"""A home copied into a share, with all that was computed in it; `traube move-home`.

What is there already is not sent again, so that a copy that was cut off goes on. Afterwards every
file is compared with its copy; blocks of vectors, with the hash in their names.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import file_digest, md5
from pathlib import Path
from tempfile import TemporaryDirectory

from traube.foundation import share
from traube.foundation.disk import below
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest, file_sha256
from traube.foundation.remote import Remote, remote_at
from traube.models import EmbeddingCache, checkpoints, shared_checkpoints, shared_vectors

ARTIFACTS = "mlartifacts"


@dataclass(frozen=True)
class Moved:
    """What was copied of a kind: how many there are, and how many were not there before."""

    kind: str
    files: int
    new: int


def copy_home(home: Path, url: str) -> Iterator[Moved]:
    """Copy a home, kind by kind.

    Raises
    ------
    TraubeError
        If the URL is another home's, cannot be written, or a copy differs in the end.
    """
    remote = remote_at(url)
    if share.about_share(remote) is None:
        _forget_notes(home, remote)
    share.identify(home, remote)
    shared = share.Share(home, remote)
    before = len(remote.versions(share.STORE))
    shared.look()
    _compare(home, remote, {home / name: (name, version) for name, version in shared.theirs.items()})
    yield Moved("files of the store", len(shared.theirs), len(remote.versions(share.STORE)) - before)
    yield _counted("blocks of vectors", remote, shared_vectors.FOLDER, lambda: _copy_vectors(home, shared))
    folder = shared_checkpoints.FOLDER
    yield _counted("files of checkpoints", remote, folder, lambda: _copy_checkpoints(home, shared))
    yield _counted("files of MLflow", remote, ARTIFACTS, lambda: _copy_artifacts(home, remote))


def _forget_notes(home: Path, remote: Remote) -> None:
    """What was noted of a share that was emptied counts no more: it is filled as a new one is."""
    for kind in ("db", "json"):
        for notes in home.glob(f"*-{digest(remote.url)}.{kind}"):
            notes.unlink()


def _counted(kind: str, remote: Remote, folder: str, copy: Callable[[], object]) -> Moved:
    before = len(remote.versions(folder))
    copy()
    after = len(remote.versions(folder))
    return Moved(kind, after, after - before)


def _copy_vectors(home: Path, shared: share.Share) -> None:
    cache = EmbeddingCache(home / shared_vectors.FOLDER)
    here = {folder.name for folder in cache.folder.glob("*") if folder.is_dir()}
    for fingerprint in sorted(here):
        shared_vectors.exchange_with(shared, cache.shelf(fingerprint))
        shared_vectors.check(shared, fingerprint)


def _copy_checkpoints(home: Path, shared: share.Share) -> None:
    whole = [folder for folder in checkpoints.folders() if not folder.is_symlink()]
    usable = [folder for folder in whole if not checkpoints.unfinished(folder)]
    shared_checkpoints.exchange_with(shared, usable)
    there = shared.remote.versions(shared_checkpoints.FOLDER)
    for folder in usable:
        files = shared_checkpoints.copies(shared, folder)
        there |= {name: shared.remote.upload(name, path) for name, path in files.items() if name not in there}
        _compare(home, shared.remote, {path: (name, there[name]) for name, path in files.items()})


def _copy_artifacts(home: Path, remote: Remote) -> None:
    cut, there = len(str(home)) + 1, remote.versions(ARTIFACTS)
    names = [entry.path[cut:] for entry in below(home / ARTIFACTS) if entry.is_file()]
    for name in names:
        if name not in there:
            there[name] = remote.upload(name, home / name)
    _compare(home, remote, {home / name: (name, there[name]) for name in names})


def _compare(home: Path, remote: Remote, copies: dict[Path, tuple[str, str]]) -> None:
    """Compare files here with their copies, each a name and a version. S3 tells the MD5 of most; the
    others are read back.

    Raises
    ------
    TraubeError
        If one differs, or is not there.
    """
    with TemporaryDirectory(dir=home) as folder:
        for path, (name, version) in copies.items():
            if path.exists() and version.strip('"') != _md5(path) and not _is_equal(remote, name, path, Path(folder)):
                raise TraubeError(
                    f"{remote.where(name)}: differs from {path}; remove the one that is wrong, and run the command again"
                )


def _is_equal(remote: Remote, name: str, path: Path, folder: Path) -> bool:
    copy = folder / "copy"
    try:
        remote.download(name, copy)
    except FileNotFoundError:
        return False
    return file_sha256(copy) == file_sha256(path)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()
