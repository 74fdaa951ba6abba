"""Standard input and pipes that a shell has opened are tables like files; what never ends is refused, not read."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.errors import refused
from traube._core import inputs, paths
from traube._core.errors import Inaccessible, TooFew, TooLarge
from traube.tasks.piped import is_piped, save_piped
from traube.tasks.reading import TableFormat

TABLE = b"text,topic\na cat,cats\n"


@contextmanager
def passed_on(opened: int) -> Iterator[str]:
    """The name of a descriptor that is open as a shell opens `<(...)`."""
    os.set_inheritable(opened, True)
    yield f"/dev/fd/{opened}"
    os.close(opened)


def pipe_of(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/dev/fd/63"])
def test_these_names_mean_what_is_piped(name: str) -> None:
    assert is_piped(name)


@pytest.mark.parametrize("name", ["--", "./-", "stdin", "/dev/zero", "/dev/fd/", "/dev/fd/x", "/dev/fd/6/3", "a.csv"])
def test_all_others_mean_files(name: str) -> None:
    assert not is_piped(name)


@pytest.mark.parametrize(
    ("data", "format_"),
    [
        (TABLE, "csv"),
        (b'\xef\xbb\xbf"Body";n\n', "csv"),  # a column that is requested
        (b"a line of text, and more\n", "txt"),
        (b"a line of text, and more\n" * 20, "txt"),  # as many commas in each
        (b"day,said\n" + b"mon,a line of text and more\n" * 20, "csv"),  # below a header
        (b'  {"text": "a"}\n', "jsonl"),
        (b'["a"]', "json"),
        (b"PAR1...", "parquet"),
        (b"PK\x03\x04...", "xlsx"),
        (b"\x1f\x8b...", "csv.gz"),
    ],
)
def test_a_pipe_becomes_a_file_with_the_name_of_its_format(data: bytes, format_: str) -> None:
    with passed_on(pipe_of(data)) as name:
        saved = save_piped(name, ["body"])
    assert saved == paths.generated_cards() / f"pipe{name.rpartition('/')[2]}.{format_}"
    assert saved.read_bytes() == data


def test_what_is_said_to_be_a_table_is_one() -> None:
    for form, suffix in ((TableFormat(separator="~"), ".csv"), (TableFormat(encoding="cp1252"), ".txt")):
        with passed_on(pipe_of(b"a~b\n")) as name:
            assert save_piped(name, (), form).suffix == suffix


def test_a_file_that_a_shell_has_opened_is_read_from_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(TABLE)
    with passed_on(os.open(tmp_path / "a.csv", os.O_RDONLY)) as name:
        assert save_piped(name).read_bytes() == TABLE


def test_standard_input_is_a_file_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE)))
    assert save_piped("-") == paths.generated_cards() / "stdin.csv"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/random", "/", "terminal"])
def test_devices_folders_and_terminals_are_refused_before_anything_is_read(device: str) -> None:
    if device == "terminal":
        controlling, opened = os.openpty()
        os.close(controlling)
    else:
        opened = os.open(device, os.O_RDONLY)
    with passed_on(opened) as name, refused(Inaccessible, name):
        save_piped(name)


def test_a_pipe_that_does_not_end_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LARGEST", 2**10)
    with passed_on(pipe_of(b"x" * 2**10)) as name:
        assert save_piped(name).stat().st_size == 2**10
    with passed_on(pipe_of(b"x" * (2**10 + 1))) as name, refused(TooLarge, name, "1 KiB"):
        save_piped(name)
    assert {path.name for path in paths.generated_cards().iterdir()} == {f"pipe{name.rpartition('/')[2]}.txt"}


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
def test_an_empty_pipe_is_one_line(data: bytes) -> None:
    with passed_on(pipe_of(data)) as name, refused(TooFew, name):
        save_piped(name)


def test_only_what_was_passed_on_is_read() -> None:
    """Python's own descriptors are never waited for: its pipe of signals may not give anything for ever."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing, 987_654):
        with refused(Inaccessible, descriptor, "/dev/fd/"):
            save_piped(f"/dev/fd/{descriptor}")
    os.close(reading)
    with passed_on(writing) as name, refused(Inaccessible, name):
        save_piped(name)
