"""Many texts take time in proportion to their number, and no more memory for vectors than is written
at once.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from traube._core.measure import measure
from traube._pipeline.embed import embed, embed_task, open_cache
from traube._storage import Storage
from traube.tasks.task import Task, TaskCard, index_texts, make_split

MEMORY = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what was in use at the highest point")


class Instant:
    """An encoder that takes no time: each number of a text's vector is its length."""

    name, fingerprint, corpus_bound, similarity = "instant", "1257", False, None
    device = "cpu"
    numerics: ClassVar[dict[str, str]] = {"instant": "1"}

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.encoder = self

    def load(self) -> int:
        return 0

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for positions in np.array_split(np.arange(len(texts)), -(-len(texts) // 1000)):
            lengths = np.array([len(texts[i]) for i in positions], dtype=np.float32)
            yield positions, np.repeat(lengths[:, None], self.dimensions, axis=1)


def task_of(count: int) -> Task:
    texts = [f"{'x' * (i % 7)} text {i}" for i in range(count)]
    corpus, records = index_texts(pd.DataFrame({"text": texts, "label": [str(i % 5) for i in range(count)]}))
    return Task(TaskCard(name="many"), corpus, make_split(records, "all", "label", label="label"))


def test_the_texts_of_a_task_are_looked_up_in_no_time(tmp_path: Path) -> None:
    """20,000 of them take a third of a second. One by one from the whole list, they took 20."""
    task = task_of(20_000)
    began = time.process_time()
    vectors, encoded = embed_task(task, Instant(2), Storage(tmp_path))
    assert time.process_time() - began < 10
    assert encoded == 20_000
    assert vectors.load()[:, 0].tolist() == [len(text) for text in task.texts]


@pytest.mark.slow
@MEMORY
def test_vectors_that_wait_to_be_written_are_few_and_what_is_written_is_read_in_blocks(tmp_path: Path) -> None:
    texts, encoder, storage = [f"text {i}" for i in range(70_000)], Instant(1024), Storage(tmp_path)
    with measure() as taken:
        vectors, _ = embed(texts, encoder, storage, "")
    size = open_cache(storage, encoder).locate_vectors()[0].stat().st_size / 2**20
    assert size > 270
    assert taken.memory < 0.7 * size  # megabytes
    with measure() as taken:
        some = vectors.subset(np.arange(0, 70_000, 7_000)).load()
    assert taken.memory < 0.1 * size
    assert some[:, 1023].tolist() == [len(texts[i]) for i in range(0, 70_000, 7_000)]
