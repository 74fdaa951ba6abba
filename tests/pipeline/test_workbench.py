"""A task's vectors under a model: made once, and found again by whoever asks."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.errors import refused
from traube._core.errors import Missing
from traube._pipeline.workbench import Workbench
from traube._storage import ArtifactRow
from traube._storage.costs import get_cost
from traube.models import ModelCard, fingerprint_on, load_model, model_of
from traube.tasks.task import Task


def test_a_stored_task_is_the_task_and_has_its_versions(bench: Workbench, tiny_task: Task) -> None:
    task = bench.task("tiny")
    assert task.card == tiny_task.card and task.texts == tiny_task.texts
    assert bench.manifest("tiny").corpus_version == task.corpus_version == tiny_task.corpus_version
    assert bench.manifest("tiny").data_version == task.data_version


def test_a_task_that_was_not_read_is_one_clear_error(bench: Workbench) -> None:
    for ask in (bench.task, bench.manifest):
        with refused(Missing, "traube run --task other"):
            ask("other")


@pytest.mark.parametrize("name", ["bow", "lsa"])
def test_a_model_fitted_to_the_corpus_has_one_matrix_of_it(bench: Workbench, tiny_task: Task, name: str) -> None:
    model, task = load_model(name), bench.task("tiny")
    first, encoded = bench.encoded(task, model)
    again, nothing = bench.encoded(tiny_task, model)  # the same texts, whether from the storage or not
    assert (encoded, nothing) == (len(task.texts), 0)
    assert first.path == again.path
    (row,) = bench.storage.read_rows(ArtifactRow, kind="matrix")
    assert row.key.startswith(fingerprint_on(model, task.corpus_version))
    expected = model.encode(task.texts)
    assert (
        (first.load() != expected).sum() == 0 if sparse.issparse(expected) else np.array_equal(first.load(), expected)
    )


def test_the_cost_of_encoding_is_kept_and_not_that_of_the_cache(bench: Workbench, tiny_task: Task) -> None:
    model = load_model("bow")
    place = tiny_task.name, fingerprint_on(model, tiny_task.corpus_version)
    assert get_cost(bench.storage, *place) is None
    bench.encoded(tiny_task, model)
    cost = get_cost(bench.storage, *place)
    assert cost is not None and cost.texts == len(tiny_task.texts) and cost.seconds > 0
    bench.encoded(tiny_task, model)
    assert get_cost(bench.storage, *place) == cost


def test_an_encoders_vectors_are_shared_with_all_texts(bench: Workbench, tiny_task: Task, tiny_bert: Path) -> None:
    model = model_of(ModelCard(name="tiny", model=str(tiny_bert)), "cpu")
    vectors, encoded = bench.encoded(tiny_task, model)
    assert encoded == len(vectors) == len(tiny_task.texts)
    some = bench.vectors_of_texts(tiny_task.texts[5:8], model)
    assert some.path == vectors.path
    assert np.array_equal(some.load(), vectors.subset(np.arange(5, 8)).load())


def test_texts_without_a_task_are_a_corpus_of_their_own(bench: Workbench) -> None:
    model = load_model("bow")
    first, other = (bench.vectors_of_texts([text, "a goal"], model) for text in ("the cat", "the dog"))
    assert [row.texts for row in bench.storage.read_rows(ArtifactRow, kind="matrix")] == [2, 2]
    assert len({vectors.path for vectors in (first, other)}) == 1  # equal bytes are one blob
