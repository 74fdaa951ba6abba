"""Checkpoints that several machines share: each is handed over whole, and taken whole.

::

    checkpoints/<name>/<content>/...    the files of a checkpoint, below a hash of all of them
    checkpoints/<name>.json             which files there are, with their hashes: written last

One that is removed from a machine's `checkpoints/`, or from the share, stays where else it is.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from traube.foundation import paths, settings, share
from traube.foundation.files import digest, file_sha256, locked, read_json, write_json

FOLDER = "checkpoints"
SECONDS = 30.0  # between two looks at what others have
SETTLED = 10.0  # seconds since the last file was written

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
        known = read_json(kept)
        theirs = {
            name.removeprefix(f"{FOLDER}/").removesuffix(".json"): version
            for name, version in shared.remote.versions(FOLDER).items()
            if name.count("/") == 1 and name.endswith(".json")
        }
        for name, version in theirs.items():
            if known.get(name, {}).get("version") != version and (state := _take(shared, root, name)):
                known[name] = {"version": version, "state": state}
                write_json(kept, known)
        for folder in folders:
            state = _state(folder)
            if known.get(folder.name, {}).get("state") != state:
                known[folder.name] = {"version": _hand_over(shared, folder), "state": state}
                write_json(kept, known)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _state(folder: Path) -> str:
    """A hash of the files' names, sizes and times."""
    return digest([(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in _files(folder)])


def _is_settled(folder: Path) -> bool:
    return bool(_files(folder)) and time.time() - max(p.stat().st_mtime for p in _files(folder)) > SETTLED


def _hashes(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}


def _hand_over(shared: share.Share, folder: Path) -> str:
    """Send a checkpoint; returns the version of its list of files."""
    hashes = _hashes(folder)
    place = f"{FOLDER}/{folder.name}/{digest(hashes)}"
    there = shared.remote.versions(f"{FOLDER}/{folder.name}")
    for name in hashes:
        if f"{place}/{name}" not in there:
            shared.remote.upload(f"{place}/{name}", folder / name)
    about = {"content": digest(hashes), "files": hashes}
    version = shared.remote.write(f"{FOLDER}/{folder.name}.json", json.dumps(about, indent=1).encode())
    for name in there:
        if not name.startswith(f"{place}/"):  # of what it was before
            shared.remote.remove(name)
    return version


def _take(shared: share.Share, root: Path, name: str) -> str | None:
    """Fetch a checkpoint; the state of its folder then, or None if it could not be taken."""
    folder = root / name
    about = _about(shared, name)
    hashes = about.get("files", {})
    if folder.exists() and _hashes(folder) == hashes:
        return _state(folder)
    if not hashes or any(part.startswith(".") for file in [name, *hashes] for part in Path(file).parts):
        return None
    new = root / f".{name}.taken"
    shutil.rmtree(new, ignore_errors=True)
    try:
        for file in hashes:
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            shared.remote.download(f"{FOLDER}/{name}/{about['content']}/{file}", new / file)
        if _hashes(new) != hashes:
            sys.stderr.write(f"{shared.remote.where(f'{FOLDER}/{name}')}: damaged, and passed over\n")
            return None
        old = root / f".{name}.replaced"
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except FileNotFoundError:  # replaced by another meanwhile
        return None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return _state(folder)


def _about(shared: share.Share, name: str) -> dict[str, Any]:
    try:
        said = json.loads(shared.remote.read(f"{FOLDER}/{name}.json"))
    except (FileNotFoundError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
