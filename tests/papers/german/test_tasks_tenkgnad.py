"""10kGNAD: its unusual csv, and its ten random samples."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import Refusal, refused
from traube._core.errors import Malformed
from traube.tasks import get_source, load_task


@pytest.fixture
def folder(raw_folder: Path) -> Path:
    (raw_folder / "10kgnad").mkdir()
    return raw_folder / "10kgnad"


def test_quotes_are_single_and_fields_are_separated_by_semicolons(folder: Path) -> None:
    rows = "Sport;'Ein Text; mit \"Zitat\" und ''Apostroph''.'\r\nWeb;Kurz, ohne Anführung\r\n"
    (folder / "test.csv").write_bytes(rows.encode())
    records = get_source("tenkgnad_p2p").read()
    assert records["text"].tolist() == ["Ein Text; mit \"Zitat\" und 'Apostroph'.", "Kurz, ohne Anführung"]
    assert records["category"].tolist() == ["Sport", "Web"]


def test_both_parts_are_one_collection_plain_or_gzipped(folder: Path) -> None:
    (folder / "train.csv").write_text("Web;eins\nWeb;zwei\n")
    (folder / "test.csv.gz").write_bytes(gzip.compress(b"Sport;drei\n"))
    source = get_source("tenkgnad_p2p")
    assert [p.name for p in source.files()] == ["train.csv", "test.csv.gz"]
    assert source.read()["text"].tolist() == ["eins", "zwei", "drei"]


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        ("Web;eins\nWeb;zwei;drei\n", (Malformed, "test.csv:2", 3)),
        ("Web;eins\nohne Text\n", (Malformed, "test.csv:2", 1)),
        ("Web;eins\nWeb;'zwei\nimmer noch zwei\n", (Malformed, "test.csv:2")),
    ],
)
def test_an_unreadable_row_is_named(folder: Path, rows: str, refusal: Refusal) -> None:
    (folder / "test.csv").write_text(rows)
    with refused(*refusal):
        get_source("tenkgnad_p2p").read()


def test_the_real_articles(real_raw: Callable[[str], Path]) -> None:
    real_raw("10kgnad")
    task = load_task("tenkgnad_p2p").validate()
    splits = list(task.test_splits())
    assert len(task.corpus) in (1_028, 10_273 - 1_028, 10_273)  # test, train, both
    assert len(splits) == 10
    assert all(0.1 <= s.size / len(task.corpus) <= 1 and s.classes == 9 for s in splits)
