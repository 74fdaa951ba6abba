"""The interface of all models, whatever their kind: nobody looks at their class."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from traube.models import Model, ModelCard, load_model, model_of

CORPUS = ["the cat", "a dog", "star soup", "bread soup"]


@pytest.fixture(params=["bow", "tfidf", "lsa", "jaccard", "lda", "hashed", "tiny"])
def model(request: pytest.FixtureRequest, tiny_bert: Path) -> Model:
    if request.param == "tiny":
        return model_of(ModelCard(name="tiny", model=str(tiny_bert)), "cpu")
    return load_model(request.param)


def dense(values: object) -> np.ndarray:
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def test_every_model_says_what_it_is(model: Model) -> None:
    assert model.card.name == model.name
    assert model.device == "cpu"
    assert model_of(model.card).fingerprint == model.fingerprint
    before = model.fingerprint
    model.fetch()
    assert model.fingerprint == before
    assert model.trainable == (model.name == "tiny")
    assert model.corpus_bound == (model.name not in ("tiny", "hashed"))


def test_new_texts_have_the_vectors_they_would_have_had_in_the_corpus(model: Model) -> None:
    old = dense(model.encode(CORPUS))
    new = dense(model.encode_new(CORPUS, CORPUS[1:3]))
    assert new.dtype == np.float32 and new.shape == (2, old.shape[1])
    assert np.allclose(new, old[1:3], atol=1e-6)
    alone = dense(model.encode_new(CORPUS, ["the cat"]))
    with_others = dense(model.encode_new(CORPUS, ["the cat", "dog dog dog", "quite another"]))
    assert np.allclose(alone[0], with_others[0], atol=1e-6)
