"""Where things are. In a checkout, paths are relative to it and never to the working directory,
since Dagster's processes have several. Installed from a wheel, there is no checkout: everything
lies below `~/.traube`, never in site-packages.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2]  # what the package `traube` lies in
IN_CHECKOUT = (_BESIDE / "operations").is_dir() and (_BESIDE / "definitions.py").is_file()
PROJECT = _BESIDE if IN_CHECKOUT else Path.home() / ".traube"
_HOME: ContextVar[Path | None] = ContextVar("home", default=None)  # in place of the environment's, for one call
_PACKAGED_PARAMS = _BESIDE / "traube" / "pipeline" / "params.yaml"  # in a wheel only


def _from_environment(variable: str, default: Path) -> Path:
    """The path that a variable names; a relative one is below the checkout or, without one, the working directory."""
    value = os.environ.get(variable)
    if not value:
        return default
    return _resolved(PROJECT if IN_CHECKOUT else Path.cwd(), value)


@lru_cache(maxsize=64)  # asked for thousands of times when hundreds of models are looked up
def _resolved(base: Path, value: str) -> Path:
    return (base / value).resolve()


def home() -> Path:
    """Return where everything is written at run time: `own_home`, but inside `use_home`."""
    return _HOME.get() or own_home()


def own_home() -> Path:
    """Return the data directory: `TRAUBE_HOME`, by default `.traube/` in the project, or else `~/.traube`.

    Here lies what serves all calls, whatever their texts: the revisions of downloaded weights, and compiled code.
    """
    return _from_environment("TRAUBE_HOME", PROJECT / ".traube" if IN_CHECKOUT else PROJECT)


@contextmanager
def use_home(folder: Path) -> Iterator[None]:
    """Have what is called inside write below another folder."""
    token = _HOME.set(folder)
    try:
        yield
    finally:
        _HOME.reset(token)


def raw() -> Path:
    """Raw data that people put here: `TRAUBE_RAW`, by default `data/raw/` in the project."""
    return _from_environment("TRAUBE_RAW", PROJECT / "data" / "raw")


def checkpoints() -> Path:
    """Models that training wrote or people put here: `TRAUBE_CHECKPOINTS`, by default `checkpoints/` in the project."""
    return _from_environment("TRAUBE_CHECKPOINTS", PROJECT / "checkpoints")


def cards() -> Path:
    """The user's own tasks and models: `TRAUBE_CARDS`, by default `cards/` in the project."""
    return _from_environment("TRAUBE_CARDS", PROJECT / "cards")


def generated_cards() -> Path:
    """Cards that commands write for files and models that are named without a card, in the data directory."""
    return home() / "generated_cards"


def params() -> Path:
    """The benchmark: `TRAUBE_PARAMS`, by default `params.yaml` in the project, or else the wheel's."""
    own = PROJECT / "params.yaml"
    return _from_environment("TRAUBE_PARAMS", own if IN_CHECKOUT or own.exists() else _PACKAGED_PARAMS)


def release() -> Path:
    """What DVC versions of a benchmark: `TRAUBE_RELEASE`, by default `release/` in the project."""
    return _from_environment("TRAUBE_RELEASE", PROJECT / "release")
