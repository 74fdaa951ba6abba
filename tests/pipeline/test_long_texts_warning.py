"""`evaluate` warns of texts that are longer than the model reads."""

import warnings

import pytest

from traube._pipeline.evaluate import evaluate

TEXTS = ["a loaf of bread", "dough and bread", "dough for a loaf", "a ship at sea", "a crew at sea", "the crew"]
LABELS = ["food"] * 3 + ["sea"] * 3


def test_evaluate_warns_of_texts_that_are_longer_than_the_model_reads() -> None:
    with pytest.warns(UserWarning, match="2 of 6 texts are longer than the 256 tokens that minilm reads"):
        evaluate([f"{text} " * (100 if i < 2 else 1) for i, text in enumerate(TEXTS)], "minilm", labels=LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(TEXTS, "minilm", labels=LABELS)  # where none is
