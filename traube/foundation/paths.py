"""Where things are. Every path is resolved against the project root or TRAUBE_HOME, never the working directory."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def _from_environment(variable: str, default: Path) -> Path:
    value = os.environ.get(variable)
    return (PROJECT / value).resolve() if value else default


def home() -> Path:
    """Everything written at run time: `TRAUBE_HOME`, by default `.traube/` in the project."""
    return _from_environment("TRAUBE_HOME", PROJECT / ".traube")


def raw() -> Path:
    """Raw data that people put here: `TRAUBE_RAW`, by default `data/raw/` in the project."""
    return _from_environment("TRAUBE_RAW", PROJECT / "data" / "raw")


def checkpoints() -> Path:
    """Models that training wrote or people put here: `TRAUBE_CHECKPOINTS`, by default `checkpoints/` in the project."""
    return _from_environment("TRAUBE_CHECKPOINTS", PROJECT / "checkpoints")


def cards() -> Path:
    """The user's own tasks and models: `TRAUBE_CARDS`, by default `cards/` in the project."""
    return _from_environment("TRAUBE_CARDS", PROJECT / "cards")


def params() -> Path:
    """The benchmark: `TRAUBE_PARAMS`, by default `params.yaml` in the project."""
    return _from_environment("TRAUBE_PARAMS", PROJECT / "params.yaml")


def release() -> Path:
    """What DVC versions of a benchmark: `TRAUBE_RELEASE`, by default `release/` in the project."""
    return _from_environment("TRAUBE_RELEASE", PROJECT / "release")
