"""Commands that a platform around the library adds by entry points; the library names no part of it."""

from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Self

from traube._core import paths

if TYPE_CHECKING:
    from traube._core.progress import Progress
    from traube._pipeline.executors import Executor
    from traube._pipeline.request import Request

COMMANDS = "traube.commands"
# `launcher` computes what is missing as runs that a UI shows; `untracked` is what the tracking server lacks;
# `champion` the clustering that a registry serves of a task; `history` takes over the tracking server's database of a backup,
# and `restored` completes what it names; `warm_up` has an executor import what the launcher will need
PARTS = "traube.platform"


class Launcher(Protocol):
    """Computes what is missing: in this process, or as runs that a UI shows. Errors are returned, a line each.

    Attributes
    ----------
    notes : list of str
        Findings of checks that stop nothing, a line each.
    lost : list of str
        Ids of earlier runs whose process no longer exists.
    """

    notes: list[str]
    lost: list[str]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None: ...

    def datasets(self, tasks: Sequence[str]) -> list[str]:
        """Read tasks and check their tables."""

    def evaluate(self, model: str, tasks: Sequence[str], request: "Request") -> list[str]:
        """Evaluate one model on tasks."""

    def publish(self, tasks: Collection[str] | None = None) -> list[str]:
        """Rebuild leaderboard and reports, of `tasks` if only these changed."""


class NewLauncher(Protocol):
    """Makes a launcher."""

    def __call__(self, progress: "Progress", verbose: bool = False, executor: "Executor | None" = None) -> Launcher:
        """Return a launcher that reports progress; `verbose` prints warnings and tracebacks, `executor` computes."""


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
