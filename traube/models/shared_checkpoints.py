"""Checkpoints that several machines share: each is handed over whole, and taken whole.

::

    checkpoints/<name>/<content>/...    the files of a checkpoint, below a hash of all of them
    checkpoints/<name>.json             which files there are, with their hashes: written last

One that is removed from a machine's `checkpoints/` stays where else it is, and is not taken again
while it is the same. One that the share has lost is handed over again. Only what was exchanged is
ever replaced: where two machines have others under one name, each keeps its own, and says so.
"""

import json
import re
import shutil
import sys
import time
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from traube.foundation import machines, paths, settings, share
from traube.foundation.disk import read_json
from traube.foundation.errors import TraubeError
from traube.foundation.files import locked, write_json
from traube.foundation.hashing import digest, file_sha256

FOLDER = "checkpoints"
SECONDS = 30.0  # between two looks at what others have
SETTLED = 10.0  # seconds since the last file was written
HASH = re.compile(r"[0-9a-f]{64}")

_looked: dict[Path, float] = {}


def exchange(folders: list[Path]) -> None:
    """Take the checkpoints that others have, and hand over those that are whole. Nothing where
    nothing is shared, or if this process has done so within some seconds.

    Parameters
    ----------
    folders : the checkpoints here that are whole; those that were written to just now wait

    Raises
    ------
    TraubeError
        If the share cannot be reached.
    """
    shared = share.of_home() if settings.share() else None
    root = paths.checkpoints()
    if shared and time.monotonic() - _looked.get(root, -SECONDS) > SECONDS:
        _looked[root] = time.monotonic()
        exchange_with(shared, [folder for folder in folders if _is_settled(folder)])


def exchange_with(shared: share.Share, folders: list[Path]) -> None:
    """The same with one share, now."""
    root = paths.checkpoints()
    kept = paths.home() / f"checkpoints-{digest(shared.remote.url)}.json"
    with locked(kept):
        known, theirs = read_json(kept), _theirs(shared)
        for name, version in theirs.items():
            last = known.get(name, {})
            if last.get("version") != version and (found := _take(shared, root / name, version, last)):
                known[name] = found
                write_json(kept, known)
        for folder in folders:
            last = known.get(folder.name, {})
            if theirs.get(folder.name) not in (None, last.get("version")):
                continue  # another machine's
            untold = folder.name not in theirs or last.get("state") != _state(folder)
            if untold and (found := _hand_over(shared, folder, last)):
                known[folder.name] = found
                write_json(kept, known)


def copies(shared: share.Share, folder: Path) -> dict[str, Path]:
    """The files of a checkpoint here, by the names that they have in the share.

    Raises
    ------
    TraubeError
        If the share has other files under its name, or none.
    """
    about = _about(shared, folder.name)
    if about.get("files") != _hashes(folder):
        where = shared.remote.where(f"{FOLDER}/{folder.name}.json")
        raise TraubeError(f"{where}: is not of {folder}: rename that folder, and run the command again")
    return {f"{FOLDER}/{folder.name}/{about['content']}/{name}": folder / name for name in about["files"]}


def _theirs(shared: share.Share) -> dict[str, str]:
    """The versions of the lists of files, by the names of the checkpoints."""
    return {
        name.removeprefix(f"{FOLDER}/").removesuffix(".json"): version
        for name, version in shared.remote.versions(FOLDER).items()
        if name.count("/") == 1 and name.endswith(".json")
    }


def _files(folder: Path) -> list[Path]:
    """Those that are shared: no links, and nothing hidden."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if _is_plain(path.relative_to(folder).as_posix()))


def _state(folder: Path) -> str:
    """A hash of the files' names, sizes and times."""
    return digest([(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in _files(folder)])


def _is_settled(folder: Path) -> bool:
    return bool(_files(folder)) and time.time() - max(p.stat().st_mtime for p in _files(folder)) > SETTLED


def _hashes(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}


def _hand_over(shared: share.Share, folder: Path, last: dict[str, Any]) -> dict[str, Any] | None:
    """Send a checkpoint, unless another machine has handed over another one since the last time;
    what is to be remembered of it then.
    """
    name, state, hashes = folder.name, _state(folder), _hashes(folder)
    content = digest(hashes)
    place = f"{FOLDER}/{name}/{content}"
    with machines.held_by_name(f"{FOLDER}/{name}"):
        if _theirs(shared).get(name) not in (None, last.get("version")):
            return None
        there = shared.remote.versions(f"{FOLDER}/{name}")
        for file in hashes:
            if f"{place}/{file}" not in there:
                shared.remote.upload(f"{place}/{file}", folder / file)
        about = json.dumps({"content": content, "files": hashes}, indent=1)
        version = shared.remote.write(f"{FOLDER}/{name}.json", about.encode())
        for file in there:
            if not file.startswith(f"{place}/"):  # of what it was before
                shared.remote.remove(file)
    return {"version": version, "state": state, "content": content}


def _take(shared: share.Share, folder: Path, version: str, last: dict[str, Any]) -> dict[str, Any] | None:
    """Fetch a checkpoint, unless that would replace what was not handed over; what is to be
    remembered of it then.
    """
    where, is_here = shared.remote.where(f"{FOLDER}/{folder.name}"), folder.exists() or folder.is_symlink()
    state = _state(folder) if is_here else None
    if is_here and last.get("kept") == [version, state]:
        return _keep(folder, version, last)
    about = _about(shared, folder.name)
    if not _is_plain(folder.name) or not _is_sound(about):
        _say(f"{where}.json: is no list of a checkpoint's files, and is passed over")
        return None
    found = {"version": version, "state": state, "content": about["content"]}
    if is_here and _hashes(folder) == about["files"]:
        return found
    if is_here and state != last.get("state"):
        return _keep(folder, version, last)
    if not is_here and last.get("content") == about["content"]:  # removed here, and the same as before
        return {**last, "version": version}
    return {**found, "state": _state(folder)} if _fetch(shared, folder, about) else None


def _keep(folder: Path, version: str, last: dict[str, Any]) -> dict[str, Any]:
    _say(
        f"{folder}: another machine has shared other files under this name; yours stay, and are not shared: "
        "rename the folder to share it too, or remove it to get the other one"
    )
    return {**last, "kept": [version, _state(folder)]}


def _fetch(shared: share.Share, folder: Path, about: dict[str, Any]) -> bool:
    """Put a checkpoint into its place, whole; False if its files are not what their list says."""
    place = f"{FOLDER}/{folder.name}/{about['content']}"
    new, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("taken", "replaced"))
    shutil.rmtree(new, ignore_errors=True)
    try:
        for file in about["files"]:
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            shared.remote.download(f"{place}/{file}", new / file)
        if _hashes(new) != about["files"]:
            _say(f"{shared.remote.where(f'{FOLDER}/{folder.name}')}: damaged, and passed over")
            return False
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except FileNotFoundError:  # replaced by another meanwhile
        return False
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return True


def _about(shared: share.Share, name: str) -> dict[str, Any]:
    try:
        said = json.loads(shared.remote.read(f"{FOLDER}/{name}.json"))
    except (FileNotFoundError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_sound(about: dict[str, Any]) -> bool:
    """Whether a list of files can be followed: it is from whoever can write to the share."""
    files = about.get("files")
    if not isinstance(files, dict) or not files:
        return False
    if not all(_is_plain(name) and HASH.fullmatch(str(value)) for name, value in files.items()):
        return False
    is_nested = any(str(folder) in files for name in files for folder in PurePosixPath(name).parents)
    return not is_nested and about.get("content") == digest(files)


def _is_plain(name: str) -> bool:
    """Whether a name leads to a file below its folder, and to nothing hidden there."""
    parts = name.split("/")  # an absolute name begins with an empty one
    return name.isprintable() and "\\" not in name and all(part and not part.startswith(".") for part in parts)


@lru_cache(maxsize=1000)  # once for each process
def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
