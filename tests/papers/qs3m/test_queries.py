"""Texts read together with a query."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from traube._core.errors import Missing
from traube._pipeline.workbench import Workbench
from traube.models.transformer import Transformer
from traube.papers.qs3m.queries import embed_with_query
from traube.tasks.task import Task, TaskCard, index_texts, make_split

TEXTS = ["a dog", "the soup", "bread"]


@pytest.fixture
def task() -> Task:
    """The same texts, found for two queries."""
    records = pd.DataFrame({"text": TEXTS * 2, "label": ["x", "y", "y"] * 2, "query": ["star"] * 3 + ["cat"] * 3})
    corpus, records = index_texts(records)
    splits = [make_split(records[i : i + 3], name, "topic", label="label") for i, name in ((0, "one"), (3, "two"))]
    return Task(TaskCard(name="queried"), corpus, pd.concat(splits, ignore_index=True)).validate()


def test_a_text_has_another_vector_for_another_query(tmp_path: Path, task: Task, base: Transformer) -> None:
    bench, splits = Workbench.at(tmp_path), list(task.test_splits())
    one, two = embed_with_query(bench, task, splits, base)
    assert np.allclose(one.load(), base.encode([f"star: {text}" for text in TEXTS]), atol=1e-6)
    assert np.allclose(two.load(), base.encode([f"cat: {text}" for text in TEXTS]), atol=1e-6)
    assert not np.allclose(one.load(), two.load(), atol=1e-3)
    rows = one.path.stat().st_size
    embed_with_query(bench, task, splits, base)
    assert one.path.stat().st_size == rows  # what was encoded is not encoded again


def test_a_split_without_a_query_is_one_clear_error(tmp_path: Path, tiny_task: Task, base: Transformer) -> None:
    splits = list(tiny_task.test_splits())
    with refused(Missing, "early"):
        embed_with_query(Workbench.at(tmp_path), tiny_task, splits, base)
