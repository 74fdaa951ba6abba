"""Errors of a Ray cluster, in words, and the checks that refuse a node."""

from traube._core.errors import DoesNotFit, Failed, Incompatible, TraubeError
from traube._pipeline.record import library_versions

RETRIES = 3  # of work that is lost because a node or a process died


def check(versions: dict[str, str]) -> None:
    """Refuse to compute with other versions than the driver's: numbers depend on them."""
    here = library_versions()
    others = [
        f"{name} {here.get(name)}, not {version}" for name, version in versions.items() if here.get(name) != version
    ]
    if others:
        raise Incompatible(f"a node of the Ray cluster has {'; '.join(others)}: install the same there as here")


def explain_error(error: BaseException) -> BaseException:
    """Return the error that a unit raised; for an error of the cluster itself, an error in one line."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, TraubeError) else Failed(shorten_message(cause or error))
    if isinstance(error, exceptions.OutOfMemoryError):
        return DoesNotFit("a node of the Ray cluster ran out of memory")
    if isinstance(error, exceptions.RayError):
        return Failed(f"lost on the Ray cluster ({type(error).__name__}: {shorten_message(error)})")
    return error


def shorten_message(error: BaseException) -> str:
    """Return the message of an error; of one that quotes a traceback, its last line."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line] or [type(error).__name__]
    return " ".join(lines[-1:] if any("Traceback (most" in line for line in lines) else lines)[:300]
