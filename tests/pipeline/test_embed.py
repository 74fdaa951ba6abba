"""A text is encoded once, whoever asks, and what is damaged on disk is noticed and encoded again."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.errors import refused
from tests.waiting import wait_for
from traube._core.progress import Progress
from traube._pipeline.embed import embed, embed_task, open_cache
from traube._pipeline.executors import Job, ProcessExecutor
from traube._storage import Storage
from traube._storage.embedding_cache import EmbeddingCache
from traube.tasks.task import Task

TEXTS = [f"text {i}" for i in range(9)]


def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
    """Four numbers that tell a text from any other."""
    digests = [blake2b(text.encode(), digest_size=4).digest() for text in texts]
    return np.array([[byte / 255 for byte in digest] for digest in digests], dtype=np.float32).reshape(-1, 4)


class Counting:
    """An encoder that remembers what it was given, and gives its batches in no particular order."""

    name, fingerprint, corpus_bound, similarity, precision = "counting", "f00d", False, None, "fp32"
    device = "cpu"
    numerics: ClassVar[dict[str, str]] = {"counting": "1"}

    def __init__(self, fails_after: int | None = None) -> None:
        self.encoded: list[str] = []
        self.fails_after = fails_after
        self.encoder = self

    def load(self) -> int:
        return 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return vectors_of(texts)

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for batch, start in enumerate(reversed(range(0, len(texts), 2))):
            if batch == self.fails_after:
                raise KeyboardInterrupt
            positions = np.arange(start, min(start + 2, len(texts)))
            self.encoded += [texts[i] for i in positions]
            yield positions, vectors_of([texts[i] for i in positions])


@pytest.fixture
def cache(storage: Storage) -> EmbeddingCache:
    """The counting encoder's vectors, of all texts."""
    encode(storage, TEXTS)
    return open_cache(storage, Counting())


def encode(storage: Storage, texts: Sequence[str], **kwargs: int) -> list[str]:
    """Return the texts that had to be encoded. The vectors are right, in the order of the texts, or the test fails."""
    encoder = Counting(**kwargs)
    vectors, encoded = embed(texts, encoder, storage, "")
    assert np.array_equal(vectors.load(), vectors_of(texts))
    assert encoded == len(encoder.encoded)
    return encoder.encoded


def test_a_second_run_encodes_only_what_is_new(storage: Storage) -> None:
    assert sorted(encode(storage, TEXTS)) == TEXTS
    assert encode(storage, TEXTS) == []
    assert encode(storage, TEXTS[::-1]) == []
    assert encode(Storage(storage.folder), TEXTS[3:5]) == []
    assert encode(storage, [*TEXTS[:4], "a new one", *TEXTS[4:]]) == ["a new one"]
    assert sorted(encode(storage, ["b", "a", "b", "b"])) == ["a", "b"]
    assert (EmbeddingCache(storage, "another fingerprint", "n").find_rows(TEXTS) == -1).all()


def test_the_texts_to_be_encoded_are_counted(storage: Storage) -> None:
    encode(storage, TEXTS[:2])
    reported: list[tuple[str, int]] = []
    progress = Progress(lambda stage, n: reported.append((stage, n)), lambda stage, n: reported.append(("done", n)))
    embed(TEXTS, Counting(), storage, "", progress)
    assert reported[0] == ("texts", 7) and sum(n for stage, n in reported if stage == "done") == 7


def test_of_a_task_only_the_scored_texts_are_encoded(tiny_task: Task, storage: Storage) -> None:
    """Texts that only a trainer sees are not encoded for the scores, and never pass for a vector."""
    part = np.where(tiny_task.splits.index % 3 == 0, "train", "test")
    task = replace(tiny_task, rows=tiny_task.splits.assign(part=part))
    tested = set(task.splits.loc[task.splits["part"] == "test", "text_id"])
    scored = [text for key, text in zip(task.corpus["text_id"], task.texts, strict=True) if key in tested]
    assert 0 < len(scored) < len(task.texts)

    encoder = Counting()
    vectors, encoded = embed_task(task, encoder, storage)
    assert encoded == len(scored)
    assert sorted(encoder.encoded) == sorted(scored)
    for split in task.test_splits():
        assert np.array_equal(vectors.subset(split.rows).load(), vectors_of([task.texts[i] for i in split.rows]))
    with refused(ValueError, len(task.texts) - len(scored), len(task.texts)):
        vectors.load()


@pytest.mark.slow
@given(orders=st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_vectors_follow_the_texts_and_no_text_is_ever_encoded_twice(
    orders: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = Storage(tmp_path_factory.mktemp("data"))
    encoded = [text for order in orders for text in encode(storage, order)]
    assert sorted(encoded) == sorted({text for order in orders for text in order})


def test_an_interruption_keeps_what_was_encoded(storage: Storage) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode(storage, TEXTS, fails_after=2)
    kept = open_cache(storage, Counting()).find_rows(TEXTS) >= 0
    assert kept.sum() == 3  # a batch of one, a batch of two
    assert sorted(encode(storage, TEXTS)) == [text for text, there in zip(TEXTS, kept, strict=True) if not there]


# damage


def test_a_text_whose_vector_has_a_flipped_bit_is_encoded_again(storage: Storage, cache: EmbeddingCache) -> None:
    row = int(cache.find_rows(["text 4"])[0])
    path, _ = cache.locate_vectors()
    content = bytearray(path.read_bytes())
    content[row * 16 + 5] ^= 1
    path.write_bytes(content)
    assert encode(storage, TEXTS) == ["text 4"]
    assert encode(storage, TEXTS) == []


@given(position=st.integers(0, 9 * 20 - 1), bit=st.integers(0, 7))
@settings(max_examples=30, deadline=None)
def test_no_flipped_bit_in_the_index_gives_a_text_the_vector_of_another(
    position: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = Storage(tmp_path_factory.mktemp("data"))
    encode(storage, TEXTS)
    index = open_cache(storage, Counting()).folder / "index"
    content = bytearray(index.read_bytes())
    content[position] ^= 1 << bit
    index.write_bytes(content)
    assert len(encode(storage, TEXTS)) == 1


@pytest.mark.parametrize("file", ["index", "4.f32"])
@pytest.mark.parametrize("bytes_lost", [1, 21, 50])
def test_a_torn_end_is_taken_from_its_block(
    storage: Storage, cache: EmbeddingCache, file: str, bytes_lost: int
) -> None:
    path = cache.folder / file
    os.truncate(path, path.stat().st_size - bytes_lost)
    assert encode(storage, [*TEXTS, "a new one"]) == ["a new one"]


# several processes


def write(folder: Path, first: int, ready: Path, memory: int) -> int:
    """Encode 40 texts in ten steps, once the other process is there too."""
    storage = Storage(folder)
    (ready / str(first)).touch()
    wait_for(lambda: len(list(ready.iterdir())) == 2, "the start of the other process")
    for i in range(first, first + 40, 4):
        encode(storage, [f"text {n}" for n in range(i, i + 4)])
    return os.getpid()


def test_two_processes_may_write_at_once(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", "2")
    (tmp_path / "ready").mkdir()
    # 20 texts are written by both
    jobs = [Job(write, (storage.folder, first, tmp_path / "ready")) for first in (0, 20)]
    with ProcessExecutor() as executor:
        assert len({process for _, process in executor.run(jobs)}) == 2
    assert encode(storage, [f"text {i}" for i in range(60)]) == []


def test_vectors_appended_within_a_tick_of_the_clock_are_seen(storage: Storage, cache: EmbeddingCache) -> None:
    embed(TEXTS, Counting(), storage, "")[0].load()
    path, _ = cache.locate_vectors()
    before = path.stat()
    vectors, _ = embed(["a new one"], Counting(), storage, "")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert np.array_equal(vectors.load(), vectors_of(["a new one"]))
