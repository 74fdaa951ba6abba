"""Raw files that a person has from other programs: sound ones are read, all else is one line."""

import gzip
import hashlib
import io
import tarfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from traube._core import inputs
from traube._core.errors import TraubeError
from traube.tasks import load_task
from traube.tasks._readers.table import read_column
from traube.tasks._reading import BATCH, read_rows


def write(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_texts_that_a_parquet_file_holds_as_bytes_are_texts(tmp_path: Path) -> None:
    """They once became `b'...'`."""
    path = write(tmp_path / "a.parquet", text=pa.array(["Größe".encode(), b"soup", None], pa.binary()))
    assert read_column(read_rows(path), "text") == ["Größe", "soup", ""]


def test_a_parquet_file_of_many_rows_is_read_whole_and_in_order(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(2 * BATCH + 7)]
    path = write(tmp_path / "a.parquet", text=texts, when=[datetime(2024, 1, 1)] * len(texts), n=range(len(texts)))
    rows = read_rows(path)
    assert rows.columns["text"] == texts
    assert rows.columns["n"] == list(range(len(texts)))
    assert rows.places[-1] == f"{path}: row {len(texts) - 1}"


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text that stands in each of a million rows takes a few bytes of the file."""
    path = write(tmp_path / "a.parquet", text=pa.array(["x" * 10_000] * 20_000).dictionary_encode())
    assert path.stat().st_size < 2**20
    monkeypatch.setattr(inputs, "LARGEST", 2**23)
    with pytest.raises(TraubeError, match=r"a\.parquet: holds more than the 8 MiB that are read of such a file$"):
        read_rows(path)


def test_a_whole_archive_is_read_so_that_its_checksum_is_checked(raw_folder: Path) -> None:
    """Damage behind the last post is found as well: gzip's checksum stands at the very end."""
    path = raw_folder / "20newsgroups" / "20news-bydate.tar.gz"
    path.parent.mkdir()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for part in ("train", "test"):
            for i in range(60):
                data = f"From: a@b.c\n\npost {i}\n".encode()
                entry = tarfile.TarInfo(f"20news-bydate-{part}/sci.{i % 3}/{i:05d}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    whole = gzip.compress(file.getvalue())
    path.write_bytes(whole)
    load_task("newsgroups")
    path.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
    with pytest.raises(TraubeError, match=r"20news-bydate\.tar\.gz: not a readable archive \(CRC check failed"):
        load_task("newsgroups")
    path.write_bytes(gzip.compress(file.getvalue() + b"\0" * 2**28, 1))
    with pytest.raises(TraubeError, match=r"20news-bydate\.tar\.gz: holds more than the .* MiB that are read"):
        load_task("newsgroups")


TABLE = "text,topic\na cat,cats\na dog,dogs\n"


@pytest.fixture
def table(cards: Path) -> Path:
    (cards / "pets.yaml").write_text("file: pets.csv\ntext: text\nlabels: topic\n")
    (cards / "pets.csv").write_text(TABLE)
    return cards / "pets.csv"


def test_a_file_is_compared_with_the_checksum_beside_it(table: Path) -> None:
    """`sha256sum pets.csv > pets.csv.sha256` is all that it takes."""
    beside = table.with_name("pets.csv.sha256")
    beside.write_text(f"{hashlib.sha256(TABLE.encode()).hexdigest()}  pets.csv\n")
    assert load_task("pets").texts == ["a cat", "a dog"]
    table.write_text(TABLE.replace("cats", "rats"))
    with pytest.raises(TraubeError, match=r"pets\.csv: damaged, or another file: its SHA-256 is not [0-9a-f]{64}"):
        load_task("pets")
    beside.write_text("")
    with pytest.raises(TraubeError, match="its SHA-256 is not stated"):
        load_task("pets")
    beside.unlink()
    assert load_task("pets").texts == ["a cat", "a dog"]
