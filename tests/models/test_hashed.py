"""Hashed words need no corpus: a text has one vector, wherever it stands."""

from pathlib import Path

import numpy as np

from tests.errors import refused
from traube._core.errors import TooFew
from traube._pipeline.workbench import Workbench
from traube.models import ModelCard, load_model, model_of
from traube.tasks.task import Task

TEXTS = ["cat dog", "dog owl", "a goal in the match", "the match had no goal", "..."]


def test_a_text_has_the_same_vector_in_every_corpus_and_that_of_no_words_is_0() -> None:
    together, alone = load_model("hashed").encode(TEXTS), load_model("hashed").encode(TEXTS[2:3])
    assert together.dtype == np.float32 and together.shape == (5, 256)
    assert np.array_equal(together[2], alone[0])
    assert not load_model("hashed").encode(["..."]).any()
    with refused(TooFew, "hashed"):
        load_model("hashed").encode([])


def test_texts_with_common_words_are_alike_and_others_are_not() -> None:
    unit = load_model("hashed").encode(TEXTS[:4])
    cosines = unit @ unit.T / np.outer(*[np.linalg.norm(unit, axis=1)] * 2)
    assert cosines[2, 3] > 0.6 and cosines[0, 1] > 0.4
    assert np.abs(cosines[:2, 2:]).max() < 0.4


def test_lengths_are_kept_about_as_they_were() -> None:
    lengths = np.linalg.norm(load_model("hashed").encode([f"word{i} and word{i + 1}" for i in range(500)]), axis=1)
    assert 0.95 < lengths.mean() < 1.05


def test_other_dimensions_are_another_model_with_vectors_of_its_own() -> None:
    small = model_of(ModelCard(name="small", kind="hashed", dimensions=16, features=1000))
    assert small.encode(TEXTS).shape == (5, 16)
    assert small.fingerprint != load_model("hashed").fingerprint


def test_what_one_task_has_encoded_another_need_not(tmp_path: Path, tiny_task: Task) -> None:
    bench, model = Workbench.at(tmp_path), load_model("hashed")
    _, encoded = bench.encoded(tiny_task, model)
    vectors = bench.vectors_of_texts([*tiny_task.texts[:3], "a new one"], model)
    assert encoded == len(tiny_task.texts)
    assert np.array_equal(vectors.load()[:3], model.encode(tiny_task.texts[:3]))
    assert len(list((tmp_path / "embeddings").glob("*/index"))) == 1
