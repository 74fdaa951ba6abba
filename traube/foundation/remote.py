"""Files below a URL, through fsspec: S3 by s3fs, a folder, or what else fsspec knows.

A file is there whole or not at all. Where the server cannot be reached, every request waits for it,
and says so; what is refused is one line.
"""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from traube.foundation import stopping
from traube.foundation.errors import TraubeError
from traube.foundation.extras import install_hint

T = TypeVar("T")
PATIENCE = 120.0  # seconds that a request waits for a server that is gone
SKEW = 300.0  # seconds by which the clocks of machine and server may differ; S3 refuses from 900 on
_SMALL = 32 << 20  # bytes that are sent as one request
PROBES = "locks/probes"
_GONE = (errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO), errno.ECONNREFUSED, errno.ECONNRESET)


class Unreachable(TraubeError):
    """A server that did not answer for `PATIENCE` seconds."""


def remote_at(url: str) -> "Remote":
    """What lies below a URL.

    Raises
    ------
    TraubeError
        If it is no URL and no whole path, fsspec knows no such URL, or a package for it is not
        installed.
    """
    import fsspec

    url = _whole(url)
    protocol = url.partition("://")[0] if "://" in url else "file"
    try:
        if protocol == "s3":
            return S3(url)
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise TraubeError(f"{url}: {error.name or error} is not installed: {install_hint('s3')}") from None
    except ValueError as error:
        raise TraubeError(f"{url}: {error}") from None
    return Folder(url, files, root) if protocol == "file" else Remote(url, files, root)


def _whole(url: str) -> str:
    """A URL or path in one form. A path within the working directory would be another one for each."""
    scheme, is_url, rest = url.partition("://")
    if is_url and scheme:
        return f"{scheme.lower()}://{rest}"
    with suppress(RuntimeError):  # from ~USER, where there is no such user
        if (path := Path(url).expanduser()).is_absolute():
            return str(path.resolve())
    raise TraubeError(f"'{url}': expected s3://BUCKET/PREFIX, or the whole path of a folder, such as /mnt/traube")


class Remote:
    """Files of a fsspec file system below `root`, by name, such as `store/tasks/x.parquet`.

    A file's *version* is a text that changes when the file does.

    Attributes
    ----------
    url : as people gave it
    swaps : whether a file can be written on condition, so that it can be a lock
    skew : seconds by which this machine's clock is ahead of the server's; None where it is not told
    """

    swaps = False

    def __init__(self, url: str, files: Any, root: str) -> None:
        self.url, self.files, self.root = url.rstrip("/"), files, root.rstrip("/")
        self.skew: float | None = None

    def where(self, name: str) -> str:
        """A file as people are told of it."""
        return f"{self.url}/{name}" if name else self.url

    def versions(self, folder: str = "") -> dict[str, str]:
        """The files below a folder, hidden ones excepted, and their versions."""
        found = self._ask(lambda: self._find(folder), folder)
        return {name: version for name, version in found.items() if not _is_hidden(name)}

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError if there is no such file."""
        return self._ask(lambda: bytes(self.files.cat_file(self._at(name))), name)

    def download(self, name: str, path: Path) -> None:
        """Raises FileNotFoundError if there is no such file."""
        self._ask(lambda: self.files.get_file(self._at(name), str(path)), name)

    def write(self, name: str, content: bytes) -> str:
        """Write a file; returns its version."""
        return self._ask(lambda: self._write(name, content), name)

    def upload(self, name: str, path: Path) -> str:
        """Write a file that lies here; returns its version."""
        if path.stat().st_size <= _SMALL:
            return self.write(name, path.read_bytes())
        return self._ask(lambda: self._upload(name, path), name)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self._ask(lambda: self.files.rm_file(self._at(name)), name)
        except FileNotFoundError:
            return

    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        """Write a file that has this version still, or that is absent still; returns the new
        version, or None if another was faster.
        """
        raise NotImplementedError

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _find(self, folder: str) -> dict[str, str]:
        found = self.files.find(self._at(folder), detail=True)
        return {path[len(self.root) + 1 :]: _version(about) for path, about in found.items()}

    def _write(self, name: str, content: bytes) -> str:
        self.files.pipe_file(self._at(name), content)
        return _version(self.files.info(self._at(name)))

    def _upload(self, name: str, path: Path) -> str:
        self.files.put_file(str(path), self._at(name))
        return _version(self.files.info(self._at(name)))

    def _ask(self, request: Callable[[], T], name: str) -> T:
        """The answer to a request, which is made again while the server cannot be reached.

        Raises
        ------
        Unreachable
        TraubeError
            If it refuses.
        FileNotFoundError
        """
        began, pause, said = time.monotonic(), 0.5, False
        while True:
            try:
                answer = request()
            except Exception as error:
                reason = _gone(error)
                if reason is None:
                    raise self._in_words(error, name) from error
                if not said:
                    _say(f"waiting for {self.url}: {reason}")
                    said = True
                if time.monotonic() - began > PATIENCE:
                    raise Unreachable(
                        f"{self.url}: not reached for {PATIENCE:.0f} seconds ({reason}); what is finished is kept "
                        "here, and the same command goes on from there"
                    ) from None
            else:
                if said:
                    _say(f"{self.url} is back")
                return answer
            stopping.check()
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _in_words(self, error: Exception, name: str) -> Exception:
        if isinstance(error, FileNotFoundError | TraubeError):
            return error
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "TooSkewed" in repr(error.__cause__):
            return TraubeError(f"{self.url}: this machine's clock differs too much from the server's; set it (NTP)")
        if isinstance(error, PermissionError):
            return TraubeError(
                f"{self.where(name)}: refused ({first}): the credentials lack a right; `traube doctor` says which"
            )
        return TraubeError(f"{self.where(name)}: {first}")


class Folder(Remote):
    """A folder of this machine, or one that several have mounted."""

    def _find(self, folder: str) -> dict[str, str]:
        return super()._find(folder) if Path(self._at(folder)).is_dir() else {}

    def _write(self, name: str, content: bytes) -> str:
        return self._put(name, lambda new: new.write_bytes(content))

    def _upload(self, name: str, path: Path) -> str:
        return self._put(name, lambda new: self.files.put_file(str(path), str(new)))

    def _put(self, name: str, write: Callable[[Path], object]) -> str:
        path = Path(self._at(name))
        new = path.with_name(f".{path.name}.{uuid4().hex}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(new)
            with new.open("rb") as file:
                os.fsync(file.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        return _version(self.files.info(str(path)))


class S3(Remote):
    """A bucket, or a part of it. Endpoint and credentials are botocore's own settings
    (AWS_ENDPOINT_URL, AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE).
    """

    swaps = True

    def __init__(self, url: str) -> None:
        from s3fs import S3FileSystem

        config = {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}}
        files = S3FileSystem(use_listings_cache=False, config_kwargs=config)
        super().__init__(url, files, url.removeprefix("s3://"))
        self.bucket, _, self.prefix = self.root.partition("/")
        if not self.bucket:
            raise TraubeError(f"{url}: expected s3://BUCKET/PREFIX")

    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        return self._ask(lambda: self._swap(name, content, condition), name)

    def look(self, name: str) -> tuple[str, int]:
        """The version of a file, and its size. Raises FileNotFoundError if there is no such file."""
        key = self._key(name)
        found = self._ask(lambda: self.files.call_s3("head_object", Bucket=self.bucket, Key=key), name)
        return str(found["ETag"]), int(found["ContentLength"])

    def _swap(self, name: str, content: bytes, condition: dict[str, str]) -> str | None:
        try:
            return self._put(name, content, **condition)
        except OSError as error:
            if _code(error) in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409"):
                return None
            raise

    def _find(self, folder: str) -> dict[str, str]:
        prefix = f"{self.prefix}/" if self.prefix else ""
        found: dict[str, str] = {}
        more: dict[str, str] = {}
        while True:
            page = self.files.call_s3(
                "list_objects_v2", Bucket=self.bucket, Prefix=prefix + (f"{folder}/" if folder else ""), **more
            )
            self._note_clock(page)
            found |= {entry["Key"][len(prefix) :]: entry["ETag"] for entry in page.get("Contents", ())}
            if not page.get("IsTruncated"):
                return found
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _write(self, name: str, content: bytes) -> str:
        return self._put(name, content)

    def _put(self, name: str, content: bytes, **condition: str) -> str:
        answer = self.files.call_s3("put_object", Bucket=self.bucket, Key=self._key(name), Body=content, **condition)
        self._note_clock(answer)
        return str(answer["ETag"])

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _note_clock(self, answer: dict[str, Any]) -> None:
        said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if said:
            from email.utils import parsedate_to_datetime

            self.skew = time.time() - parsedate_to_datetime(said).timestamp()

    def _in_words(self, error: Exception, name: str) -> Exception:
        if _code(error) == "NoSuchBucket":
            return TraubeError(f"{self.url}: there is no bucket '{self.bucket}'; make it, or change TRAUBE_SHARE")
        return super()._in_words(error, name)


def rights(remote: Remote) -> Iterator[tuple[str, str]]:
    """What may be done with a share, tried on a file of its own: each right, and what is wrong with it
    (nothing mostly).
    """
    name, version = f"{PROBES}/{uuid4().hex}", ""

    def write() -> None:
        nonlocal version
        version = remote.write(name, b"1")

    def change_on_condition() -> None:
        later = remote.swap(name, b"2", version)
        if not later or remote.swap(name, b"3", version) or remote.swap(name, b"3", None):
            raise TraubeError(f"{remote.url}: does not heed If-Match and If-None-Match of a PUT: set TRAUBE_DATABASE")

    tried = {
        "list": lambda: remote.versions(PROBES),
        "write": write,
        "read": lambda: remote.read(name),
        **({"lock": change_on_condition} if remote.swaps else {}),
        "delete": lambda: remote.remove(name),
    }
    for right, act in tried.items():
        try:
            act()
        except (TraubeError, FileNotFoundError) as error:
            yield right, str(error)
            if right == "write" or isinstance(error, Unreachable):
                return
        else:
            yield right, ""


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _version(about: dict[str, Any]) -> str:
    """What tells a file from what it was before."""
    for key in ("ETag", "etag", "md5Hash", "generation"):
        if about.get(key):
            return str(about[key])
    changed = about.get("mtime", about.get("LastModified", about.get("updated")))
    seconds = changed.timestamp() if isinstance(changed, datetime) else changed
    return f"{seconds}-{about.get('size')}-{about.get('ino', '')}"


def _code(error: BaseException) -> str:
    """What S3 calls an error; empty for any other."""
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _gone(error: Exception) -> str | None:
    """Why a server cannot be reached; None for an error that another attempt would meet again."""
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | TraubeError):
        return None
    kinds = {kind.__name__ for kind in type(error).__mro__}
    reached = {"HTTPClientError", "ClientConnectionError", "ConnectionError", "TimeoutError", "FSTimeoutError"}
    if kinds & reached or (isinstance(error, OSError) and error.errno in _GONE):
        return (str(error).strip().splitlines() or [type(error).__name__])[0].replace('"', "'")
    return None
