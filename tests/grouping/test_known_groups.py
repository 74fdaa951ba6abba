"""Texts that join groups that are there, texts that fit none, and names that a model gives."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.errors import Refusal, refused
from traube._core.errors import Malformed, TooFew
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.clustering import Clustering
from traube._grouping.known_groups import assign_by_examples
from traube.components import DistanceView, VectorView
from traube.models.causal import CausalModel

EXAMPLES = ["dough and bread", "a loaf of bread", "dough, a loaf", "a ship and its crew", "the crew of the ship"]
GROUPS = ["food", "food", "food", "sea", "sea"]


# groups of labeled texts


def test_a_text_joins_the_group_whose_examples_are_nearest() -> None:
    found = assign_by_examples(["the ship", "bread", "its crew"], EXAMPLES, GROUPS, model="tfidf")
    assert [found.name(c) for c in found.labels] == ["sea", "food", "sea"]
    assert np.isfinite(found.distances).all() and found.clearness == ""
    assert {found.name(c): found.words[c][0] for c in found.words} == {"food": "bread", "sea": "crew"}
    found = assign_by_examples(["the ship", "bread"], EXAMPLES, GROUPS, model="jaccard")
    assert [found.name(c) for c in found.labels] == ["sea", "food"]
    texts = ["the ship", "bread", "its crew", "a loaf"]
    turned = assign_by_examples(texts, EXAMPLES[::-1], GROUPS[::-1], model="tfidf")
    assert np.array_equal(turned.labels, assign_by_examples(texts, EXAMPLES, GROUPS, model="tfidf").labels)


def test_blank_texts_join_no_group_and_examples_that_lack_a_text_or_a_group_are_left_out() -> None:
    texts = ["the ship", " ", "bread"]
    found = assign_by_examples(texts, [*EXAMPLES, "a ship of bread", ""], [*GROUPS, " ", "sea"], model="tfidf")
    assert [found.name(c) for c in found.labels] == ["sea", "", "food"] and found.blank == 1
    assert sorted(found.names.values()) == ["food", "sea"]  # no group without a name
    whole = assign_by_examples(["the ship", "bread"], EXAMPLES, GROUPS, model="tfidf")
    assert found.distances[[0, 2]] == pytest.approx(whole.distances)


@pytest.mark.parametrize(
    ("groups", "refusal"),
    [
        (["one"] * 5, (TooFew, "labels", 1)),
        ([], (TooFew, "labels", 0)),
        ([str(i) for i in range(40)], (Malformed, "labels", 40)),
    ],
)
def test_what_is_no_grouping_is_said_and_not_computed(groups: list[str], refusal: Refusal, home: Path) -> None:
    with refused(*refusal):
        assign_by_examples(["bread"], ["bread"] * len(groups), groups, model="tfidf")
    assert not any(home.iterdir())


# texts that fit no group


def two_groups(kind: Callable[[NDArray[np.float64]], object]) -> tuple[object, NDArray[np.int64]]:
    """Fifty texts of each of two directions, and one of a third that lies in the second group."""
    random = np.random.default_rng(0)
    middles = np.repeat(np.eye(3)[:2], 50, axis=0)
    odd = np.array([[-0.2, 0.1, 1.0]])
    return kind(np.concatenate([middles + 0.1 * random.random((100, 3)), odd])), np.repeat([0, 1], [50, 51])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_text_unlike_its_group_is_a_stray_and_no_other_is(kind: Callable[..., object]) -> None:
    vectors, clusters = two_groups(kind)
    assert np.flatnonzero(VectorView(vectors).strays(clusters)).tolist() == [100]  # type: ignore[arg-type]
    new = kind(np.array([[1.0, 0.1, 0], [0, 1, 0.1], [0.1, 0.1, -1]]))
    assert VectorView(vectors).strays(clusters, new, np.array([0, 1, 1])).tolist() == [False, False, True]  # type: ignore[arg-type]


def test_noise_and_a_single_cluster_have_no_strays() -> None:
    vectors, clusters = two_groups(np.asarray)
    assert not VectorView(vectors).strays(np.zeros(101, dtype=np.int64)).any()  # type: ignore[arg-type]
    assert not VectorView(vectors).strays(np.where(clusters == 1, -1, 0)).any()  # type: ignore[arg-type]


def test_strays_by_distance_are_no_nearer_to_their_own_than_to_others() -> None:
    pairs = np.full((41, 41), 0.9)
    pairs[:20, :20] = pairs[20:40, 20:40] = 0.2
    np.fill_diagonal(pairs, 0)
    clusters = np.repeat([0, 1], [20, 21])  # the last is as far from all
    pairs[40, 20:40] = pairs[20:40, 40] = 0.95
    assert np.flatnonzero(DistanceView(pairs.astype(np.float32)).strays(clusters)).tolist() == [40]


def test_strays_are_set_apart_only_on_request() -> None:
    about = ["dough yeast crust loaf", "goal keeper penalty match"]
    texts = [f"{words} n{i}" for i in range(20) for words in about] + ["dough goal zebra giraffe lion elephant hippo"]
    found = cluster_texts(texts, model="tfidf", n_clusters=2)
    assert (found.labels >= 0).all() and found.strays[-1] and not found.strays[:-1].any()
    apart = found.without_strays()
    assert apart.typical == found.typical  # of which none has left
    assert apart.labels[-1] == -1 and np.isnan(apart.distances[-1])
    assert np.array_equal(apart.labels[:-1], found.labels[:-1])


@pytest.mark.parametrize("by", ["examples", "clusters"])
def test_a_text_that_has_left_a_group_is_not_typical_of_it(by: str) -> None:
    """Another one takes its place, and a group that all have left has none."""
    texts = [f"dough yeast crust loaf n{i}" for i in range(4)] + [f"goal keeper penalty match n{i}" for i in range(4)]
    if by == "examples":
        found = assign_by_examples(texts, texts, ["food"] * 4 + ["sport"] * 4, model="tfidf")
    else:
        found = cluster_texts(texts, model="tfidf", n_clusters=2)
    gone, empty = found.labels[0], found.labels[4]
    strays = np.arange(8) >= 4
    strays[found.typical[gone][0]] = True
    apart = replace(found, strays=strays).without_strays()
    assert not strays[apart.typical[gone]].any() and len(apart.typical[gone]) == 3
    assert apart.typical[empty] == []
    assert apart.summary()["typical_texts"].map(len).tolist() == [3]
    for layer in apart.layers:
        assert not any(strays[at].any() for at in layer.typical.values())
    assert found.typical[empty] and found.without_strays().typical == found.typical  # without strays none changes


# names by a causal language model


def causal(end: bool) -> CausalModel:
    """A tiny GPT-2 that says nothing but its end, or words."""
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = ["[UNK]", "[BOS]", "bread", "sea", "topic", "dough", "ship"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="[BOS]", eos_token="[BOS]", unk_token="[UNK]")
    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config(vocab_size=7, n_positions=64, n_embd=8, n_layer=1, n_head=1, eos_token_id=1))
    with torch.no_grad():  # the output is that of the constant vector below, whatever is requested
        network.transformer.ln_f.weight.zero_()
        network.transformer.ln_f.bias.copy_(network.transformer.wte.weight[1 if end else 2] * 100)
    return CausalModel(network, tokenizer)


def test_a_model_names_groups_and_where_it_says_nothing_key_words_stay() -> None:
    texts = ["dough " * 500, "a ship"]  # the first is longer than the model takes
    words, typical = {0: ["dough"], 1: ["ship"]}, {0: [0], 1: [1]}
    clusters = Clustering(np.array([0, 1]), np.zeros(2), words, typical, None, texts=texts)
    named = clusters.name_clusters(causal(end=False))
    assert named.name(0).startswith("bread bread") and len(named.name(0)) <= 60
    silent = clusters.name_clusters(causal(end=True))
    assert silent.name(1) == "ship"
    assert silent.naming_note == "2 of 2 groups keep their key words as names: the model gave no name"
