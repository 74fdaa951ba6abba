"""One's own texts: grouped, and each group described by its words and typical texts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from tests.errors import Refusal, refused
from traube._core.errors import Invalid, TooFew, Unknown, Unsupported
from traube._grouping import terms
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.describe import find_keywords, find_typical, measure_npmi
from traube._grouping.terms import TermReader
from traube._storage import ArtifactRow, open_storage
from traube.components import DistanceView, TextView, VectorView, parse_method
from traube.models import load_model
from traube.tasks.languages import detect_languages

KMEANS = parse_method("none/kmeans")
TEXTS = ["the dough and the crust", "dough crust loaf", "a keeper, a goal", "goal! goal! penalty", "the of and"]
CLUSTERS = np.array([0, 0, 1, 1, -1])


@pytest.fixture(scope="session")
def blobs() -> tuple[list[str], list[int]]:
    """60 texts about four things, 15 each."""
    about = [
        "dough yeast crust loaf",
        "goal keeper penalty match",
        "orbit mars moon crater",
        "violin opera chord sonata",
    ]
    rng = np.random.default_rng(0)
    texts = [" ".join([*rng.permutation(words.split()), f"n{i}"]) for i in range(15) for words in about]
    return texts, [topic for _ in range(15) for topic in range(4)]


# what a cluster is about


def test_keywords_are_the_words_of_a_cluster_that_others_lack() -> None:
    found = find_keywords(TEXTS, CLUSTERS, count=2)
    assert found == {0: ["crust", "dough"], 1: ["goal", "keeper"]}


def test_two_words_that_go_together_are_one_term_and_forms_of_a_word_are_one() -> None:
    learning = ["machine learning of a dog", "machine learning: dogs", "machine learning and a dog", "the learned dog"]
    clusters = np.array([0] * 4 + [1] * 3)
    found = find_keywords([*learning, "soups and bread", "bread with soup", "a soup"], clusters)
    assert found == {0: ["dog", "machine learning"], 1: ["soup", "bread"]}


def test_words_that_stand_in_the_same_texts_come_before_those_that_never_do() -> None:
    """Of words that are about as frequent, those of the first word's texts are taken."""
    texts = ["bread. flour. yeast"] * 6 + ["bread. flour"] * 2 + ["ship. captain"] * 7
    assert find_keywords(texts, np.zeros(15, dtype=int), count=3) == {0: ["bread", "flour", "yeast"]}
    alone = [*["bread"] * 8, *["flour"] * 5, *["ship"] * 6]  # where no two stand together, frequency decides
    assert find_keywords(alone, np.zeros(19, dtype=int), count=3) == {0: ["bread", "ship", "flour"]}


@given(arrays(np.int8, (12, 4), elements=st.integers(0, 1)).filter(lambda held: held.any(axis=0).all()))
def test_npmi_is_that_of_the_shares_of_texts(held: np.ndarray) -> None:
    found = measure_npmi(sparse.csc_matrix(held, dtype=np.float64))
    assert np.allclose(found, found.T) and (np.abs(found) <= 1 + 1e-9).all()
    for i, j in ((0, 1), (2, 2)):
        a, b, both = held[:, i].mean(), held[:, j].mean(), (held[:, i] * held[:, j]).mean()
        expected = 2 * both - 1 if both in (0, 1) else np.log(both / (a * b)) / -np.log(both)
        assert found[i, j] == pytest.approx(expected)


GERMAN = [
    "Die Regierung hat am Montag beschlossen, dass die Steuern in diesem Jahr nicht steigen werden",
    "Der Minister der Regierungen will die Steuern senken, aber das wird in diesem Jahr nicht mehr gehen",
    "Das Spiel der Mannschaft war sehr gut, und sie hat am Ende mit zwei Toren gewonnen",
    "Die Mannschaft hat das letzte Spiel verloren, weil der Torwart nicht gut war",
]
FRENCH = [
    "Le gouvernement a dit lundi que les impôts ne vont pas augmenter cette année dans le pays",
    "Le ministre veut que le gouvernement baisse les impôts, mais ce ne sera pas pour cette année",
    "Le match de cette équipe était très bon, et elle a gagné avec deux buts à la fin",
    "L'équipe a perdu le dernier match parce que le gardien n'était pas bon",
]


@pytest.mark.parametrize(
    ("texts", "language", "expected"),
    [
        (GERMAN, "de", [{"Regierung", "Steuern"}, {"Mannschaft", "Spiel"}]),
        (FRENCH, "fr", [{"gouvernement", "impôts"}, {"équipe", "match"}]),
    ],
)
def test_names_have_no_stop_words_of_the_language(texts: list[str], language: str, expected: list[set[str]]) -> None:
    assert detect_languages(texts) == [language]
    found = find_keywords(texts, np.array([0, 0, 1, 1]), count=3)
    assert all(own <= set(words) for own, words in zip(expected, found.values(), strict=True))


def test_texts_of_two_languages_have_the_stop_words_of_both() -> None:
    assert set(detect_languages([*GERMAN * 3, *FRENCH * 3])) == {"de", "fr"}
    assert detect_languages(["a b", "🙂 🙂"]) == []  # too few letters to tell


def test_terms_that_were_read_once_name_all_clusters_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are many clusterings of one list of texts, and reading takes almost all of the time."""
    reads: list[int] = []
    read = terms.find_terms
    monkeypatch.setattr(terms, "find_terms", lambda texts: reads.append(len(texts)) or read(texts))
    reader, coarse, fine = TermReader(GERMAN), np.array([0, 0, 1, 1]), np.arange(4)
    assert [find_keywords(reader, coarse), find_keywords(reader, fine)] == [
        find_keywords(GERMAN, coarse),
        find_keywords(GERMAN, fine),
    ]
    assert reads == [4, 4, 4]  # once by the reader
    assert find_keywords(reader, np.array([0, 0, 1, -1])) == find_keywords(GERMAN, np.array([0, 0, 1, -1]))


@pytest.mark.parametrize(
    ("texts", "clusters", "expected"),
    [
        # a word that most clusters share
        (["shared apple", "shared apple", "shared pear", "shared pear"], [0, 0, 1, 1], {0: ["apple"], 1: ["pear"]}),
        # one long text
        (
            ["the telescope of an astronomer"] * 5 + ["zebra " * 50] + ["soup with bread"] * 6,
            [0] * 6 + [1] * 6,
            {0: ["astronomer", "telescope"], 1: ["bread", "soup"]},
        ),
        (["dough", "goal"], [-1, -1], {}),  # all noise
        (["the", "of"], [0, 1], {0: [], 1: []}),  # no words but stop words
        (["...", "123"], [0, 0], {0: []}),
        (["dough", "the"], [0, 1], {0: ["dough"], 1: []}),
    ],
)
def test_some_words_are_nobodys_keywords(texts: list[str], clusters: list[int], expected: dict) -> None:
    assert find_keywords(texts, np.array(clusters)) == expected


def test_distances_are_to_the_mean_of_the_cluster_or_to_the_others_in_it_and_noise_has_none() -> None:
    vectors = np.array([[0, 0], [6, 8], [1, 1], [9, 9]], dtype=np.float32)
    found = VectorView(vectors).to_own_cluster(np.array([0, 0, 1, -1]))
    assert found[:3].tolist() == [5, 5, 0] and np.isnan(found[3])
    pairs = np.array([[0, 2, 4, 9, 9], [2, 0, 6, 9, 9], [4, 6, 0, 9, 9], [9, 9, 9, 0, 9], [9, 9, 9, 9, 0]])
    found = DistanceView(pairs).to_own_cluster(np.array([0, 0, 0, 1, -1]))
    assert found[:4].tolist() == [3, 4, 5, 0] and np.isnan(found[4])


def test_typical_texts_are_the_nearest_to_the_mean() -> None:
    clusters, distance = np.array([0, 0, 0, 1, -1]), np.array([0.3, 0.1, 0.2, 0.5, np.nan])
    assert find_typical(clusters, distance, TextView("abcde"), count=2) == {0: [1, 2], 1: [3]}


def test_typical_texts_differ_from_each_other_and_none_stands_for_its_copies() -> None:
    """Ten texts near the middle say the same; two that are further off say something else."""
    vectors = np.zeros((12, 3))
    vectors[:10] = np.array([0.1, 0, 0]) + np.random.default_rng(0).normal(0, 0.001, (10, 3))
    vectors[10:] = [[0, 0.4, 0], [0, 0, 0.5]]
    clusters = np.zeros(12, dtype=np.int64)
    view = VectorView(vectors)
    (found,) = find_typical(clusters, view.to_own_cluster(clusters), view).values()
    assert found[0] < 10 and found[1:] == [10, 11]
    same = VectorView(np.ones((4, 2)))  # of texts that are all one, there is one
    assert find_typical(clusters[:4], same.to_own_cluster(clusters[:4]), same) == {0: [0]}
    pairs = np.array([[0, 0.01, 0.5, 0.5], [0.01, 0, 0.5, 0.5], [0.5, 0.5, 0, 0.5], [0.5, 0.5, 0.5, 0]])
    clusters = np.zeros(4, dtype=np.int64)
    view = DistanceView(pairs)
    assert find_typical(clusters, view.to_own_cluster(clusters), view) == {0: [0, 2, 3]}


# grouping


def test_the_number_of_clusters_is_found_where_it_is_clear(blobs: tuple[list[str], list[int]]) -> None:
    texts, gold = blobs
    found = cluster_texts(texts, model="bow", algorithm=KMEANS)
    assert adjusted_rand_score(gold, found.labels) == 1
    assert found.k_table is not None
    assert found.k_table.loc[found.k_table["silhouette"].idxmax(), "k"] == 4
    words = {frozenset(found.words[c][:4]) for c in range(4)}
    assert frozenset({"dough", "yeast", "crust", "loaf"}) in words and len(words) == 4
    for cluster, positions in found.typical.items():
        members = np.flatnonzero(found.labels == cluster)
        assert found.distances[positions].max() <= np.sort(found.distances[members])[2]


def test_a_method_of_words_may_find_the_number_by_itself(blobs: tuple[list[str], list[int]]) -> None:
    groups = cluster_texts(blobs[0], model="tfidf", algorithm="none/gsdmm")
    assert adjusted_rand_score(blobs[1], groups.labels) > 0.9
    assert np.isfinite(groups.distances).all()


@pytest.mark.slow
def test_how_far_to_believe_groups_is_said(blobs: tuple[list[str], list[int]]) -> None:
    """Of texts with groups, and of the same words without any."""
    texts, gold = blobs
    clear = cluster_texts(texts, model="tfidf")
    assert adjusted_rand_score(gold, clear.labels) == 1  # four of fifteen are four, not six
    assert 4 in clear.about_as_good and np.isfinite(clear.distances).all()
    assert (clear.clearness, set(clear.stability)) == ("clear groups", set(clear.labels.tolist()))
    assert np.nanmedian(list(clear.stability.values())) > 0.8
    rng = np.random.default_rng(0)
    words = " ".join(texts).split()
    mixed = cluster_texts([" ".join(rng.choice(words, 6)) for _ in range(120)], model="tfidf")
    assert mixed.clearness != "clear groups" and mixed.score < clear.score / 2
    given = cluster_texts(texts, model="tfidf", n_clusters=3)  # requested, so there is nothing to doubt
    assert (given.clearness, len(given.stability)) == ("", 3)
    assert cluster_texts(texts[:5], model="tfidf").clearness == "no clear groups"  # too few to tell


def test_blank_texts_are_in_no_group_and_change_nothing(blobs: tuple[list[str], list[int]]) -> None:
    texts = blobs[0]
    clear = cluster_texts(texts, model="tfidf", n_clusters=4)
    mixed = cluster_texts(["", *texts[:30], " \n", *texts[30:]], model="tfidf", n_clusters=4)
    assert (mixed.labels[0], mixed.labels[31], mixed.blank, mixed.noise) == (-1, -1, 2, 0)
    assert np.isnan(mixed.distances[[0, 31]]).all()
    assert np.array_equal(np.delete(mixed.labels, [0, 31]), clear.labels)
    assert mixed.words == clear.words and mixed.sizes() == clear.sizes()
    assert all(mixed.labels[i] == c for c, rows in mixed.typical.items() for i in rows)
    assert clear.blank == 0


def test_the_same_texts_are_grouped_alike_and_encoded_once(blobs: tuple[list[str], list[int]], home: Path) -> None:
    first = cluster_texts(blobs[0], model="lsa", algorithm=KMEANS, n_clusters=3)
    (matrix,) = open_storage(home).read_rows(ArtifactRow, kind="matrix")
    assert len(set(first.labels)) == 3 and first.k_table is None  # the number was given
    second = cluster_texts(blobs[0], model="lsa", algorithm=KMEANS, n_clusters=3)
    assert np.array_equal(first.labels, second.labels)
    assert open_storage(home).read_rows(ArtifactRow, kind="matrix") == [matrix]


@pytest.mark.parametrize(
    ("texts", "k", "refusal"),
    [
        (["a cat", "a dog"] * 9, 3, (TooFew, 3, 2)),
        (["a cat", "a dog"], 0, (TooFew, 0, 2)),
        (["a cat", "a dog"], None, (TooFew, 2)),
        (["a cat"] * 9, None, (TooFew, 1)),
        ([], None, (TooFew,)),
        (["", " "], None, (TooFew,)),
        (["a cat", ""], 2, (TooFew, 2, 1)),
        (["...", "!!!"], 2, (TooFew, "bow")),
    ],
)
def test_what_cannot_be_grouped_is_one_clear_error(texts: list[str], k: int | None, refusal: Refusal) -> None:
    with refused(*refusal):
        cluster_texts(texts, model="bow", algorithm=KMEANS, n_clusters=k)


def test_a_method_that_makes_no_sense_is_refused_before_any_work(home: Path) -> None:
    with refused(Unsupported, "none/hdbscan"):
        cluster_texts(["a cat", "a dog"], model="bow", algorithm=parse_method("none/hdbscan"))
    assert not any(home.iterdir())


# grouping for a query

FOUND = [
    f"{topic} {topic} {topic} {rest}" for topic in ("cat", "star", "soup") for rest in ("the", "a", "the a", "a a")
]
TOPICS = [topic for topic in range(3) for _ in range(4)]
Drop = Callable[..., str]


@pytest.fixture
def drop(drop_similarity: Callable[..., Path]) -> Drop:
    """Puts a trained similarity into checkpoints/; its name."""
    return lambda **settings: drop_similarity(**settings).name


def test_what_was_found_for_a_query_is_grouped_in_three_lines(drop: Drop) -> None:
    drop()
    groups = cluster_texts(FOUND, model="mine", query="query")
    assert adjusted_rand_score(TOPICS, groups.labels) == 1
    assert {words[0] for words in groups.words.values()} == {"cat", "star", "soup"}
    assert groups.k_table is not None and groups.k_table.loc[groups.k_table["correlation"].idxmax(), "k"] == 3


def test_distances_are_those_of_the_similarity_for_that_query(drop: Drop) -> None:
    model = load_model(drop())
    assert model.similarity is not None
    pairs = model.similarity.distances(model.encode(FOUND), model.encode(["query"])[0])
    groups = cluster_texts(FOUND, model="mine", query="query", n_clusters=3)
    assert groups.distances == pytest.approx(DistanceView(pairs).to_own_cluster(groups.labels), abs=1e-4)
    assert not np.allclose(groups.distances, cluster_texts(FOUND, model="mine", query="a dog", n_clusters=3).distances)


@pytest.mark.parametrize("settings", [{"query": "passages"}, {"network": "qs3m", "query": "none"}], ids=str)
def test_a_similarity_that_needs_no_query_groups_without(drop: Drop, settings: dict[str, str]) -> None:
    assert len(set(cluster_texts(FOUND, model=drop(**settings), n_clusters=3).labels)) == 3


def test_hdbscan_groups_by_distance_and_needs_no_number(drop: Drop) -> None:
    method = parse_method("none/hdbscan", {"hdbscan": {"min_cluster_size": 3}})
    groups = cluster_texts(FOUND, model=drop(), query="query", algorithm=method)
    assert groups.k_table is None and len(groups.labels) == 12


@pytest.mark.parametrize("n", [2, 3])
def test_few_passages_are_grouped_if_it_is_said_into_how_many(drop: Drop, n: int) -> None:
    groups = cluster_texts(FOUND[3 : 3 + n], model=drop(), query="query", n_clusters=2)
    assert len(set(groups.labels)) == 2 and np.isfinite(groups.distances).all()


@pytest.mark.parametrize(
    ("settings", "arguments", "refusal"),
    [
        ({}, {}, (Invalid, "mine", "--query")),
        ({}, {"query": "  "}, (Invalid,)),
        ({"network": "qs3m", "query": "none"}, {"query": "a cat"}, (Invalid, "mine", "minilm_query_space")),
        ({"query": "passages"}, {"query": "a cat"}, (Invalid, "mine", "minilm_query_space")),
        ({}, {"query": "a cat", "model": "bow"}, (Invalid, "bow", "minilm_query_space")),
        (
            {},
            {"query": "a cat", "algorithm": "none/kmeans"},
            (Unsupported, "none/kmeans", "none/agglomerative_average"),
        ),
        (
            {},
            {"query": "a cat", "algorithm": "pca/agglomerative_average"},
            (Unsupported, "pca/agglomerative_average", "none/agglomerative_average"),
        ),
        ({}, {"query": "a cat", "algorithm": ""}, (Unknown,)),
        ({}, {"query": "a cat", "texts": ["a cat", "a dog"]}, (TooFew, 2)),
        ({}, {"query": "a cat", "texts": ["a cat"] * 9}, (TooFew,)),
    ],
)
def test_what_a_query_cannot_group_is_one_clear_error(
    drop: Drop, settings: dict[str, str], arguments: dict[str, object], refusal: Refusal
) -> None:
    with refused(*refusal):
        cluster_texts(**{"texts": FOUND, "model": drop(**settings), **arguments})  # type: ignore[arg-type]


# texts that occur more than once


def test_equal_texts_count_once_and_share_a_group(home: Path, blobs: tuple[list[str], list[int]]) -> None:
    texts, _ = blobs
    often = [*texts, *texts[:19] * 30]
    once, found = cluster_texts(texts, model="tfidf"), cluster_texts(often, model="tfidf")
    assert found.labels[: len(texts)].tolist() == once.labels.tolist()
    assert np.array_equal(found.distances[: len(texts)], once.distances)
    assert len({(text, int(label)) for text, label in zip(often, found.labels, strict=True)}) == len(texts)
    assert sum(found.sizes().values()) == len(often) and found.words == once.words
    assert all(len({often[i] for i in rows}) == len(rows) for rows in found.typical.values())


def test_there_are_no_more_groups_than_distinct_texts(home: Path) -> None:
    texts = ["a goal of the match", "the moon in orbit", "bread of dough"] * 50
    found = cluster_texts(texts, model="tfidf")
    assert len(found.sizes()) <= 3
    assert not any(np.isnan(value) for value in found.stability.values())
    assert len(cluster_texts(texts, model="tfidf", n_clusters=3).sizes()) == 3


def test_key_words_are_words_as_people_write_them() -> None:
    written = [
        "parcel late\\ncourier rude\\n\\nthanks",
        "see https://shop.example/parcel?id=1&nbsp;&quot;parcel&quot;",
        "@parcel_service where is my parcel, mail me@shop.example",
        "فــي المديـنة",
    ]
    shown = {str(term) for term in terms.find_terms(written).shown}
    assert shown == {"parcel", "late", "parcel late", "courier", "rude", "courier rude", "mail", "المدينة"}


def test_a_group_in_which_no_word_repeats_has_a_name_all_the_same() -> None:
    words = ["apple", "pear", "plum", "cherry", "quince", "fig", "crew", "ship", "mast", "sail", "hull", "oar"]
    found = find_keywords(words, np.repeat([0, 1], 6))
    assert found[0] and found[1] and set(found[0]) <= set(words[:6])
    repeated = find_keywords(
        ["apple tart", "apple cake", "apple pie", "apple jam", "apple juice"], np.zeros(5, dtype=np.int64)
    )
    assert repeated[0] == ["apple"]
