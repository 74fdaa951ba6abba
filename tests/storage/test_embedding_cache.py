"""A text is encoded once for all nodes, and what is corrupt is encoded again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.storage.conftest import Open
from traube.foundation.errors import TraubeError
from traube.storage import Storage
from traube.storage.embedding_cache import EmbeddingCache

TEXTS = [f"text {i}" for i in range(9)]


def encode(texts: list[str]) -> NDArray[np.float32]:
    """Return two numbers that tell a text from any other here."""
    return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float32).reshape(-1, 2)


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
    assert len(one.storage.read_rows("embedding")) == 2
    other = EmbeddingCache(one.storage, "f", "other versions of the libraries")
    assert other.find_rows(TEXTS).tolist() == [-1] * 9


def test_a_cache_that_is_deleted_is_made_again_of_blocks(tmp_path: Path) -> None:
    cache = EmbeddingCache(Storage(tmp_path), "f", "n")
    cache.append(TEXTS, encode(TEXTS))
    shutil.rmtree(cache.folder)
    check(cache, TEXTS)
    assert len(cache.storage.read_rows("embedding")) == 1


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
    with pytest.raises(TraubeError, match="vectors of length 3 among those of 2"):
        cache.append(["more"], np.zeros((1, 3), np.float32))
