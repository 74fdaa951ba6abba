"""Ctrl-C and SIGTERM end a process within three seconds, whatever it is doing."""

import signal
import subprocess
import sys

import psutil
import pytest

from tests.waiting import PATIENCE, wait_for

STUBBORN = """
import signal, sys, time
from traube._core import stopping

stopping.watch()
stopping.add_last_words(lambda: print("last words", flush=True))
stopping.add_last_words(lambda: print("cut off", file=sys.stderr, flush=True))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)  # as Dagster does at times
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
WITH_A_CHILD = """
import subprocess, sys, time
from traube._core import stopping

stopping.watch()
ignores = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(3600)"
child, said = subprocess.Popen([sys.executable, "-c", ignores]), False
while True:
    try:
        said = said or print("ready", child.pid, flush=True) is None
        time.sleep(3600)
    except KeyboardInterrupt:
        pass
"""
ORDERLY = """
import sys, time
from traube._core import stopping

stopping.watch()
try:
    print("ready", flush=True)
    exec("time.sleep(3600)")
except KeyboardInterrupt:
    stopping.report_stop()
    sys.exit(stopping.exit_code())
"""

SWALLOWED = """
import time
from traube._core import stopping

class Closes:
    def __del__(self):
        print("ready", flush=True)
        while True:
            time.sleep(0.1)

class Breaks:
    def __del__(self):
        raise ValueError("a fault of its own")

stopping.watch()
Breaks()
Closes()
while True:
    time.sleep(0.1)
"""

LOGGED = """
import logging, time
from traube._core import stopping

stopping.watch()
logging.getLogger("some.library").warning("before the end")
try:
    print("ready", flush=True)
    time.sleep(3600)
except BaseException:
    logging.getLogger("some.library").exception("what it caught")
    raise SystemExit(stopping.exit_code())
"""

READS_ARGUMENTS = """
import time
from typer.core import TyperGroup

def parse_args(*_):
    print("ready", flush=True)
    time.sleep(3600)

TyperGroup.parse_args = parse_args
from traube._cli.console import main

main()
"""

MADE_AN_ERROR_OF_IT = """
import sys, time
sys.argv = ["traube", "init"]
from typer.core import TyperGroup

def invoke(*_):
    try:
        print("ready", flush=True)
        time.sleep(3600)
    except KeyboardInterrupt as end:
        raise ValueError("no such schema") from end

TyperGroup.invoke = invoke
from traube._cli.console import main

main()
"""


def started(code: str) -> tuple[subprocess.Popen[str], list[str]]:
    """A process that has said that it is ready, and what it said."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def stop(code: str, number: signal.Signals) -> tuple[int, str, str]:
    """Send a signal to a process that is ready; return its exit code, and what it printed meanwhile."""
    process, _ = started(code)
    process.send_signal(number)
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


EACH_SIGNAL = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
STOPPED = "stopped: finished work is kept, and the same command continues from there\n"


@EACH_SIGNAL
def test_a_process_that_keeps_the_signal_to_itself_is_ended(number: signal.Signals, code: int) -> None:
    returned, out, errors = stop(STUBBORN, number)
    assert (returned, set(out.splitlines()), errors) == (code, {"last words"}, STOPPED)


def test_its_children_end_with_it() -> None:
    process, (_, pid) = started(WITH_A_CHILD)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    wait_for(lambda: not lives(int(pid)), "the end of the child")


@EACH_SIGNAL
def test_a_process_that_ends_in_good_order_is_given_the_time(number: signal.Signals, code: int) -> None:
    returned, _, errors = stop(ORDERLY, number)
    assert (returned, errors.count("stopped")) == (code, 1)


def test_a_process_that_gets_no_signal_is_left_alone() -> None:
    code = "from traube._core import stopping as s; import time; s.SECONDS = 0; s.watch(); time.sleep(1); s.check()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


WHILE_IMPORTING = """
import os, signal, sys
from traube._cli import console

wanted = sys.argv.pop()

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
console.main()
"""


@pytest.mark.e2e
@pytest.mark.parametrize("module", ["typer", "rich.console", "traube._cli.run"])
def test_ctrl_c_while_the_command_is_still_being_imported(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", WHILE_IMPORTING, "init", module], capture_output=True, text=True)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_what_python_cannot_pass_on_ends_the_process_and_is_not_shown() -> None:
    """An exception in a `__del__` is swallowed and shown; that of a signal is no fault. Others are shown."""
    returned, _, said = stop(SWALLOWED, signal.SIGINT)
    assert returned == 130
    assert said.count("Traceback") == said.count("ValueError: a fault of its own") == 1


def test_what_a_librarys_own_signal_handler_raises_is_not_shown_either() -> None:
    """Dagster puts handlers in place; one may run while an object is collected, before ours knows of the signal."""
    code = """
from traube._core import stopping

class Raises:
    def __init__(self, error):
        self.error = error
    def __del__(self):
        raise self.error

stopping.watch()
Raises(ValueError("a fault of its own"))
Raises(type("Interrupted", (BaseException,), {})())
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert said.count("Traceback") == said.count("ValueError: a fault of its own") == 1


def test_what_a_library_logs_of_the_end_is_not_shown() -> None:
    """A library that catches whatever comes, such as SQLAlchemy's pool, logs it. What it logs before is shown."""
    assert stop(LOGGED, signal.SIGTERM) == (143, "", "before the end\n")


@EACH_SIGNAL
@pytest.mark.parametrize("at_work", [READS_ARGUMENTS, MADE_AN_ERROR_OF_IT])  # as typer does, and as pydantic does
def test_a_library_may_make_something_else_of_a_signal(at_work: str, number: signal.Signals, code: int) -> None:
    assert stop(at_work, number) == (code, "", STOPPED)


def test_an_error_without_a_signal_is_shown_as_one() -> None:
    code = MADE_AN_ERROR_OF_IT.replace("time.sleep(3600)", "raise KeyError").replace("KeyboardInterrupt", "KeyError")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no such schema" in done.stderr and "stopped" not in done.stderr
