"""GSDMM: beside a slow, literal sampler written from the equation; and what becomes of odd texts."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tests.errors import refused
from traube._core.errors import TooFew, Unsupported
from traube.components import DistanceView, TextView, VectorView, parse_method
from traube.components.fitting import fit_clusterer
from traube.papers.aecl.gsdmm import Gsdmm, _weigh, count_words

SUBJECTS = ("dough yeast crust rye loaf oven", "racket serve volley net ace court", "nova galaxy dwarf star orbit ring")


def group(params: dict[str, Any] | None, texts: list[str], seed: int) -> NDArray[np.int64]:
    return fit_clusterer("gsdmm", params, TextView(texts), None, seed).labels


def short_texts(n: int = 120, seed: int = 0) -> tuple[list[str], list[int]]:
    """Texts of four words each, of one of three subjects."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(3, size=n).tolist()
    return [" ".join(rng.choice(SUBJECTS[g].split(), 4)) for g in gold], gold


def literal(
    text: list[str], clusters: list[list[list[str]]], vocabulary: int, alpha: float, beta: float
) -> list[float]:
    """Equation 4 of the paper, factor by factor, for a text and the texts of each cluster without it."""
    weights = []
    for members in clusters:
        words = [word for member in members for word in member]
        above = below = 1.0
        for word, times in Counter(text).items():
            for j in range(1, times + 1):
                above *= words.count(word) + beta + j - 1
        for i in range(1, len(text) + 1):
            below *= len(words) + vocabulary * beta + i - 1
        weights.append((len(members) + alpha) * above / below)
    return weights


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40), min_size=2, max_size=9),
    st.floats(0.01, 2),
    st.floats(0.01, 2),
)
def test_the_weights_are_those_of_the_equation(texts: list[list[str]], alpha: float, beta: float) -> None:
    words, vocabulary = count_words(" ".join(text) for text in texts)
    k = 3
    clusters = [[text for i, text in enumerate(texts[1:]) if i % k == c] for c in range(k)]
    number = {word: i for i, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
    counts = np.zeros((vocabulary, k))
    for c, members in enumerate(clusters):
        for word in (word for member in members for word in member):
            counts[number[word], c] += 1
    sizes = np.array([float(len(members)) for members in clusters])
    log_weight = np.empty(k)
    _weigh(words, 0, alpha, beta, sizes, counts.sum(axis=0), counts, np.empty(k), log_weight)
    expected = np.array(literal(texts[0], clusters, vocabulary, alpha, beta))
    found = np.exp(log_weight - log_weight.max())
    assert found / found.sum() == pytest.approx(expected / expected.sum(), rel=1e-9)


@pytest.mark.slow
def test_it_finds_the_subjects_and_how_many_there_are() -> None:
    texts, gold = short_texts()
    found = group({"most": 40}, texts, 0)
    assert adjusted_rand_score(gold, found) > 0.95
    # clusters are drawn, so that now and then a text ends by itself
    assert sorted(np.bincount(found))[-3:][0] > 30 and len(set(found)) <= 4


def test_the_seed_decides_and_nothing_else() -> None:
    texts, _ = short_texts()
    once, twice, other = (group({"sweeps": 1}, texts, seed) for seed in (1, 1, 2))
    assert np.array_equal(once, twice)
    assert not np.array_equal(once, other)


def test_case_and_punctuation_mean_nothing_and_letters_of_all_scripts_are_letters() -> None:
    plain, vocabulary = count_words(["süße früchte", "früchte süße süße"])
    other, other_vocabulary = count_words(["Süße, Früchte!", "FRÜCHTE süße (süße)"])
    assert all(np.array_equal(a, b) for a, b in zip(plain, other, strict=True))
    assert (plain[1].tolist(), plain[2].tolist()) == ([0, 1, 1, 0], [1, 1, 1, 2])
    assert vocabulary == other_vocabulary == 2


def test_a_text_without_words_is_noise_and_changes_nothing_else() -> None:
    texts, _ = short_texts(30)
    alone = group(None, texts, 3)
    with_empty = group(None, ["", *texts[:7], "...", *texts[7:], " "], 3)
    assert with_empty[[0, 8, 32]].tolist() == [-1, -1, -1]
    assert np.array_equal(np.delete(with_empty, [0, 8, 32]), alone)


@pytest.mark.parametrize(
    ("texts", "expected"), [(["one text"], [0]), (["a", "a"], [0, 0]), (["", ""], [-1, -1]), (["", "a"], [-1, 0])]
)
def test_few_texts_empty_texts_and_equal_texts(texts: list[str], expected: list[int]) -> None:
    assert group(None, texts, 0).tolist() == expected


def test_a_long_text_has_weights_too() -> None:
    """Its product of a thousand factors is below the smallest number."""
    texts = [" ".join(f"w{i}" for i in range(1000)), " ".join(f"w{i}" for i in range(1000)), "quite another"]
    found = group(None, texts, 0)
    assert found.tolist() == [0, 0, 1]


def test_equal_texts_are_together_but_for_a_draw_now_and_then() -> None:
    found = group(None, ["the same words in all of them"] * 40, 0)
    assert np.bincount(found).max() >= 38


def test_never_more_clusters_than_allowed() -> None:
    texts = [f"word{i}" for i in range(50)]
    assert Gsdmm(most=4, random_state=0).fit(texts).n_clusters_ <= 4


def test_what_takes_texts_refuses_vectors_and_the_other_way_round() -> None:
    with refused(Unsupported, "gsdmm"):
        fit_clusterer("gsdmm", None, VectorView(np.ones((3, 2))), None, 0)
    with refused(Unsupported, "kmeans"):
        fit_clusterer("kmeans", None, TextView(["a", "b"]), 2, 0)
    with refused(Unsupported, "gsdmm"):
        fit_clusterer("gsdmm", None, DistanceView(1 - np.eye(3)), None, 0)
    with refused(TooFew):
        fit_clusterer("gsdmm", None, TextView([]), None, 0)
    assert "umap reduces vectors: use none/gsdmm" in str(parse_method("umap/gsdmm").unsupported())
    assert parse_method("none/gsdmm").unsupported() is None
