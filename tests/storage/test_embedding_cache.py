"""A text is encoded once for all nodes, and what is corrupt is encoded again."""

import errno
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.errors import refused
from tests.made import chance_of_today
from tests.storage.conftest import Open
from tests.storage.writers import Writer, encode, write_embeddings
from traube._core.errors import Inaccessible, Malformed
from traube._storage import EmbeddingRow, Storage
from traube._storage.embedding_cache import RECORD, EmbeddingCache

TEXTS = [f"text {i}" for i in range(9)]


def check(cache: EmbeddingCache, texts: list[str]) -> None:
    """Each text has the row that was computed for it."""
    rows = cache.find_rows(texts)
    assert (rows >= 0).all()
    np.testing.assert_array_equal(cache.open_vectors()[rows], encode(texts))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.text(max_size=3), unique=True, min_size=1, max_size=5), min_size=1, max_size=4),
    number=st.integers(),
)
@example(batches=[["\ud800", "\udfff"]], number=0)  # halves of a surrogate pair are texts like any other
def test_what_is_appended_is_found(batches: list[list[str]], number: int, tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), f"f{number}", "n")
    for texts in batches:
        cache.append(texts, encode(texts))
    check(cache, [text for texts in batches for text in texts])


def test_nodes_have_each_others_embeddings(open_storage: Open) -> None:
    one, two = (EmbeddingCache(open_storage(node), "f", "n") for node in ("one", "two"))
    assert one.find_rows(TEXTS).tolist() == [-1] * 9
    one.append(TEXTS[:5], encode(TEXTS[:5]))
    two.append(TEXTS[5:], encode(TEXTS[5:]))
    check(one, TEXTS)
    check(two, TEXTS)
    assert len(one.storage.read_rows(EmbeddingRow)) == 2
    other = EmbeddingCache(one.storage, "f", "other versions of the libraries")
    assert other.find_rows(TEXTS).tolist() == [-1] * 9


def test_a_torn_end_and_a_flipped_bit_are_encoded_again(tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS[:3], encode(TEXTS[:3]))
    path = cache.folder / "2.f32"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(bytes(content) + b"of a writer that was killed")
    assert cache.find_rows(TEXTS[:4]).tolist() == [-1, 1, 2, -1]
    absent = [TEXTS[0], TEXTS[3]]
    cache.append(absent, encode(absent))
    check(cache, TEXTS[:4])


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS, encode(TEXTS))
    with refused(Malformed, 3, 2):
        cache.append(["more"], np.zeros((1, 3), np.float32))


@pytest.mark.slow
def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    chance, texts = chance_of_today(), list[str]()
    for kill in range(4):
        writers = {name: Writer(write_embeddings, tmp_path, name) for name in (f"{kill}a", f"{kill}b")}
        numbers = {name: [writer.read()] for name, writer in writers.items()}
        time.sleep(chance.random() / 4)
        for writer in writers.values():
            writer.kill()
        for name, writer in writers.items():
            numbers[name] += writer.read_rest()
            texts += [f"{name} {int(number)} {i}" for number in numbers[name] for i in range(50)]
        cache = EmbeddingCache(Storage(tmp_path), "f", "n")
        check(cache, texts)
        keys = np.fromfile(cache.folder / "index", RECORD)["text"]
        assert len({key.tobytes() for key in keys}) == len(keys) == len(cache.open_vectors())
        assert sum(row.texts for row in cache.storage.read_rows(EmbeddingRow)) == len(keys)
        assert cache.storage.verify() == []
    shutil.rmtree(cache.folder)
    check(cache, texts)


@pytest.mark.parametrize("note", [b"", b"{", b"{}", b"null", b"\xff", b'{"a": 1}'])
def test_without_its_note_no_block_is_stored_twice(note: bytes, tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    for text in TEXTS:
        cache.append([text], encode([text]))
    (cache.folder / "blocks.json").write_bytes(note)
    check(cache, TEXTS)
    assert len(cache.open_vectors()) == len(cache.storage.read_rows(EmbeddingRow)) == len(TEXTS)


def test_what_the_storage_has_lost_is_stored_again(tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS, encode(TEXTS))
    (row,) = cache.storage.read_rows(EmbeddingRow)
    cache.storage.remove([row])
    cache.refresh()
    shutil.rmtree(cache.folder)
    check(cache, TEXTS)


def test_a_row_that_is_written_over_is_stored_too(tmp_path: Path) -> None:
    """The last row of a block was torn, and another text has its place now."""
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS[:2], encode(TEXTS[:2]))
    os.truncate(cache.folder / "index", 39)
    cache.append(TEXTS[2:], encode(TEXTS[2:]))
    shutil.rmtree(cache.folder)
    check(cache, TEXTS)


def test_a_folder_that_is_read_only_is_read(tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS, encode(TEXTS))
    cache.storage.catalog.close()
    check(EmbeddingCache(Storage(tmp_path, is_read_only=True), "f", "n"), TEXTS)


@pytest.mark.parametrize("calls", [0, 1])
def test_a_full_disk_leaves_what_was_there(calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full while the vectors are written, or while the index is."""
    cache, fsync, left = EmbeddingCache(Storage(tmp_path), "f", "n"), os.fsync, [calls]
    cache.append(TEXTS[:3], encode(TEXTS[:3]))

    def fail(file: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with refused(Inaccessible, cache.folder):
            cache.append(TEXTS[3:], encode(TEXTS[3:]))
    check(cache, TEXTS[:3])
    cache.append(TEXTS, encode(TEXTS))
    check(cache, TEXTS)
    shutil.rmtree(cache.folder)
    check(cache, TEXTS)


def test_a_corrupt_block_is_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS, encode(TEXTS))
    (row,) = cache.storage.read_rows(EmbeddingRow)
    cache.storage.get_path(row.files["rows"]).write_bytes(b"rubbish")
    shutil.rmtree(cache.folder)
    for _ in range(2):
        assert cache.find_rows(TEXTS).tolist() == [-1] * 9
    assert capsys.readouterr().err.count("checksum mismatch") == 1
    cache.append(TEXTS, encode(TEXTS))
    shutil.rmtree(cache.folder)
    check(cache, TEXTS)
