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


class Unavailable(TraubeError):
    """A task or model that exists but cannot be used on this machine: its raw data or weights are missing."""


def printable(text: str) -> str:
    """Escape line breaks and other characters that cannot be shown."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def join_words(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def install_hint(extra: str, target: str = "setup-scale") -> str:
    """Return how to install an extra; `target` is the Makefile's, which does so in a checkout."""
    return f"pip install 'traube[{extra}]', in a checkout make {target}"


class Unknown(TraubeError):
    """A name that nothing has."""


class Unsupported(TraubeError):
    """A reducer and a clusterer that make no sense together."""


class DoesNotFit(Unavailable):
    """Work that needs more memory than is free now."""


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
