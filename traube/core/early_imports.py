"""Imports that take seconds, begun in a thread before they are needed."""

from contextlib import suppress
from importlib import import_module
from threading import RLock, Thread

_LOCK = RLock()


def begin_import(package: str) -> None:
    """Import a package in a thread. What is wrong with it is for whoever needs it."""

    def work() -> None:
        with suppress(Exception):
            import_whole(package)

    Thread(target=work, daemon=True).start()


def import_whole(package: str) -> None:
    """Import a package, after whatever is being imported here: of two threads at one package, one may be given half of
    it.
    """
    with _LOCK:
        import_module(package)
