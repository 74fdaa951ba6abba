"""Files from outside are read within limits: valid files as they are, all others refused in one line."""

import gzip
import json
import os
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.errors import refused
from traube._core import inputs
from traube._core.config import PathName, Strict, parse, read_yaml
from traube._core.disk import read_json
from traube._core.errors import Inaccessible, Malformed, Missing, TooLarge, TraubeError
from traube._core.inputs import open_limited, parse_json, read_bytes, resolve_path
from traube._core.measure import measure

FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def test_files_are_read_as_they_are_and_unpacked_by_their_name(tmp_path: Path) -> None:
    text = b"a line\n" * 500_000
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text[:700_000]) + gzip.compress(b"and a second part"))
    assert read_bytes(tmp_path / "a.txt") == text
    assert read_bytes(tmp_path / "a.txt.gz") == text[:700_000] + b"and a second part"
    with open_limited(tmp_path / "a.txt.gz") as file:
        assert (file.peek(1)[:1], file.read(6), file.read(1)) == (b"a", b"a line", b"\n")


def test_texts_that_are_packed_well_are_no_bombs(tmp_path: Path) -> None:
    """German words in JSON lines pack to a tenth or less; the limit is far beyond, and low files are never refused."""
    rows = "".join(
        json.dumps({"text": f"Das Haus Nummer {i} steht am See", "label": "Haus"}) + "\n" for i in range(50_000)
    )
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    assert read_bytes(tmp_path / "a.jsonl.gz") == rows.encode()
    (tmp_path / "same.txt.gz").write_bytes(gzip.compress(b"x" * 50 * 2**20))  # a thousandth, but little
    assert len(read_bytes(tmp_path / "same.txt.gz")) == 50 * 2**20


def test_what_unpacks_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"x" * 2**28, 1))
    with measure() as taken, refused(TooLarge, "bomb.gz", "64 MiB"):
        read_bytes(tmp_path / "bomb.gz")
    assert not taken.memory > 200  # of the 256 megabytes; what a system does not tell is not a number
    (tmp_path / "large.txt").touch()
    os.truncate(tmp_path / "large.txt", inputs.LARGEST + 1)
    with refused(TooLarge, "large.txt", "4,096 MiB"):
        read_bytes(tmp_path / "large.txt")


def test_what_is_no_file_is_said_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    for path, kind in (
        (tmp_path / "pipe.json", Inaccessible),
        (tmp_path, Inaccessible),
        (Path("/dev/zero"), Inaccessible),
        (tmp_path / "loop.json", Inaccessible),
        (tmp_path / "gone", Missing),
        (tmp_path / "a\0b", Inaccessible),
        (tmp_path / ("x" * 5000), Inaccessible),
    ):
        with refused(kind):
            read_bytes(path)
        assert read_json(path) == {}


def test_a_lenient_reader_of_json_takes_whatever_lies_there(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert read_json(tmp_path / "deep.json") == {}
    (tmp_path / "good.json").write_text('{"a": [1, {"b": null}]}')
    assert read_json(tmp_path / "good.json") == {"a": [1, {"b": None}]}


def test_paths_are_named_from_a_folder_or_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_path(tmp_path / "cards", "x.csv") == tmp_path / "cards" / "x.csv"
    assert resolve_path(tmp_path / "cards", "../x.csv") == tmp_path / "x.csv"
    assert resolve_path(tmp_path / "cards", "~/x.csv") == tmp_path / "x.csv"
    assert resolve_path(tmp_path / "cards", "/x.csv") == Path("/x.csv")
    assert resolve_path(tmp_path, "Größe 🙂.csv") == tmp_path / "Größe 🙂.csv"


# whatever is in a file: an answer or a TraubeError of one line


class Card(Strict):
    name: str = ""
    file: PathName = ""
    numbers: tuple[int, ...] = ()
    inner: dict[str, dict[str, float]] = {}  # noqa: RUF012 (pydantic copies it)


PIECES = st.sampled_from(
    [*"[]{}:,-?&*!|>'\"%@`#~\n\t \\<=", "<<: ", "&a ", "*a", "!!int ", "!!float ", "!!binary ", "!!timestamp ", "!!set ",
     "!!omap ", "!!str ", "!!map ", "!!seq ", "!!null ", "!!bool ", "!!merge ", "!!value ", "!!pairs ", "2024-13-45", "1:99",
     "0x", "0b2", ".inf", ".nan", "1e999", "---\n", "...\n", "? ", ": ", "- ", "\n  ", "name: ", "file: ", "numbers: ",
     "inner: ", "~x/", "\\0", "\\ud800", "9" * 5000, "[" * 60, "yes", "null", "\ufeff", "\x85", "é", "🙂"]
)  # fmt: skip


@FUZZ
@given(st.lists(PIECES | st.text(string.printable, max_size=4), max_size=25).map("".join))
def test_any_yaml_is_a_card_or_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    said = f"{path}: "
    try:
        value, lines = read_yaml(path)
        parse(Card, value, path, lines)
    except TraubeError as error:
        said = str(error)
    assert said.startswith(f"{path}: ") and len(said.splitlines()) == 1


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(string.ascii_letters + " ä:#'", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters, max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@FUZZ
@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=5), VALUES, max_size=5))
def test_sound_yaml_is_what_pyyaml_makes_of_it(tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]) -> None:
    """The twin: limits take nothing from what people write."""
    path = tmp_path_factory.getbasetemp() / "sound.yaml"
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    found, lines = read_yaml(path)
    assert found == yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {(str(key),) for key in value} <= lines.keys() | {("null",)}


def test_aliases_and_merges_are_taken_as_they_are_meant(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("base: &base {seeds: [1, 2]}\na:\n  <<: *base\n  more: 1\nb: *base\n")
    value, lines = read_yaml(path)
    assert value == {"base": {"seeds": [1, 2]}, "a": {"seeds": [1, 2], "more": 1}, "b": {"seeds": [1, 2]}}
    assert (lines["a", "seeds"], lines["a", "more"]) == (1, 4)


def test_a_large_params_file_is_no_bomb(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("models:\n" + "".join(f"- a_model_of_some_name_{i}\n" for i in range(5_000)))
    assert len(read_yaml(path)[0]["models"]) == 5_000


def test_what_was_read_once_is_neither_stale_nor_shared(tmp_path: Path) -> None:
    path, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    path.write_text("labels: [x]\n")
    read_yaml(path)[0]["labels"].append("y")
    assert read_yaml(path) == ({"labels": ["x"]}, {("labels",): 1, ("labels", 0): 1})
    path.write_text("labels: [z]\n")
    assert read_yaml(path)[0] == {"labels": ["z"]}
    for broken in (path, other):  # an error names the file, though another one holds the same
        broken.write_text("labels: [\n")
        with refused(Malformed, broken.name):
            read_yaml(broken)


@FUZZ
@given(st.binary(max_size=60) | st.text('[]{}",:0123456789eE+-.truefalsn \\u', max_size=60).map(str.encode))
def test_any_json_is_a_value_or_a_value_error(data: bytes) -> None:
    try:
        parse_json(data)
    except ValueError:
        return


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_json_of_any_depth_is_a_value_error(opening: str) -> None:
    with refused(ValueError):
        parse_json(opening * 100_000)
