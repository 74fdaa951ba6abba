"""Errors meant for people: one line that says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable, Sequence

LISTED = 30  # names that an error lists at most
LONGEST = 4_000  # characters of an error: a file may have names of megabytes


class TraubeError(Exception):
    """Error that the user can put right, shown as one line. Line breaks and commands that it quotes are written out.

    A message of more than `LONGEST` characters loses its middle.

    Examples
    --------
    >>> from traube import TraubeError, load_model
    >>> try:
    ...     load_model("tfidff")
    ... except TraubeError as error:
    ...     print(error)
    unknown model 'tfidff': did you mean tfidf or tfidf_all?
    """

    def __str__(self) -> str:
        text = super().__str__()
        half = LONGEST // 2
        return printable(text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}")


# The kinds of errors. Tests compare the kind; the wording stands in `tests/core/__snapshots__/test_wordings.ambr`.


class Busy(TraubeError):
    """A port, a lease or a data directory that another process uses."""


class Changed(TraubeError):
    """Something that is not what it was when it was read, scored or named."""


class Conflict(TraubeError):
    """Things that exclude one another, or a name that is taken or ambiguous."""


class Corrupt(TraubeError):
    """Stored bytes that are absent or not what was written."""


class Failed(TraubeError):
    """A model, training, request or process that failed while it ran, such as by NaN."""


class Inaccessible(TraubeError):
    """A file, folder or database that the system or its server does not let be read or written."""


class Incompatible(TraubeError):
    """Something of another version, of Traube or of a library."""


class Invalid(TraubeError):
    """An option, a parameter or a setting with a value that it cannot have."""


class Malformed(TraubeError):
    """A file, table, value or answer that is not of the expected form."""


class Missing(TraubeError):
    """A file, folder or result that is not there, or not computed yet."""


class NotInstalled(TraubeError):
    """A package that an option needs and that is not installed."""


class OverBudget(TraubeError):
    """Requests that would cost more than the budget that was set."""


class TooFew(TraubeError):
    """Fewer texts, groups, pairs or models than are needed, or none."""


class TooLarge(TraubeError):
    """More bytes, rows, columns or tokens than are taken."""


class Unavailable(TraubeError):
    """A task or model that exists but cannot be used on this machine: its raw data or weights are missing."""


class DoesNotFit(Unavailable):
    """Work that needs more memory than is free now."""


class Unknown(TraubeError):
    """A name that nothing has."""


class Unreachable(TraubeError):
    """A server that does not answer."""


class Unsafe(TraubeError):
    """Something foreign that could run code, lead out of its folder, or send texts away."""


class Unsupported(TraubeError):
    """Things that make no sense together, such as a reducer and a clusterer."""


def printable(text: str) -> str:
    """Escape line breaks and other characters that cannot be shown."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def join_words(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def install_hint(extra: str, target: str = "setup-scale") -> str:
    """Return how to install an extra; `target` is the Makefile's, which does so in a checkout."""
    return f"pip install 'traube[{extra}]', in a checkout make {target}"


def unknown(kind: str, name: str, known: Iterable[str]) -> Unknown:
    """Return the error for a name that does not exist, with the names near it, or else the first known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return Unknown(f"unknown {kind} '{name}': did you mean {' or '.join(near)}?")
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    there = f"there are: {', '.join(names[:LISTED])}{more}" if names else "there are none"
    return Unknown(f"unknown {kind} '{name}': {there}")


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error message, or else the kind of the error."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def describe_error(error: BaseException) -> str:
    """Return an error in one line, with its kind where it was not meant for people."""
    first = (str(error).strip().splitlines() or [""])[0]
    return first if isinstance(error, TraubeError) else f"{type(error).__name__}: {first}"
