"""A home copied into a share, with all that was computed in it; `traube move-home`.

What is there already is not sent again, so that a copy that was cut off goes on. Afterwards every
file is compared with its copy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryDirectory

from traube.foundation import share
from traube.foundation.errors import TraubeError
from traube.foundation.files import below, digest, file_sha256
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
    _compare(home, remote, shared.theirs)
    yield Moved("files of the store", len(shared.theirs), len(remote.versions(share.STORE)) - before)
    yield _counted("blocks of vectors", remote, shared_vectors.FOLDER, lambda: _copy_vectors(home, shared))
    whole = [folder for folder in checkpoints.folders() if not folder.is_symlink()]
    usable = [folder for folder in whole if not checkpoints.unfinished(folder)]
    yield _counted(
        "files of checkpoints",
        remote,
        shared_checkpoints.FOLDER,
        lambda: shared_checkpoints.exchange_with(shared, usable),
    )
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


def _copy_artifacts(home: Path, remote: Remote) -> None:
    cut, there = len(str(home)) + 1, remote.versions(ARTIFACTS)
    names = [entry.path[cut:] for entry in below(home / ARTIFACTS) if entry.is_file()]
    for name in names:
        if name not in there:
            there[name] = remote.upload(name, home / name)
    _compare(home, remote, {name: there[name] for name in names})


def _compare(home: Path, remote: Remote, versions: dict[str, str]) -> None:
    """Compare copies with the files here. S3 tells the MD5 of most; the others are read back."""
    with TemporaryDirectory(dir=home) as folder:
        for name, version in versions.items():
            path = home / name
            if not path.exists() or version.strip('"') == _md5(path):
                continue
            copy = Path(folder) / "copy"
            remote.download(name, copy)
            if file_sha256(copy) != file_sha256(path):
                raise TraubeError(f"{remote.where(name)}: differs from {path}; run the command again")


def _md5(path: Path) -> str:
    return md5(path.read_bytes(), usedforsecurity=False).hexdigest()
