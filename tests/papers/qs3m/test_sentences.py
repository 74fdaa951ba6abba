"""Attention reads the sentences of a passage, at most ten."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from traube.models import Model, ModelCard, load_model, model_of
from traube.papers.qs3m.sentences import SENTENCES, split_sentences

TEXTS = ["the cat. a dog!", "star soup", "bread"]


@pytest.fixture
def model(drop_similarity: Callable[..., Path]) -> Model:
    """A model that attends to sentences, over the tiny encoder."""
    return load_model(drop_similarity(network="attention", output="sigmoid").name, "cpu")


def test_attention_looks_at_the_text_and_then_its_sentences(model: Model, tiny_bert: Path) -> None:
    base = model_of(ModelCard(name="base", model=str(tiny_bert)), "cpu")
    found = model.encode(TEXTS).reshape(3, 1 + SENTENCES, 32)
    assert np.allclose(found[:, 0], base.encode(TEXTS), atol=1e-6)
    assert np.allclose(found[0, 1:3], base.encode(["the cat.", "a dog!"]), atol=1e-6)
    assert [int((passage != 0).any(axis=1).sum()) for passage in found] == [3, 2, 2]


def test_attention_compares_real_passages(model: Model) -> None:
    X, query = model.encode(TEXTS), model.encode(["query"])[0]
    found = model.similarity.distances(X, query)
    assert found.shape == (3, 3) and found.max() == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("no end", ["no end"]),
        ('"Quoted." (Aside.) Rest', ['"Quoted."', "(Aside.)", "Rest"]),
        ("3.14 is pi.", ["3.14 is pi."]),
        ("...", ["..."]),
        ("  ", ["  "]),
    ],
)
def test_a_text_has_at_least_one_sentence(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_sentences_beyond_the_tenth_are_left_out(model: Model) -> None:
    ten, eleven = (" ".join(["cat."] * n) for n in (10, 11))
    found = model.encode([ten, eleven]).reshape(2, 1 + SENTENCES, 32)
    assert np.array_equal(found[0, 1:], found[1, 1:])
