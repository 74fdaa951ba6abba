"""Folders that Traube reads and writes.

In a checkout, paths are relative to it and never to the working directory, since Dagster's processes have several.
Installed from a wheel, there is no checkout: everything lies below `~/.traube`, never in site-packages.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]  # the checkout, or site-packages
IN_CHECKOUT = (_PACKAGE_PARENT / "operations").is_dir() and (_PACKAGE_PARENT / "definitions.py").is_file()
PROJECT = _PACKAGE_PARENT if IN_CHECKOUT else Path.home() / ".traube"
_HOME: ContextVar[Path | None] = ContextVar("home", default=None)  # set by `use_home`
_PACKAGED_PARAMS = _PACKAGE_PARENT / "traube" / "_pipeline" / "params.yaml"  # in a wheel only


def _from_environment(variable: str, default: Path) -> Path:
    """Return the path that a variable names.

    A relative path is below the checkout or, without one, the working directory.
    """
    value = os.environ.get(variable)
    return _resolve(PROJECT if IN_CHECKOUT else Path.cwd(), value) if value else default


@lru_cache(maxsize=64)  # called thousands of times when hundreds of models are looked up
def _resolve(base: Path, value: str) -> Path:
    return (base / value).resolve()


def home() -> Path:
    """Return the current data directory: that of the enclosing `use_home`, or else `own_home`."""
    return _HOME.get() or own_home()


def own_home() -> Path:
    """Return the user's data directory: `TRAUBE_HOME`, by default `.traube/` in the project, or else `~/.traube`.

    Code that must not follow `use_home` calls this: revisions of downloaded weights and compiled code serve every call.
    """
    return _from_environment("TRAUBE_HOME", PROJECT / ".traube" if IN_CHECKOUT else PROJECT)


@contextmanager
def use_home(folder: Path) -> Iterator[None]:
    """Use another data directory inside the block."""
    token = _HOME.set(folder)
    try:
        yield
    finally:
        _HOME.reset(token)


def raw() -> Path:
    """Return the folder of raw data, put there or downloaded: `TRAUBE_RAW`, by default `data/raw/` in the project."""
    return _from_environment("TRAUBE_RAW", PROJECT / "data" / "raw")


def checkpoints() -> Path:
    """Return the folder of trained or added models: `TRAUBE_CHECKPOINTS`, by default `checkpoints/` in the project."""
    return _from_environment("TRAUBE_CHECKPOINTS", PROJECT / "checkpoints")


def inbox() -> Path:
    """Return the folder of texts that champions assign, by task: `TRAUBE_INBOX`, by default `inbox/` in the project."""
    return _from_environment("TRAUBE_INBOX", PROJECT / "inbox")


def cards() -> Path:
    """Return the folder of the user's own tasks and models: `TRAUBE_CARDS`, by default `cards/` in the project."""
    return _from_environment("TRAUBE_CARDS", PROJECT / "cards")


def generated_cards() -> Path:
    """Return the folder, in the data directory, of cards that commands write for files and models without a card."""
    return home() / "generated_cards"


def params() -> Path:
    """Return the benchmark file: `TRAUBE_PARAMS`, by default `params.yaml` in the project, or else the wheel's."""
    file = PROJECT / "params.yaml"
    return _from_environment("TRAUBE_PARAMS", file if IN_CHECKOUT or file.exists() else _PACKAGED_PARAMS)


def release() -> Path:
    """Return the folder of a benchmark that DVC versions: `TRAUBE_RELEASE`, by default `release/` in the project."""
    return _from_environment("TRAUBE_RELEASE", PROJECT / "release")


def is_plain(name: str) -> bool:
    """Return whether a name from elsewhere leads to a file below its folder, and to nothing hidden there."""
    parts = name.split("/")  # an absolute name begins with an empty one
    return name.isprintable() and "\\" not in name and all(part and not part.startswith(".") for part in parts)
