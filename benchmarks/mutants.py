"""Change the library at random places, one at a time, and count the changes that the room's own tests notice.

A mutant is one changed operator, number, condition or call that is left out. It runs the tests of its room that run its
line, the shortest first. One that no test notices changes nothing that can be seen, or is a hole in the tests: which of
the two, a person decides, so each survivor is printed with its change.

Examples
--------
python benchmarks/mutants.py --sample 200 --seed 63
python benchmarks/mutants.py --rooms metrics --sample 20
"""

import argparse
import ast
import os
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import pytest

PROJECT = Path(__file__).parents[1]
COPIED = ("traube", "assets", "resources", "sensors", "operations", "tests", "cards", "params.yaml", "pyproject.toml")
ROOMS = ("comparison", "metrics", "_storage", "_pipeline", "components")
MARKED = "not slow and not e2e and not cluster and not gpu"
MOST_SECONDS = 90.0  # of the tests that one mutant runs
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """One change of one file."""

    file: str
    line: int
    change: str
    source: str  # of the whole file


class Ran(NamedTuple):
    """Lines that a test ran, and the seconds that it took."""

    test: str
    seconds: float
    lines: frozenset[tuple[str, int]]  # file, line


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, but for types, sentences, and what only type checkers read."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.Raise() | ast.JoinedStr() | ast.Assert() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    continue
                case ast.AST():
                    yield child
                    yield from walk(child)


def list_changes(node: ast.AST) -> list[tuple[str, Any]]:
    """Return the fields of a node that can be changed, each with what it becomes."""
    match node:
        case ast.Compare(ops=[operator, *others]) if type(operator) in SWAPPED:
            return [("ops", [SWAPPED[type(operator)](), *others])]
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPPED:
            return [("op", SWAPPED[type(node.op)]())]
        case ast.If() | ast.While() | ast.IfExp():
            return [("test", ast.UnaryOp(ast.Not(), node.test))]
        case ast.Constant(value=bool()):
            return [("value", not node.value)]
        case ast.Constant(value=int() | float()):
            return [("value", node.value + 1)]  # type: ignore[operator]
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            return [("func", ast.Name(CALLED[name]))]
        case ast.Expr(value=ast.Call()):
            return [("value", ast.Constant(None))]
    return []


def make_mutants(file: str) -> list[Mutant]:
    """Return all mutants of a file."""
    tree, mutants = ast.parse((PROJECT / file).read_text()), []
    for node in walk(tree):
        for field, changed in list_changes(node):
            before, kept = ast.unparse(node).partition("\n")[0], getattr(node, field)
            setattr(node, field, changed)
            change = f"{before[:70]}  ->  {ast.unparse(node).partition(chr(10))[0][:70]}"
            mutants.append(Mutant(file, node.lineno, change, ast.unparse(tree)))  # type: ignore[attr-defined]
            setattr(node, field, kept)
    return mutants


class Trace:
    """Plug-in of pytest that notes which lines of a room each test runs, and fixtures for it."""

    def __init__(self, folder: str) -> None:
        self.folder, self.ran = folder, list[Ran]()
        self._lines: set[tuple[str, int]] = set()
        self._failed = False

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(self.folder):
            return None
        self._lines.add((file, frame.f_lineno))
        return self._trace

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines, self._failed, began = set(), False, time.monotonic()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            if not self._failed:
                self.ran.append(Ran(item.nodeid, time.monotonic() - began, frozenset(self._lines)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.outcome != "passed"


def preload() -> None:
    """Import what the rooms import from elsewhere, once for all processes that are forked."""
    for name in ("numba", "scipy.stats", "sklearn.cluster", "sqlalchemy.orm", "torch"):
        import_module(name)


def run_tests(copy: Path, arguments: list[str], plugins: list[Any]) -> int:
    """Run pytest in this process, a forked one, on a copy of the project."""
    os.chdir(copy)
    os.environ["PYTHONPATH"] = sys.path[0] = str(copy)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=plugins))


def trace(copy: Path, room: str, answer: Any) -> None:
    """Send what each test of a room runs of it."""
    plugin = Trace(str(copy / "traube" / room))
    run_tests(copy, [f"tests/{room.strip('_')}", "-m", MARKED], [plugin])
    answer.put(
        [
            Ran(ran.test, ran.seconds, frozenset((f[len(str(copy)) + 1 :], n) for f, n in ran.lines))
            for ran in plugin.ran
        ]
    )


def judge(copy: Path, tests: list[str]) -> None:
    """Exit with pytest's code for these tests."""
    os._exit(run_tests(copy, ["-x", *tests], []))


def choose_tests(mutant: Mutant, ran: list[Ran]) -> tuple[list[str], float]:
    """Return the tests that run a mutant's line, the shortest first, and how long they take."""
    # what a module does when it is imported is run by the first test alone
    there = [test for test in ran if (mutant.file, mutant.line) in test.lines]
    if len(there) <= 1:
        there = [test for test in ran if any(file == mutant.file for file, _ in test.lines)]
    chosen, seconds = list[str](), 0.0
    for test in sorted(there, key=lambda test: test.seconds):
        if seconds + test.seconds > MOST_SECONDS and chosen:
            break
        chosen.append(test.test)
        seconds += test.seconds
    return chosen, seconds


def is_caught(copy: Path, mutant: Mutant, ran: list[Ran]) -> bool:
    """Return whether a test fails on a mutant, or no longer ends."""
    tests, seconds = choose_tests(mutant, ran)
    if not tests:
        return False
    whole = (copy / mutant.file).read_text()
    (copy / mutant.file).write_text(mutant.source)
    try:
        process = get_context("fork").Process(target=judge, args=(copy, tests))
        process.start()
        process.join(60 + 4 * seconds)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode != 0
    finally:
        (copy / mutant.file).write_text(whole)


def copy_project(to: Path) -> Path:
    """Copy what tests need."""
    for name in COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to / name)
    for metadata in PROJECT.glob("*.dist-info"):
        shutil.copytree(metadata, to / metadata.name)
    return to


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="Folders below traube/.")
    parser.add_argument("--sample", type=int, default=200, help="Number of mutants.")
    parser.add_argument("--seed", type=int, default=63, help="Seed of the sample.")
    parser.add_argument("--processes", type=int, default=2, help="Mutants at once.")
    options = parser.parse_args()
    preload()
    mutants = [m for room in options.rooms for f in sorted((PROJECT / "traube" / room).rglob("*.py"))
               for m in make_mutants(str(f.relative_to(PROJECT)))]  # fmt: skip
    sample = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    print(f"{len(sample)} of {len(mutants):,} mutants", flush=True)
    with TemporaryDirectory(prefix="traube-mutants-") as folder, ThreadPoolExecutor(options.processes) as threads:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.processes):
            copies.put(copy_project(Path(folder) / str(number)))

        def trace_room(room: str) -> list[Ran]:
            copy, answer = copies.get(), get_context("fork").SimpleQueue()
            process = get_context("fork").Process(target=trace, args=(copy, room, answer))
            process.start()
            ran: list[Ran] = answer.get()
            process.join()
            copies.put(copy)
            print(f"{room}: {len(ran)} tests, {sum(test.seconds for test in ran):.0f} s", flush=True)
            return ran

        def decide(mutant: Mutant, traced: Future[list[Ran]]) -> bool:
            ran, copy = traced.result(), copies.get()
            try:
                return is_caught(copy, mutant, ran)
            finally:
                copies.put(copy)

        # the next room is traced while one is decided
        of_rooms = {room: [m for m in sample if m.file.split("/")[1] == room] for room in options.rooms}
        rooms, decided = [room for room in of_rooms if of_rooms[room]], list[tuple[str, Mutant, Future[bool]]]()
        traced = [threads.submit(trace_room, rooms[0])]
        for number, room in enumerate(rooms):
            traced += [threads.submit(trace_room, later) for later in rooms[number + 1 : number + 2]]
            first = of_rooms[room][0]
            unchanged = first._replace(source=(PROJECT / first.file).read_text(), change="")
            decided += [(room, m, threads.submit(decide, m, traced[number])) for m in [unchanged, *of_rooms[room]]]
        counts: Counter[tuple[str, bool]] = Counter()
        for room, mutant, future in decided:
            caught = future.result()
            if not mutant.change:
                if caught:
                    threads.shutdown(wait=False, cancel_futures=True)
                    sys.exit(f"{room}: tests fail without any change")
                continue
            counts[room, caught] += 1
            if not caught:
                print(f"{mutant.file}:{mutant.line}: {mutant.change}", flush=True)
    for room in options.rooms:
        print(f"{room}: {counts[room, True]} of {counts[room, True] + counts[room, False]} caught")
    print(f"all: {sum(n for (_, caught), n in counts.items() if caught)} of {len(sample)} caught")


if __name__ == "__main__":
    main()
