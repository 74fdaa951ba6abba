"""Files are whole or absent, locks die with their process, and a fault in YAML is named by line and key."""

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field

from tests.errors import Refusal, refused
from tests.inputs.yaml_faults import FAULTS
from traube._core.config import Strict, parse, read_yaml
from traube._core.disk import check_outputs, make_private, replacing, walk
from traube._core.errors import Conflict, Inaccessible, Invalid, Malformed, Missing
from traube._core.files import locked, write_json, write_parquet, write_text
from traube._core.hashing import digest, frame_digest, is_revision
from traube._core.system_errors import explain_error

# atomic files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_at_once_and_only_by_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(path.parent) == ["report.html"]


def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert names(tmp_path) == ["report.html"]


def test_a_value_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="mixed"):
        write_parquet(tmp_path / "table.parquet", pd.DataFrame({"mixed": [1, "a", b"b"]}))
    assert names(tmp_path) == []


def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_json(tmp_path / "ours.json", {})
    (tmp_path / "any.json").touch()
    assert (tmp_path / "ours.json").stat().st_mode == (tmp_path / "any.json").stat().st_mode


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
@pytest.mark.parametrize(
    ("mode", "made"),
    [(None, 0o700), (0o755, 0o700), (0o777, 0o700), (0o1777, 0o1777)],
    ids=["new", "readable", "writable", "of everybody, like /tmp"],
)
def test_a_private_folder_is_for_its_owner_alone_whether_new_or_mended(
    tmp_path: Path, mode: int | None, made: int
) -> None:
    folder = tmp_path / "new" / "home"
    if mode is not None:
        folder.mkdir(parents=True)
        folder.chmod(mode)
    make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == made
    write_text(folder / "file", "its owner goes on as before")


def test_a_folder_that_cannot_be_made_private_is_left_to_whoever_writes_there() -> None:
    make_private(Path("/dev/null/home"))
    make_private(Path("/proc/self"))


def test_a_full_disk_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    with refused(Inaccessible, path), replacing(path), Path("/dev/full").open("wb") as file:
        file.write(b"scores")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.EROFS, "TRAUBE_HOME"), (errno.EACCES, "TRAUBE_HOME"), (errno.EDQUOT, ""), (errno.EIO, "")],
)
def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    # simulated: to root, as whom tests may run, every folder of this disk is open
    monkeypatch.setattr(os, "fsync", refuse)
    with refused(Inaccessible, advice, tmp_path / "a.json"):
        write_json(tmp_path / "a.json", {})
    assert names(tmp_path) == []


def test_a_folder_below_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    path = tmp_path / "home" / "tables" / "a.json"
    with refused(Inaccessible, path, "TRAUBE_HOME"):
        write_json(path, {})
    with refused(Inaccessible, path, "TRAUBE_HOME"), locked(path):
        pass


# places to write to


def test_what_is_read_is_not_written_over_under_any_name(tmp_path: Path) -> None:
    read = tmp_path / "notes.csv"
    read.write_text("text")
    (tmp_path / "link.csv").symlink_to(read)
    (tmp_path / "hard.csv").hardlink_to(read)
    (tmp_path / "deep").mkdir()
    for name in ("notes.csv", "link.csv", "hard.csv", "deep/../notes.csv"):
        with refused(Conflict, name):
            check_outputs([tmp_path / name], [read])
    check_outputs([tmp_path / "notes.csv.clusters.csv", tmp_path / "deep" / "notes.csv"], [read])


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    with refused(Inaccessible, tmp_path):
        check_outputs([tmp_path])
    with refused(Missing, tmp_path / "gone", "map.html"):
        check_outputs([tmp_path / "gone" / "map.html"])
    with refused(Conflict, tmp_path / "new"):
        check_outputs([tmp_path / "new", tmp_path / "new"])
    check_outputs([tmp_path / "new", tmp_path / "other"])
    assert names(tmp_path) == []


# locks

HOLD = """
import sys, time
from pathlib import Path
from traube._core.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(900)
"""


def test_a_lock_keeps_others_out_until_its_process_dies(tmp_path: Path) -> None:
    path, inside = tmp_path / "folder" / "leaderboard", threading.Event()

    def enter() -> None:
        with locked(path):
            inside.set()

    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        thread = threading.Thread(target=enter)
        thread.start()
        assert not inside.wait(0.3)
        process.send_signal(signal.SIGKILL)
        assert inside.wait(300)
        thread.join()


def test_a_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "a"):
        raise KeyError
    with locked(tmp_path / "a"):
        pass


# hashes


def test_a_digest_is_the_same_on_every_machine_and_in_any_order_of_keys() -> None:
    assert digest({"b": [1, 2.5, None], "a": "ä"}) == digest({"a": "ä", "b": [1, 2.5, None]}) == "a870259482aafc73"


@given(st.lists(st.text(max_size=3) | st.none(), max_size=4), st.lists(st.text(max_size=3) | st.none(), max_size=4))
@example([30.0, None], [30.0, None])
@example([30.0, None], [None, 30.0])
def test_columns_have_one_digest_only_if_they_are_equal(a: list[object], b: list[object]) -> None:
    first, second = (pd.DataFrame({"x": pd.Series(values, dtype="object")}) for values in (a, b))
    assert (frame_digest(first) == frame_digest(second)) == (a == b)


def test_the_digest_of_a_table_is_the_same_under_pandas_2_and_3() -> None:
    """It is pinned: the lowest pandas and the newest run this test, and a cell's data version is made of such digests."""
    table = pd.DataFrame(
        {
            "text": ["a", "ü", None, "x\0y"],
            "item": np.arange(4, dtype=np.int64),
            "score": [0.5, np.nan, -0.0, 1e300],
            "is_own": [True, False, True, True],
            "mixed": [1, None, "2", 3.5],
            "nothing": [None] * 4,
            "day": pd.to_datetime(["2020-01-01", "2021-02-03", "2021-02-04", "2022-01-01"]),
            "kind": pd.Categorical(["a", "b", None, "a"]),
        }
    )
    as_strings = table.astype({"text": "string", "nothing": "string"})  # however texts are held
    for same in (table, table.assign(score=[0.5, np.nan, 0.0, 1e300]), as_strings):
        assert frame_digest(same) == "fd9c7e159f273a73"
    for other in (table.assign(score=[0.5, np.nan, 1e-300, 1e300]), table.rename(columns={"text": "name"})):
        assert frame_digest(other) != "fd9c7e159f273a73"


# YAML


class Inner(Strict):
    seeds: tuple[int, ...] = ()


class Outer(Strict):
    name: str
    inner: dict[str, Inner] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("name: a\n  b: c", (Malformed, "line 2")),
        ("inner: {}", (Invalid, "line 1", "name")),
        ("name: a\nnaem: b", (Invalid, "line 2", "naem", "name")),
        ("naem: b", (Invalid, "line 1", "naem", "name")),
        ("name: a\ninner:\n  x: {}\n  y:\n    seeds:\n    - 1\n    - two", (Invalid, "line 7", "inner.y.seeds.1")),
        ("name: a\ninner:\n  x:\n    sed: [1]", (Invalid, "line 4", "inner.x.sed", "seeds")),
    ],
)
def test_a_fault_in_yaml_is_named_by_file_line_and_key(tmp_path: Path, text: str, refusal: Refusal) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(text)
    with refused(*refusal, path):
        parse(Outer, *read(path))


def read(path: Path) -> tuple[dict, Path, dict]:
    value, lines = read_yaml(path)
    return value, path, lines


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_yaml_of_ours_is_one_line_at_once(tmp_path: Path, fault: str) -> None:
    content, refusal = FAULTS[fault]
    path = tmp_path / "card.yaml"
    path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    began = time.process_time()
    with refused(*refusal, path):
        parse(Outer, *read(path))
    assert time.process_time() - began < 2


def test_good_yaml_becomes_a_model(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("name: a # a comment\ninner: {x: {seeds: [1, 2]}}\n")
    assert parse(Outer, *read(tmp_path / "card.yaml")) == Outer(name="a", inner={"x": Inner(seeds=(1, 2))})


# what the disk is to blame for


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (sqlite3.OperationalError("database or disk is full"), "the disk is full"),
        (sqlite3.OperationalError("disk I/O error"), "the disk is full"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "the file system is read-only"),
        (sqlite3.OperationalError("unable to open database file"), "no permission to write"),
        (MemoryError(), "memory is short"),
        (OSError(errno.ENOMEM, "x"), "memory is short"),
        (ImportError("x.so: failed to map segment from shared object"), "memory is short"),
    ],
)
def test_an_error_of_the_system_is_recognised_wherever_it_is_in_the_chain(error: Exception, words: str) -> None:
    wrapped = RuntimeError("a library failed")
    wrapped.__cause__ = error
    for seen in (error, wrapped):
        assert words in (explain_error(seen) or "")


@pytest.mark.parametrize("error", [ValueError("no"), sqlite3.OperationalError("no such table: runs"), KeyError("disk")])
def test_another_error_is_not_attributed_to_the_disk(error: Exception) -> None:
    assert explain_error(error) is None


def test_everything_below_a_folder_is_found_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "file").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "outside").symlink_to(tmp_path.parent)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    assert {Path(entry) for entry in walk(tmp_path)} == set(tmp_path.rglob("*"))
    assert list(walk(tmp_path / "absent")) == []


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("old")
    for link, target in (("link", "there.csv"), ("to nothing", "new.csv")):
        (tmp_path / link).symlink_to(target)
        write_text(tmp_path / link, "new")
        assert (tmp_path / link).is_symlink() and (tmp_path / target).read_text() == "new"
    (tmp_path / "itself").symlink_to("itself")
    with refused(Inaccessible, tmp_path / "itself"):
        write_text(tmp_path / "itself", "new")


def test_a_pipe_is_given_the_bytes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_text)
        write_text(tmp_path / "pipe", "new")
        assert read.result(300) == "new"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_stays_one() -> None:
    write_text(Path("/dev/null"), "new")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_revision_of_others_is_no_path() -> None:
    assert is_revision("0a" * 20)
    assert not any(
        map(is_revision, ["../../x", "/etc/passwd", "main", "0A" * 20, f"{'0a' * 20}\n", ["0a" * 20], None, 1])
    )
