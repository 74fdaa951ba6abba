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

from tests.waiting import wait_for
from traube.engine.embed import embed, embed_task
from traube.engine.executors import Job, ProcessExecutor
from traube.foundation.errors import TraubeError
from traube.models import EmbeddingCache, cache_key
from traube.models.cache import Shelf
from traube.tasks.task import Task

TEXTS = [f"text {i}" for i in range(9)]


def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
    """Four numbers that tell a text from any other."""
    digests = [blake2b(text.encode(), digest_size=4).digest() for text in texts]
    return np.array([[byte / 255 for byte in digest] for digest in digests], dtype=np.float32).reshape(-1, 4)


class Counting:
    """An encoder that remembers what it was given, and gives its batches in no particular order."""

    name, fingerprint, corpus_bound, similarity, precision = "counting", "f00d", False, None, "fp32"
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
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "embeddings")


@pytest.fixture
def shelf(cache: EmbeddingCache) -> Shelf:
    """The counting encoder's shelf, with all texts on it."""
    encode(cache, TEXTS)
    return cache.shelf(cache_key(Counting()))


def encode(cache: EmbeddingCache, texts: Sequence[str], **kwargs: int) -> list[str]:
    """What had to be encoded. The vectors are right, in the order of the texts, or the test fails."""
    encoder = Counting(**kwargs)
    vectors, encoded = embed(texts, encoder, cache, Path("/nowhere"))
    assert np.array_equal(vectors.load(), vectors_of(texts))
    assert encoded == len(encoder.encoded)
    return encoder.encoded


def test_a_second_run_encodes_nothing(cache: EmbeddingCache) -> None:
    assert sorted(encode(cache, TEXTS)) == TEXTS
    assert encode(cache, TEXTS) == []
    assert encode(cache, TEXTS[::-1]) == []
    assert encode(EmbeddingCache(cache.folder), TEXTS[3:5]) == []


def test_of_a_task_only_the_scored_texts_are_encoded(tiny_task: Task, cache: EmbeddingCache) -> None:
    """What only a trainer sees is not encoded for the scores, and never passes for a vector."""
    part = np.where(tiny_task.splits.index % 3 == 0, "train", "test")
    task = replace(tiny_task, splits=tiny_task.splits.assign(part=part))
    tested = set(task.splits.loc[task.splits["part"] == "test", "text_id"])
    scored = [text for key, text in zip(task.corpus["text_id"], task.texts, strict=True) if key in tested]
    assert 0 < len(scored) < len(task.texts)

    encoder = Counting()
    vectors, encoded = embed_task(task, encoder, cache, Path("/nowhere"))
    assert encoded == len(scored)
    assert sorted(encoder.encoded) == sorted(scored)
    for split in task.test_splits():
        assert np.array_equal(vectors.subset(split.rows).load(), vectors_of([task.texts[i] for i in split.rows]))
    with pytest.raises(ValueError, match=f"{len(task.texts) - len(scored)} of {len(task.texts)} texts have no vector"):
        vectors.load()


def test_adding_one_text_encodes_one_text(cache: EmbeddingCache) -> None:
    encode(cache, TEXTS)
    assert encode(cache, [*TEXTS[:4], "a new one", *TEXTS[4:]]) == ["a new one"]


def test_a_text_that_occurs_twice_is_encoded_once(cache: EmbeddingCache) -> None:
    assert sorted(encode(cache, ["b", "a", "b", "b"])) == ["a", "b"]


@given(orders=st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_vectors_follow_the_texts_and_no_text_is_ever_encoded_twice(
    orders: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = EmbeddingCache(tmp_path_factory.mktemp("cache"))
    encoded = [text for order in orders for text in encode(cache, order)]
    assert sorted(encoded) == sorted({text for order in orders for text in order})


def test_models_do_not_share_vectors(cache: EmbeddingCache) -> None:
    encode(cache, TEXTS)
    assert (cache.shelf("another fingerprint").rows(TEXTS) == -1).all()


def test_half_a_surrogate_pair_is_a_text_like_any_other(cache: EmbeddingCache) -> None:
    shelf = cache.shelf("f")
    shelf.append(["\ud800", "\udfff"], np.eye(2, dtype=np.float32))
    assert shelf.rows(["\udfff", "\ud800"]).tolist() == [1, 0]


def test_an_interruption_keeps_what_was_encoded(cache: EmbeddingCache) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode(cache, TEXTS, fails_after=2)
    kept = cache.shelf(cache_key(Counting())).rows(TEXTS) >= 0
    assert kept.sum() == 3  # a batch of one, a batch of two
    assert sorted(encode(cache, TEXTS)) == [text for text, there in zip(TEXTS, kept, strict=True) if not there]


# damage


def test_a_flipped_bit_in_a_vector_is_noticed_and_only_that_text_encoded_again(
    cache: EmbeddingCache, shelf: Shelf
) -> None:
    row = int(shelf.rows(["text 4"])[0])
    content = bytearray(shelf.vectors_path.read_bytes())
    content[row * 16 + 5] ^= 1
    shelf.vectors_path.write_bytes(content)
    assert encode(cache, TEXTS) == ["text 4"]
    assert encode(cache, TEXTS) == []


@given(position=st.integers(0, 9 * 20 - 1), bit=st.integers(0, 7))
@settings(max_examples=30, deadline=None)
def test_no_flipped_bit_in_the_index_gives_a_text_the_vector_of_another(
    position: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = EmbeddingCache(tmp_path_factory.mktemp("cache"))
    encode(cache, TEXTS)
    index = cache.shelf(cache_key(Counting())).folder / "index"
    content = bytearray(index.read_bytes())
    content[position] ^= 1 << bit
    index.write_bytes(content)
    assert len(encode(cache, TEXTS)) == 1


@pytest.mark.parametrize("file", ["index", "vectors.f32"])
@pytest.mark.parametrize("bytes_lost", [1, 21, 50])
def test_a_torn_end_is_dropped_and_written_anew(
    cache: EmbeddingCache, shelf: Shelf, file: str, bytes_lost: int
) -> None:
    path = shelf.folder / file
    os.truncate(path, path.stat().st_size - bytes_lost)
    encoded = encode(cache, [*TEXTS, "a new one"])
    assert "a new one" in encoded and 2 <= len(encoded) <= 5
    assert encode(cache, [*TEXTS, "a new one"]) == []


def test_files_that_are_gone_are_written_anew(cache: EmbeddingCache, shelf: Shelf) -> None:
    shelf.vectors_path.unlink()
    assert sorted(encode(cache, TEXTS)) == TEXTS


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"null", b"\xff"])
def test_damaged_metadata_is_made_again_from_the_vectors(cache: EmbeddingCache, shelf: Shelf, content: bytes) -> None:
    (shelf.folder / "meta.json").write_bytes(content)
    assert encode(cache, TEXTS) == []
    assert encode(cache, ["a new one"]) == ["a new one"]


def test_without_its_metadata_a_torn_shelf_is_written_anew(cache: EmbeddingCache, shelf: Shelf) -> None:
    (shelf.folder / "meta.json").unlink()
    os.truncate(shelf.vectors_path, 21)
    assert sorted(encode(cache, TEXTS)) == sorted(TEXTS)
    assert encode(cache, TEXTS) == []


def test_vectors_of_another_length_are_refused(shelf: Shelf) -> None:
    with pytest.raises(TraubeError, match="vectors of length 3 among vectors of length 4"):
        shelf.append(["a"], np.zeros((1, 3), dtype=np.float32))


# several processes


def write(cache: EmbeddingCache, first: int, ready: Path, memory: int) -> int:
    """Encode 40 texts in ten steps, once the other process is there too."""
    (ready / str(first)).touch()
    wait_for(lambda: len(list(ready.iterdir())) == 2, "the start of the other process")
    for i in range(first, first + 40, 4):
        encode(cache, [f"text {n}" for n in range(i, i + 4)])
    return os.getpid()


def test_two_processes_may_write_at_once(
    cache: EmbeddingCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", "2")
    (tmp_path / "ready").mkdir()
    # 20 texts are written by both
    jobs = [Job(write, (cache, first, tmp_path / "ready")) for first in (0, 20)]
    with ProcessExecutor() as executor:
        assert len({process for _, process in executor.run(jobs)}) == 2
    assert encode(cache, [f"text {i}" for i in range(60)]) == []


def test_vectors_appended_within_a_tick_of_the_clock_are_seen(cache: EmbeddingCache, shelf: Shelf) -> None:
    embed(TEXTS, Counting(), cache, Path("/nowhere"))[0].load()
    before = shelf.vectors_path.stat()
    vectors, _ = embed(["a new one"], Counting(), cache, Path("/nowhere"))
    os.utime(shelf.vectors_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert np.array_equal(vectors.load(), vectors_of(["a new one"]))
