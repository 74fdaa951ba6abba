"""Texts of which the model knows nothing, with vectors of 0: they are in no group, and typical of none."""

import numpy as np
import pytest

from tests.errors import refused
from traube._core.errors import Failed, TooFew
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.estimators import EmbeddingClusterer, TextClusterer
from traube._grouping.known_groups import assign_by_examples

BAKING = ["dough and bread", "a loaf of bread", "dough for a loaf"]
SAILING = ["a ship and its crew", "the crew of the ship", "a ship at sea"]
STRANGE = ["§ 1 !", "? 2 ;", "— 3 —"]  # no word of two letters


@pytest.mark.parametrize("model", ["tfidf", "bow", "lsa", "hashed"])
def test_texts_without_a_known_word_change_nothing_of_the_others(model: str) -> None:
    known = cluster_texts([*BAKING, *SAILING], model=model, n_clusters=2)
    mixed = cluster_texts([*BAKING, *STRANGE, *SAILING], model=model, n_clusters=2)
    assert mixed.unknown.nonzero()[0].tolist() == [3, 4, 5] and not known.unknown.any()
    assert np.array_equal(np.delete(mixed.labels, [3, 4, 5]), known.labels)
    assert set(mixed.labels[3:6]) == {-1} and np.isnan(mixed.distances[3:6]).all()
    assert all(mixed.labels[i] == c for c, rows in mixed.typical.items() for i in rows)
    assert (mixed.noise, mixed.blank, known.noise) == (0, 0, 0)  # counted once, as unknown


def test_unknown_texts_are_in_no_group_of_any_layer_and_stay_there() -> None:
    words = ["dough crust loaf", "goal keeper match", "orbit mars moon", "violin opera chord"]
    texts = [f"{words[i % 4]} n{i}" for i in range(80)]
    found = cluster_texts(["§ 1", *texts, "", "§ 1"], model="tfidf")
    for layer in found.cuts:
        assert layer.labels[[0, 81, 82]].tolist() == [-1, -1, -1] and (layer.labels[1:81] >= 0).all()
    assert found.unknown.nonzero()[0].tolist() == [0, 82] and found.blank == 1  # equal texts count each
    assert (found.without_strays().labels[[0, 82]] == -1).all()


def test_vectors_of_0_that_are_passed_are_unknown_too_and_others_are_not() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 0], [0, 1], [0.1, 0.9]])
    found = cluster_texts(list("abcde"), embeddings=vectors, n_clusters=2)
    assert found.unknown.tolist() == [False, False, True, False, False]
    assert found.labels[2] == -1 and len(found.sizes()) == 2


def test_there_is_nothing_to_group_where_the_model_knows_no_text() -> None:
    with refused(Failed, 0):
        cluster_texts(STRANGE, model="hashed")
    with refused(TooFew, 4, 3):
        cluster_texts([*BAKING, *STRANGE], model="hashed", n_clusters=4)


def test_an_unknown_text_joins_no_group_of_examples() -> None:
    found = assign_by_examples(["bread", "§ 1", "ship"], [*BAKING, *SAILING], ["food"] * 3 + ["sea"] * 3, model="tfidf")
    assert [found.name(c) for c in found.labels] == ["food", "", "sea"]
    assert found.unknown.tolist() == [False, True, False] and found.noise == 0


def test_estimators_put_it_into_no_group_either() -> None:
    of_texts = TextClusterer("tfidf", n_clusters=2).fit([*BAKING, *SAILING])
    assert of_texts.predict(["bread", "§ 1", "ship"]).tolist() == [of_texts.labels_[0], -1, of_texts.labels_[3]]
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    of_vectors = EmbeddingClusterer(n_clusters=2).fit(vectors)
    assert of_vectors.predict([[2, 0], [0, 0]]).tolist() == [of_vectors.labels_[0], -1]
