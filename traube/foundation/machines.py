"""Locks between machines, for what they share.

With a database they are advisory locks of Postgres, which end with the process that holds them.
Without one they are *leases*: files of the share that are written on condition (S3's conditional
PUT), and renewed as long as they are held. One that has not changed for a minute is taken over; that
minute is measured by whoever waits, so no two clocks are ever compared, and begins anew when the
server was away, since nobody could renew anything then. A folder that is mounted by
several machines has file locks, where its file system keeps them.
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from traube.foundation import paths, settings, stopping
from traube.foundation.errors import TraubeError
from traube.foundation.extras import install_hint
from traube.foundation.identity import about
from traube.foundation.remote import S3, Folder
from traube.foundation.share import Share, of_home

LASTS = 60.0  # seconds that a lease lasts that nobody renews
RENEWED = 15.0  # seconds
LOCKS = "locks"
# file systems of the network whose file locks are not kept everywhere
NETWORKS = ("nfs", "nfs4", "cifs", "smbfs", "smb3", "fuse.sshfs", "fuse.s3fs", "9p", "afs")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file of the home that other machines share; whoever has it knows what others
    have written before. Nothing where nothing is shared.
    """
    if not settings.share() and not settings.database():
        yield
        return
    share, name = of_home(), _name(path)
    if name is None or (share and not _is_common(name)):
        yield
        return
    with held_by_name(name):
        if share:
            share.look()
        yield


@contextmanager
def held_by_name(name: str) -> Iterator[None]:
    """Hold a lock of all machines that share this home."""
    share = of_home()
    if settings.database():
        with _advisory(name):
            yield
    elif share:
        with _of_share(share, name):
            yield
    else:
        yield


def _name(path: Path) -> str | None:
    home = paths.home()
    return path.relative_to(home).as_posix() if path.is_relative_to(home) else None


def _is_common(name: str) -> bool:
    """Whether what a lock guards is shared: the store, but for what goes on in one machine only."""
    return name.startswith("store/") and not name.startswith(("store/index/", "store/trainings/", "store/pages/"))


def _of_share(share: Share, name: str) -> Any:
    if isinstance(share.remote, S3):
        return _lease(share.remote, f"{LOCKS}/{name}")
    if isinstance(share.remote, Folder):
        return _file_lock(Path(share.remote.root) / LOCKS / f"{name}.lock")
    raise TraubeError(f"{share.remote.url}: knows no locks; set {settings.DATABASE} to a Postgres, which does")


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    kind = network_of(path)
    if kind:
        raise TraubeError(f"{path}: file locks are not kept on {kind}; set {settings.DATABASE} to a Postgres")
    with FileLock(path):
        yield


def network_of(path: Path) -> str | None:
    """The kind of network file system that a path lies on; None if it lies on none."""
    import psutil

    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    over = max((m for m in mounts if path.is_relative_to(m)), key=len, default="/")
    return mounts.get(over) if mounts.get(over) in NETWORKS else None


# leases


@contextmanager
def _lease(remote: S3, name: str) -> Iterator[None]:
    me = f"{platform.node()} (process {os.getpid()}) {uuid4().hex}"
    version = _acquire(remote, name, me)
    ended, lease = threading.Event(), _Lease(remote, name, me, version)
    renewing = threading.Thread(target=lease.renew, args=(ended,), daemon=True, name=f"lease {name}")
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        with suppress(TraubeError):  # it ends by itself
            lease.release()


def _acquire(remote: S3, name: str, me: str) -> str:
    """Wait for a lease. An empty file is a lease that nobody holds."""
    seen, since, said = "", time.monotonic(), False
    version = _swap(remote, name, me, None)
    while version is None:
        asked = time.monotonic()
        found, size = remote.look(name)
        had_to_wait = time.monotonic() - asked > RENEWED / 2  # so has whoever renews it
        if found != seen or had_to_wait:
            seen, since = found, time.monotonic()
        if not size or time.monotonic() - since > LASTS:
            version = _swap(remote, name, me, found)
            continue
        if not said:
            holder = remote.read(name).decode(errors="replace").rpartition(" ")[0]
            sys.stderr.write(
                f"waiting for {holder or 'another machine'}, which works on {name.removeprefix('locks/')}\n"
            )
            said = True
        stopping.check()
        time.sleep(0.5)
    return version


def _swap(remote: S3, name: str, content: str, version: str | None) -> str | None:
    """As `Remote.swap`. One that was made, but whose answer was lost, is refused when it is repeated."""
    new = remote.swap(name, content.encode(), version)
    if new is not None:
        return new
    with suppress(FileNotFoundError):
        found, _ = remote.look(name)
        if remote.read(name) == content.encode():
            return found
    return None


class _Lease:
    def __init__(self, remote: S3, name: str, me: str, version: str) -> None:
        self.remote, self.name, self.me, self.version = remote, name, me, version
        self.lost = False

    def renew(self, ended: threading.Event) -> None:
        number = 0
        while not ended.wait(RENEWED):
            number += 1
            with suppress(Exception):  # the next attempt may succeed; until then it lasts
                version = _swap(self.remote, self.name, f"{number} {self.me}", self.version)
                if version is None:
                    self.lost = True
                    sys.stderr.write(f"{self.name}: another machine has taken this lock over; both do the same work\n")
                    return
                self.version = version

    def release(self) -> None:
        if not self.lost:
            self.remote.swap(self.name, b"", self.version)


# Postgres


@contextmanager
def _advisory(name: str) -> Iterator[None]:
    key = blake2b(f"{about(paths.home())['home']}/{name}".encode(), digest_size=8).digest()
    connection = connect()
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            number, said = int.from_bytes(key, "big", signed=True), False
            while not _try(cursor, number):
                if not said:
                    sys.stderr.write(f"waiting for another process or machine, which works on {name}\n")
                    said = True
                stopping.check()
                time.sleep(0.5)
            yield
            if not _was_kept(cursor, number):
                sys.stderr.write(
                    f"{name}: the connection to the database was lost; another machine may have done the same work\n"
                )
    finally:
        connection.close()  # which frees the lock


def _try(cursor: Any, number: int) -> bool:
    cursor.execute("SELECT pg_try_advisory_lock(%s)", (number,))
    return bool(cursor.fetchone()[0])


def _was_kept(cursor: Any, number: int) -> bool:
    """Whether a lock was held until now; it ends with its connection, of which nobody is told."""
    import psycopg2

    try:
        cursor.execute("SELECT pg_advisory_unlock(%s)", (number,))
    except psycopg2.Error:
        return False
    return bool(cursor.fetchone()[0])


def connect() -> Any:
    """A connection to the shared database.

    Raises
    ------
    TraubeError
        If it cannot be reached, or refuses.
    """
    url = settings.database()
    try:
        import psycopg2
    except ImportError:
        raise TraubeError(f"{settings.DATABASE}: psycopg2 is not installed: {install_hint('postgres')}") from None
    try:
        return psycopg2.connect(url, connect_timeout=10, application_name="traube", keepalives_idle=30)
    except psycopg2.Error as error:
        said = " ".join(str(error).split())
        raise TraubeError(f"{settings.without_password(url)}: {settings.without_password(said)}") from None
