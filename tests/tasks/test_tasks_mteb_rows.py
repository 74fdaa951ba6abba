"""MTEB's form: a row per split, local or from the Hugging Face hub."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pandas as pd
import pytest

from tests.errors import Refusal, check_names, refused
from traube._core import paths
from traube._core.errors import Corrupt, Malformed, TooFew, Unavailable, Unknown
from traube.tasks import get_source, load_task
from traube.tasks.task import Task

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [{"sentences": ["a", "b", "c"], "labels": ["x", "y", "x"]}, {"sentences": ["c", "d"], "labels": ["y", "z"]}]


def jsonl(rows: list[Any]) -> bytes:
    return gzip.compress("\n".join(map(json.dumps, rows)).encode())


@pytest.fixture
def local(cards: Path) -> Callable[..., Task]:
    def load(rows: list[Any]) -> Task:
        (cards / "test.jsonl.gz").write_bytes(jsonl(rows))
        (cards / "news.yaml").write_text("rows: test.jsonl.gz\nlanguage: de\n")
        return load_task("news")

    return load


def test_a_row_is_a_split_and_a_text_is_stored_once(local: Callable[..., Task]) -> None:
    task = local(ROWS).validate()
    assert task.texts == ["a", "b", "c", "d"]
    assert [
        (s.split, s.level, s.rows.tolist(), s.labels.tolist()) for s in task.test_splits() if s.labels is not None
    ] == [
        ("row_0", "label", [0, 1, 2], ["x", "y", "x"]),
        ("row_1", "label", [2, 3], ["y", "z"]),
    ]


def test_labels_that_are_lists_are_levels_and_a_text_may_lack_some(local: Callable[..., Task]) -> None:
    task = local([{"sentences": ["a", "b", "c"], "labels": [["x", 1], ["y"], ["x", 2]]}])
    assert {s.level: (s.rows.tolist(), s.labels.tolist()) for s in task.test_splits() if s.labels is not None} == {
        "level_0": ([0, 1, 2], ["x", "y", "x"]),
        "level_1": ([0, 2], ["1", "2"]),
    }


def test_parquet_holds_the_same(cards: Path, local: Callable[..., Task]) -> None:
    expected = local(ROWS)
    pd.DataFrame(ROWS).to_parquet(cards / "rows.parquet")
    (cards / "news.yaml").write_text("rows: rows.parquet\nlanguage: de\n")
    assert load_task("news").data_version == expected.data_version
    pd.DataFrame(ROWS[:0], columns=["sentences", "labels"]).to_parquet(cards / "rows.parquet")
    with refused(TooFew, "rows.parquet"):
        load_task("news")


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        ([{"sentences": ["a"], "label": ["x"]}], (Unknown, "labels")),
        ([*ROWS, {"sentences": ["a", "b"], "labels": ["x"]}], (Malformed, "test.jsonl.gz:3", 2, 1)),
        ([{"sentences": "a", "labels": "x"}], (Malformed, "test.jsonl.gz:1")),
        ([{"sentences": ["a"], "labels": [{"x": 1}]}], (Malformed, "labels", "test.jsonl.gz:1")),
    ],
)
def test_bad_rows_are_named(local: Callable[..., Task], rows: list[Any], refusal: Refusal) -> None:
    with refused(*refusal):
        local(rows)


def test_an_absent_file_makes_the_task_unavailable(cards: Path) -> None:
    (cards / "news.yaml").write_text("rows: test.jsonl.gz\n")
    assert str(get_source("news").missing()).endswith("test.jsonl.gz is not there")


class Hub:
    """Stands for the Hugging Face hub: a snapshot folder per commit, and a record of the requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.online = True
        self.calls: list[dict[str, Any]] = []

    def snapshot_download(self, repo_id: str, **requested: Any) -> str:
        self.calls.append(requested)
        folder = self.folder / "snapshots" / (requested["revision"] or COMMIT)
        if not requested.get("local_files_only"):
            if not self.online:
                raise OSError("no network\nand more lines")
            folder.mkdir(parents=True, exist_ok=True)
            data = jsonl(ROWS)
            self.blob = self.folder / "blobs" / hashlib.sha256(data).hexdigest()
            self.blob.parent.mkdir(exist_ok=True)
            self.blob.write_bytes(data)
            (folder / "test.jsonl.gz").unlink(missing_ok=True)
            (folder / "test.jsonl.gz").symlink_to(self.blob)
        elif not folder.is_dir():
            raise OSError("not in the cache")
        return str(folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: Path) -> Hub:
    hub = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    (cards / "blurbs.yaml").write_text("dataset: slvnwhrl/blurbs-clustering-s2s\nlanguage: de\n")
    return hub


def test_a_data_set_is_downloaded_once_and_its_revision_is_kept(hub: Hub, tmp_path: Path) -> None:
    assert load_task("blurbs").texts == ["a", "b", "c", "d"]
    recorded = json.loads((paths.home() / "datasets.json").read_text())
    assert recorded == {"slvnwhrl/blurbs-clustering-s2s": COMMIT}
    hub.online = False
    hub.calls.clear()
    assert load_task("blurbs").card.source == "https://huggingface.co/datasets/slvnwhrl/blurbs-clustering-s2s"
    assert all(call["local_files_only"] and call["revision"] == COMMIT for call in hub.calls)


def test_a_file_in_the_cache_that_was_damaged_since_is_refused(hub: Hub) -> None:
    load_task("blurbs")
    hub.blob.write_bytes(jsonl([{**ROWS[0], "sentences": ["other", "texts"], "labels": ["a", "b"]}]))
    with refused(Corrupt, "test.jsonl.gz", "SHA-256"):
        load_task("blurbs")


def test_only_the_part_that_is_needed_is_downloaded_at_the_requested_revision(hub: Hub, cards: Path) -> None:
    (cards / "blurbs.yaml").write_text(f"dataset: slvnwhrl/blurbs-clustering-s2s\nrevision: {'f' * 40}\npart: test\n")
    get_source("blurbs").fetch()
    assert hub.calls[0] == {"repo_type": "dataset", "revision": "f" * 40, "allow_patterns": ["test*", "*/test*"]}


def test_a_cache_that_was_emptied_is_filled_again_with_the_same_revision(hub: Hub) -> None:
    load_task("blurbs")
    (hub.folder / "snapshots" / COMMIT).rename(hub.folder / "gone")
    assert get_source("blurbs").missing() is not None
    get_source("blurbs").fetch()
    assert get_source("blurbs").missing() is None
    assert {call["revision"] for call in hub.calls[1:]} == {COMMIT}


def test_a_data_set_that_is_absent_is_named_and_not_downloaded(hub: Hub) -> None:
    check_names(get_source("blurbs").missing() or "", "slvnwhrl/blurbs-clustering-s2s", "`traube run --task blurbs`")
    assert not hub.calls
    hub.online = False
    with refused(Unavailable, "blurbs"):
        load_task("blurbs")


def test_a_data_set_without_such_files(hub: Hub, cards: Path) -> None:
    (cards / "blurbs.yaml").write_text("dataset: slvnwhrl/blurbs-clustering-s2s\npart: validation\n")
    get_source("blurbs").fetch()
    check_names(get_source("blurbs").missing() or "", "slvnwhrl/blurbs-clustering-s2s", "validation*.jsonl")
