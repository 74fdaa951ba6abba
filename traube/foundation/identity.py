"""Which home a folder, a share or a database is, and of which version of Traube's homes.

A home of before has no such file. It is read as it is, and gets one when it is next prepared.
"""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from traube.foundation.disk import read_json, replacing
from traube.foundation.errors import TraubeError
from traube.foundation.system_errors import explained

ABOUT = "home.json"
VERSION = 1  # raise when a home of before has to be changed to be read


def about(home: Path) -> dict[str, Any]:
    """What a home says of itself, made if it says nothing: `home`, an id, and `version`.

    Raises
    ------
    TraubeError
        If it is of a later version than this Traube knows.
    """
    if not (home / ABOUT).exists():
        _begin(home)
    return readable(read_json(home / ABOUT), str(home))


def _begin(home: Path) -> None:
    """Give a home an id, once, whoever else is about to."""
    from filelock import FileLock

    with explained(home):
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{ABOUT}.lock"):
            if not (home / ABOUT).exists():
                write_about(home, {"home": uuid4().hex, "version": VERSION})


def write_about(home: Path, said: dict[str, Any]) -> None:
    """Have a home say of itself what is given."""
    with replacing(home / ABOUT) as temporary:
        temporary.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def refuse_later(home: Path) -> None:
    """Refuse a home that a later Traube has made: it may be misread."""
    if (home / ABOUT).exists():
        about(home)


def readable(said: dict[str, Any], where: str) -> dict[str, Any]:
    """What a home says of itself, if this Traube can read it."""
    if not isinstance(said.get("version"), int) or not isinstance(said.get("home"), str):
        raise _damaged(where)
    if said["version"] > VERSION:
        raise TraubeError(f"{where}: made by a later Traube (homes of version {said['version']}); upgrade this one")
    return said


def _damaged(where: str) -> TraubeError:
    return TraubeError(f"{where}: {ABOUT} is damaged; restore it from a backup or from another copy of this home")
