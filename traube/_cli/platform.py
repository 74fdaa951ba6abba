"""Commands that a platform around the library adds by entry points; the library names no part of it."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from traube._core import paths

COMMANDS = "traube.commands"
# `launcher` computes what is missing as runs that a UI shows; `untracked` is what the tracking server lacks;
# `champion` the clustering that a registry serves of a task; `history` takes over the tracking server's database of a backup,
# and `restored` completes what it names; `warm_up` has an executor import what the launcher will need
PARTS = "traube.platform"


def commands() -> list[Any]:
    """Return the platform's typer apps, by name."""
    return [entry.load() for entry in sorted(_present(COMMANDS), key=lambda entry: entry.name)]


def part(name: str) -> Any | None:
    """Return a part of the platform, or None if there is no platform."""
    return next((entry.load() for entry in _present(PARTS) if entry.name == name), None)


def _present(group: str) -> Iterator[EntryPoint]:
    """Yield the entry points that can be loaded.

    Traube's own entry points lie in a checkout, and need its platform.
    """
    of_checkout = paths.IN_CHECKOUT and find_spec("dagster") is not None
    return (
        entry for entry in entry_points(group=group) if of_checkout or entry.dist is None or entry.dist.name != "traube"
    )
