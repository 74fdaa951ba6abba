"""Errors meant for people: one line that says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

LISTED = 30  # names that an error lists at most


class TraubeError(Exception):
    """Something the user can mend. Shown as one line, without a traceback."""


class Unavailable(TraubeError):
    """A task or model that is known but cannot be had here (raw data or weights are absent)."""


class Unsupported(TraubeError):
    """A combination that makes no sense."""


class DoesNotFit(Unavailable):
    """Work that the memory there is now does not suffice for."""


def unknown(kind: str, name: str, known: Iterable[str]) -> TraubeError:
    """The error for a name that does not exist, with the names that are near it, or else the first of those that there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names[:LISTED]) or 'none'}{more}"
    return TraubeError(f"unknown {kind} '{name}': {hint}")
