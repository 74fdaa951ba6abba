"""Immutable bytes that are named by their SHA-256, in a folder or, through fsspec, in S3.

Nothing is ever overwritten by other bytes, so readers need no locks. Bytes that do not match their
name are corrupt and count as absent.
"""

import errno
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from typing_extensions import override

from traube._core.errors import (
    Corrupt,
    Inaccessible,
    Incompatible,
    Invalid,
    Missing,
    NotInstalled,
    TraubeError,
    Unreachable,
    first_line,
    install_hint,
)
from traube._core.inputs import parse_json
from traube._core.system_errors import format_error

T = TypeVar("T")
NAME = re.compile("[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}")  # of a write that was killed
IDENTITY = "identity.json"
IDENTITY_OF, LARGEST_MARKER = re.compile("[0-9a-f]{32}"), 10_000  # bytes
STORES = ("s3", "gs", "gcs", "az", "abfs", "abfss")  # object stores that fsspec knows
VERSION = 1  # raise when existing blob stores must be converted before they can be read
LARGEST_PUT = 5 * 2**30  # bytes that S3 takes at once; parts of what was cut would stay there after a crash
PATIENCE = 120.0  # seconds to wait for a server that does not answer
_CONNECTION_ERRORS = {"HTTPClientError", "ClientConnectionError", "ConnectionError", "TimeoutError", "FSTimeoutError"}
_CONNECTION_NUMBERS = (errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO), errno.ECONNREFUSED, errno.ECONNRESET)


def hash_content(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(content).hexdigest()


def make_marker(identity: str, version: int = VERSION) -> bytes:
    """Return the bytes that identify a blob store, with their checksum."""
    about = {"id": identity, "version": version}
    return json.dumps({**about, "checksum": hash_content(json.dumps(about).encode())}).encode()


def retry(
    request: Callable[[], T], where: str, is_lost: Callable[[Exception], bool], patience: float | None = None
) -> T:
    """Make a request, again and again while its server does not answer.

    Parameters
    ----------
    request : callable
        Makes the request and returns its result.
    where : str
        The server as people know it.
    is_lost : callable
        Returns whether an error is one of the connection, and not one that another attempt would meet again.
    patience : float, optional
        Seconds after which attempts end. By default `PATIENCE`.

    Returns
    -------
    object
        The result of `request`.

    Raises
    ------
    Unreachable
        If the server does not answer in time.
    """
    patience = PATIENCE if patience is None else patience
    began, pause, is_reported = time.monotonic(), 0.2, False
    while True:
        try:
            return request()
        except Exception as error:
            if not is_lost(error):
                raise
            reason = first_line(error)
            if time.monotonic() - began + pause > patience:
                raise Unreachable(f"{where}: does not answer ({reason}); the same command goes on from there") from None
        if not is_reported and pause > 1:
            sys.stderr.write(f"waiting for {where}: {reason}\n")
            is_reported = True
        time.sleep(pause)
        pause = min(2 * pause, 5.0)


class Blobs:
    """Blobs below a URL that fsspec knows, such as `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        import fsspec

        options: dict[str, Any] = {"use_listings_cache": False}
        self._one_put = {"chunksize": LARGEST_PUT} if url.startswith("s3:") else {}
        if url.startswith("s3:"):
            options["config_kwargs"] = {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 1}}
        self.url = url.rstrip("/")
        try:
            self._files, root = fsspec.core.url_to_fs(self.url, **options)
        except ImportError as error:
            raise NotInstalled(f"{url}: {error.name or error} is not installed: {install_hint('s3')}") from None
        except ValueError as error:
            raise Invalid(f"{url}: {error}; expected a folder or s3://BUCKET/PREFIX") from None
        self._root = root.rstrip("/")

    def put(self, content: bytes, patience: float | None = None) -> str:
        """Store bytes, even if they are stored already, and return their name.

        Bytes that are there are written again: they may be corrupt, or about to be deleted.
        """
        name = hash_content(content)
        self._request(lambda: self._write(self._locate(name), content), patience)
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob.

        Parameters
        ----------
        name : str
            Name of the blob.

        Returns
        -------
        bytes
            Its content.

        Raises
        ------
        Corrupt
            If it is absent or its bytes do not match its name.
        """
        try:
            content = self._request(lambda: self._read(self._locate(name)))
        except FileNotFoundError:
            raise Corrupt(f"{self.url}/{name}: the blob is absent; `traube run` makes it again") from None
        if hash_content(content) != name:
            raise Corrupt(f"{self.url}/{name}: checksum mismatch; `traube run` makes it again")
        return content

    def first_bytes(self, name: str, count: int) -> bytes:
        """Return the first bytes of a blob; nothing if the blob is absent."""
        with suppress(FileNotFoundError):
            return self._request(lambda: self._read(self._locate(name), count))
        return b""

    def exists(self, name: str) -> bool:
        """Return whether there is a blob of this name; it may be corrupt."""
        return bool(self._request(lambda: self._files.exists(self._locate(name))))

    def delete(self, name: str) -> None:
        """Delete a blob, if it exists."""
        with suppress(FileNotFoundError):
            self._request(lambda: self._files.rm_file(self._locate(name)))

    def list(self) -> Iterator[tuple[str, float]]:
        """Yield the name of each blob and when it was last put, in seconds since 1970."""
        files = self._request(lambda: self._files.find(self._root, detail=True))
        for path, about in files.items():
            if NAME.fullmatch(name := path.rpartition("/")[2]):
                put = about.get("LastModified") or about.get("mtime") or about.get("created")
                yield name, put if isinstance(put, float | int) else put.timestamp()

    def get_identity(self, *, create: bool = True) -> str | None:
        """Return the id of this blob store; None if it has none and none is to be made.

        Parameters
        ----------
        create : bool, default=True
            Whether an id is made where there is none.

        Returns
        -------
        str or None
            The id.

        Raises
        ------
        Corrupt
            If its marker is.
        TraubeError
            If a later version of Traube made the store.
        """
        while True:
            try:
                about = parse_json(self._request(lambda: self._read(self._marker, LARGEST_MARKER)))
                identity, version = str(about["id"]), int(about["version"])
                if not IDENTITY_OF.fullmatch(identity) or about != json.loads(make_marker(identity, version)):
                    raise ValueError("checksum mismatch")
            except FileNotFoundError:
                if not create:
                    return None
                with suppress(FileExistsError):  # somebody else was faster
                    self._request(partial(self._write, self._marker, make_marker(uuid4().hex), "create"))
            except (ValueError, KeyError, TypeError, OverflowError):
                raise Corrupt(f"{self.url}/{IDENTITY}: corrupt; `traube rebuild` makes it again") from None
            else:
                if version > VERSION:
                    raise Incompatible(f"{self.url}: made by a later version of Traube ({version}); upgrade this one")
                return identity

    def restore_identity(self, identity: str) -> None:
        """Write the marker of this blob store again."""
        self._request(lambda: self._write(self._marker, make_marker(identity)))

    @property
    def _marker(self) -> str:
        return f"{self._root}/{IDENTITY}"

    def _locate(self, name: str) -> str:
        if not NAME.fullmatch(name):  # from an entry of somebody else's: it would lead elsewhere
            raise Corrupt(f"{self.url}: '{name[:80]}' is no name of a blob")
        return f"{self._root}/{name[:2]}/{name}"

    def _read(self, path: str, count: int | None = None) -> bytes:
        """Return the bytes of a file, or the first of them."""
        if count is None:
            return bytes(self._files.cat_file(path))
        try:
            return bytes(self._files.cat_file(path, start=0, end=count))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return bytes(self._files.cat_file(path))  # S3 has no range of an empty blob

    def _write(self, path: str, content: bytes, mode: str = "overwrite") -> None:
        self._files.pipe_file(path, content, mode=mode, **self._one_put)

    def write_to(self, name: str, path: Path) -> None:
        """Write a blob to a new file that nobody changes: it may be the blob's own, by another name."""
        path.write_bytes(self.get(name))

    def link(self, name: str, path: Path) -> None:
        """Make a file with a blob's bytes the blob's own file again, which a later `put` replaced; where there are links."""

    def _request(self, request: Callable[[], T], patience: float | None = None) -> T:
        try:
            return retry(request, self.url, _is_lost, patience)
        except Exception as error:
            answer = getattr(error.__cause__, "response", None) or {}  # botocore's
            if answer.get("Error", {}).get("Code") == "NoSuchBucket":
                raise Missing(f"{self.url}: there is no such bucket; make it, or change TRAUBE_BLOBS") from None
            if isinstance(error, FileNotFoundError | FileExistsError | TraubeError):
                raise
            raise Inaccessible(
                f"{self.url}: refused ({first_line(error)}); `traube doctor` tests the rights"
            ) from error


class FolderBlobs(Blobs):
    """Blobs in a folder of this machine, which is made when the first blob is stored."""

    def __init__(self, folder: Path) -> None:
        from fsspec.implementations.local import LocalFileSystem

        self.folder, self._files = folder, LocalFileSystem()  # direct: "::" in a path is no chain of systems
        self.url = self._root = str(folder)

    def get_path(self, name: str) -> Path:
        """Return the file of a blob, in a folder of its first two characters."""
        return self.folder / name[:2] / name

    @override
    def write_to(self, name: str, path: Path) -> None:
        content = self.get(name)  # refused if it is corrupt
        try:
            path.hardlink_to(self.get_path(name))
        except OSError:  # another disk, or one without links
            path.write_bytes(content)

    @override
    def link(self, name: str, path: Path) -> None:
        new = path.with_name(f".{path.name}.{uuid4().hex}")
        with suppress(OSError, TraubeError):  # of a corrupt blob the file stays as it is
            if not path.samefile(self.get_path(name)):
                self.get(name)  # refused if it is corrupt
                new.hardlink_to(self.get_path(name))
                new.replace(path)  # at once: others may read it

    @override
    def _read(self, path: str, count: int | None = None) -> bytes:
        # the folder may be somebody else's: no link is followed, and a pipe or a device may never end
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, a socket
                raise
            raise Corrupt(f"{path}: no plain file") from None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise Corrupt(f"{path}: no plain file")
        with os.fdopen(opened, "rb") as file:
            return file.read(-1 if count is None else count)

    @override
    def _write(self, path: str, content: bytes, mode: str = "overwrite") -> None:
        """Write a file under a temporary name and, once it is on the disk, give it its own."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{uuid4().hex}")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if mode == "create":
                target.hardlink_to(temporary)
            else:
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def delete_temporary_files(self, before: float) -> None:
        """Delete the temporary files of killed writers from before a time, in seconds since 1970."""
        for file in self.folder.glob("??/.*"):  # which may lie behind a link of somebody else's
            with suppress(FileNotFoundError):
                if _TEMPORARY.fullmatch(file.name) and file.lstat().st_mtime < before:
                    file.unlink()

    def _request(self, request: Callable[[], T], patience: float | None = None) -> T:
        try:
            return request()
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise Inaccessible(format_error(error, self.folder)) from error


def open_blobs(url: str, folder: Path) -> Blobs:
    """Return the blobs at the URL or in the folder that `TRAUBE_BLOBS` names, by default those in `folder`."""
    if "://" in url:
        scheme, _, rest = url.partition("://")
        if scheme.lower() not in STORES:  # others would read web pages, or files that name further ones
            raise Invalid(f"TRAUBE_BLOBS: '{url}': expected s3://BUCKET/PREFIX, or the whole path of a folder")
        return Blobs(f"{scheme.lower()}://{rest}")
    if url and not Path(url).expanduser().is_absolute():
        raise Invalid(f"TRAUBE_BLOBS: '{url}': expected s3://BUCKET/PREFIX, or the whole path of a folder")
    return FolderBlobs(Path(url).expanduser() if url else folder)


def _is_lost(error: Exception) -> bool:
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | TraubeError):
        return False
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & _CONNECTION_ERRORS) or (isinstance(error, OSError) and error.errno in _CONNECTION_NUMBERS)
