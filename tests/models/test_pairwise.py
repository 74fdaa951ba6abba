"""A trained similarity as a model: its encoder's vectors are the base's own, and it is another model than the base."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.errors import refused
from traube._core import paths
from traube._core.errors import Missing
from traube._pipeline.workbench import Workbench
from traube.models import Model, ModelCard, checkpoints, load_model, model_of
from traube.models.pairwise import Pairwise
from traube.models.pins import pin

TEXTS = ["the cat. a dog!", "star soup", "bread"]
Drop = Callable[..., Pairwise]


@pytest.fixture
def drop(drop_similarity: Callable[..., Path]) -> Drop:
    """Puts a similarity over the tiny encoder into checkpoints/, and loads it."""
    return lambda name="mine", **settings: load_model(drop_similarity(name, **settings).name, "cpu")


@pytest.fixture
def base(tiny_bert: Path) -> Model:
    return model_of(ModelCard(name="base", model=str(tiny_bert)), "cpu")


def test_what_the_base_has_encoded_is_not_encoded_again(drop: Drop, base: Model, home: Path) -> None:
    bench, similarity = Workbench.at(home), drop()
    before = bench.vectors_of_texts(TEXTS, base)
    again = bench.vectors_of_texts(TEXTS, similarity)
    assert "network" not in vars(similarity.encoder)  # it was not even loaded
    assert np.array_equal(before.load(), again.load())
    assert again.path == before.path
    bench.vectors_of_texts([*TEXTS, "a new cat"], similarity)  # twin: what is new is encoded
    assert "network" in vars(similarity.encoder)


def test_its_vectors_are_those_of_its_encoder_and_its_base(drop: Drop, base: Model) -> None:
    similarity = drop()
    assert isinstance(similarity, Pairwise) and np.array_equal(similarity.encode(TEXTS), base.encode(TEXTS))
    assert np.array_equal(similarity.encode_new([], TEXTS), base.encode(TEXTS))
    assert (similarity.corpus_bound, similarity.trainable, similarity.device) == (False, False, "cpu")


def test_it_has_another_fingerprint_than_its_base_and_than_other_similarities(drop: Drop, base: Model) -> None:
    models = [drop(), drop("other", network="qs3m"), drop("none", network="qs3m", query="none")]
    assert len({base.fingerprint, *(m.fingerprint for m in models)}) == 4
    assert drop("same").fingerprint == models[0].fingerprint  # twin: its name is not its content
    assert models[0].numerics.keys() - base.numerics.keys() == {"similarity"}


def test_the_encoder_is_set_up_as_it_was_in_training(drop: Drop, tiny_bert: Path) -> None:
    prompted = model_of(ModelCard(name="p", model=str(tiny_bert), prompt="query the "), "cpu")
    similarity = drop(prompt="query the ")
    assert similarity.encoder.fingerprint == prompted.fingerprint
    assert np.array_equal(similarity.encode(TEXTS), prompted.encode(TEXTS))


def test_it_compares_the_same_in_another_process_and_folder(drop: Drop, tmp_path: Path) -> None:
    similarity = drop(network="qs3m", output="sigmoid")
    X, query = similarity.encode(TEXTS), similarity.encode(["query"])[0]
    found = similarity.similarity.distances(X, query)
    assert np.array_equal(pickle.loads(pickle.dumps(similarity.similarity)).distances(X, query), found)
    pinned = model_of(pin("key", similarity.card, similarity.fingerprint, []), "cpu")
    shutil.rmtree(paths.checkpoints() / "mine")
    assert pinned.fingerprint == similarity.fingerprint
    assert pinned.similarity is not None and np.array_equal(pinned.similarity.distances(X, query), found)


# what goes wrong


@pytest.mark.parametrize("file", ["similarity/model.safetensors", "similarity/config.json"])
def test_a_similarity_that_lacks_a_file_is_not_taken_for_its_encoder(drop: Drop, file: str) -> None:
    drop()
    (paths.checkpoints() / "mine" / file).unlink()
    assert checkpoints.cards()["mine"].kind == "pairwise"
    with refused(Missing, file):
        _ = load_model("mine").fingerprint
