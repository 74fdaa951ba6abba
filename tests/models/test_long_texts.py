"""Texts that are longer than a model reads are counted, without loading its network."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from traube.models import load_model, to_model
from traube.models.card import ModelCard
from traube.models.long_texts import SAMPLE, LongTexts, measure_long_texts
from traube.models.transformer import Transformer

SHORT, LONG = "a loaf of bread", "bread " * 300  # tokens: 6 and 302, with the two at the ends


@pytest.fixture
def minilm() -> Transformer:
    model = load_model("minilm")
    assert isinstance(model, Transformer)
    return model


def test_long_texts_are_counted_with_the_tokens_that_mark_the_ends(minilm: Transformer) -> None:
    assert measure_long_texts(minilm, [SHORT, LONG, LONG, ""]) == LongTexts(2, 4, 256, 302, is_estimate=False)
    assert "network" not in minilm.__dict__
    just, over = "bread " * 254, "bread " * 255
    assert measure_long_texts(minilm, [just]) is None
    assert measure_long_texts(minilm, [just, over]) == LongTexts(1, 2, 256, 257, is_estimate=False)


def test_nothing_is_tokenized_where_no_text_can_be_long(minilm: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    count = minilm.count_tokens
    monkeypatch.setattr(minilm, "count_tokens", lambda texts: counted.append(len(texts)) or count(texts))
    assert measure_long_texts(minilm, [SHORT] * 1000) is None
    assert measure_long_texts(minilm, [SHORT] * 1000 + [LONG] * 3).count == 3
    assert counted == [0, 3]


def test_of_many_long_texts_a_sample_is_tokenized(minilm: Transformer) -> None:
    words = "breadless " * 30  # many bytes, and few tokens
    found = measure_long_texts(minilm, [LONG, words] * SAMPLE)
    assert found.is_estimate and found.texts == 2 * SAMPLE
    assert found.count == pytest.approx(SAMPLE, rel=0.2)
    assert measure_long_texts(minilm, [words] * 2 * SAMPLE) is None


def test_the_limit_is_the_card_s_or_the_network_s(minilm: Transformer) -> None:
    assert minilm.max_length == 256
    assert Transformer(minilm.card.model_copy(update={"max_length": 64})).max_length == 64
    network = SentenceTransformer(str(minilm.folder), device="cpu")
    network.max_seq_length = 32
    assert measure_long_texts(to_model(network), ["bread " * 40]) == LongTexts(1, 1, 32, 42, is_estimate=False)


@pytest.mark.parametrize("name", ["tfidf", "hashed"])
def test_models_that_read_any_length_have_no_long_texts(name: str) -> None:
    assert measure_long_texts(load_model(name), [LONG]) is None
    assert measure_long_texts(to_model(lambda texts: np.ones((len(texts), 2))), [LONG]) is None
    assert Transformer(ModelCard(name="x", max_length=8)).max_length == 8
