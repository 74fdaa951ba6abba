"""Changes since a cell was computed."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class ChangeKind(Enum):
    """Kind of change, as people call it."""

    DATA = "data"
    MODEL = "model weights or settings"
    CLUSTERING_CODE = "clustering code"
    SCORING_CODE = "scoring code"
    PARAMETERS = "method parameters"
    PROTOCOL = "protocol"
    CLUSTERS = "the card's number of clusters"
    LIBRARY = "libraries"
    NUMERICS = "what computes the cell"
    RAW_DATA = "raw data"
    SEEDS = "seeds"


@dataclass(frozen=True)
class Change:
    """A change of `what` of a kind, such as a library, from `before` to `after`; or the change in words, without these."""

    kind: ChangeKind
    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        changed = self.before is not None or self.after is not None
        return f"{self.what} {self.before} -> {self.after}" if changed else self.what


def in_words(changes: Iterable[Change]) -> str:
    """Return the kinds of changes, and of libraries which, in a line."""
    all_changes = list(changes)
    libraries = ", ".join(str(change) for change in all_changes if change.kind is ChangeKind.LIBRARY)
    kinds = dict.fromkeys(change.kind for change in all_changes)
    return "; ".join(f"{kind.value}: {libraries}" if kind is ChangeKind.LIBRARY else kind.value for kind in kinds)
