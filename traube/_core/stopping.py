"""Handling of Ctrl-C, SIGTERM and a closed terminal, which end the process within three seconds.

The KeyboardInterrupt may come late (a library is at work) or be lost (Dagster's handlers), so a thread receives every
signal too, and ends the process when the time is up. This is safe at any moment, since everything is written whole or
not at all.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
SECONDS = 1.5  # to end in good order
LAST_WORDS_SECONDS = 0.5
STOPPED = "stopped: finished work is kept, and the same command continues from there"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_received: list[int] = []
_last_words: list[Callable[[], None]] = []
_reported: list[bool] = []
_deferred: list[bool] = []


class Stopped(KeyboardInterrupt):
    """A signal to end; after a plain KeyboardInterrupt in an `exec` Python ends by SIGINT, whatever the exit code."""


def watch() -> None:
    """Have a signal end this process, unless it was started to ignore it (`nohup`). For the main thread, once."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handle_signals(number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN)
    sys.unraisablehook = _suppress_after_stop(sys.unraisablehook)
    threading.excepthook = _suppress_after_stop(threading.excepthook)
    if logging.lastResort:  # a library logs whatever it catches, including the stop
        logging.lastResort.addFilter(lambda record: not _received)
    threading.Thread(target=_listen, args=(reader,), daemon=True, name="stopping").start()


def handle_signals(signals: Iterable[int] = SIGNALS) -> None:
    """Have these signals end the process, even those that the process was started to ignore."""
    for number in signals:
        signal.signal(number, _interrupt)


def _suppress_after_stop(shows: Callable[[T], object]) -> Callable[[T], object]:
    """Suppress exceptions that nothing can catch, where they stem from the stop.

    Once the process has to end, all of them are suppressed; before that, those of a library's own signal handler,
    which are no `Exception`.
    """

    def show(exception: T) -> None:
        if not _received and issubclass(getattr(exception, "exc_type", Exception), Exception):
            shows(exception)

    return show


def get_signal() -> int | None:
    """Return the signal that ends this process; None if there is none."""
    return _received[0] if _received else None


def exit_code() -> int:
    """Return the exit code of a stopped process: 130 for Ctrl-C, 143 for SIGTERM, 129 for a closed terminal."""
    return 128 + (get_signal() or signal.SIGINT)


def report_stop() -> None:
    """Tell the user, once, that the process was stopped."""
    if _reported:
        return
    _reported.append(True)
    show_cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides it
    with suppress(OSError):
        os.write(2, f"{show_cursor}{STOPPED}\n".encode())


def check() -> None:
    """Raise `Stopped` if the process has to end; called before new work begins."""
    if _received:
        raise Stopped


def add_last_words(last_word: Callable[[], None]) -> None:
    """Register a message for when the process has to be ended; printing it may take half a second, and may happen twice."""
    _last_words.append(last_word)


@contextmanager
def defer() -> Iterator[None]:
    """Delay `Stopped` until a block of the main thread has finished, like starting and recording a process."""
    _deferred.append(True)
    try:
        yield
    finally:
        _deferred.pop()
    check()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    if not _deferred:
        raise Stopped


def _listen(reader: int) -> None:
    while True:
        number = os.read(reader, 1)[0]
        if number in SIGNALS:
            _received.append(number)
            break
    time.sleep(SECONDS)
    try:
        import psutil

        report_stop()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # later messages come only from work that is cut off here
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        for _ in range(2):  # the main thread is still at work, and may have printed something meanwhile
            threads = [threading.Thread(target=word, daemon=True) for word in _last_words]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + LAST_WORDS_SECONDS
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        os._exit(exit_code())
