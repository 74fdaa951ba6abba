"""Correlation of a model's similarities with gold scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import paired_cosine_distances, paired_euclidean_distances

from tests import giccs_like
from tests.errors import refused
from traube import evaluate_pairs
from traube._core.errors import Missing, Unknown, Unsupported
from traube._pipeline.pair_scores import compare_pairs, score_pairs
from traube._pipeline.workbench import Workbench
from traube.metrics.correlation import FEWEST
from traube.models import load_model
from traube.tasks import load_pairs
from traube.tasks.scored_pairs import PairCard, join_histories, locate_texts, make_pairs, select_pairs
from traube.tasks.task import Task


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The hand-written sample."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path / "raw"))
    giccs_like.write(tmp_path / "raw")
    return load_pairs("giccs")


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    return Workbench.at(tmp_path / "home")


def test_similarities_are_those_that_scikit_learn_computes(sample: Task, workbench: Workbench) -> None:
    first, second = locate_texts(sample)
    vectors = TfidfVectorizer(dtype=np.float32).fit_transform(sample.texts).toarray()
    model = load_model("tfidf")
    cosine = compare_pairs(sample, model, workbench, "cosine")
    np.testing.assert_allclose(cosine, 1 - paired_cosine_distances(vectors[first], vectors[second]), atol=1e-6)
    euclidean = compare_pairs(sample, model, workbench, "euclidean")
    np.testing.assert_allclose(euclidean, -paired_euclidean_distances(vectors[first], vectors[second]), atol=1e-5)
    np.testing.assert_allclose(compare_pairs(sample, model, workbench, "dot"), cosine, atol=1e-6)  # rows of length 1


def test_all_pairs_and_each_group_are_scored_with_intervals_over_dialogues(sample: Task, workbench: Workbench) -> None:
    table = evaluate_pairs(sample, load_model("tfidf"))
    assert table[["group", "value"]].to_numpy().tolist() == [
        ["all", ""],
        *(["domain", f"find_{d}"] for d in ("cinema", "hotel", "navigation", "restaurant")),
        ["n_turns", "3"],
        ["n_turns", "5"],
    ]  # there is one source, so it is no group
    whole = table.iloc[0]
    assert (whole["pairs"], whole["dialogues"]) == (40, 8)
    alike = compare_pairs(sample, load_model("tfidf"), workbench, "cosine")
    assert whole["pearson"] == pytest.approx(stats.pearsonr(alike, sample.rows["score"]).statistic)
    assert whole["spearman"] == pytest.approx(stats.spearmanr(alike, sample.rows["score"]).statistic)
    assert whole["pearson_low"] < whole["pearson"] < whole["pearson_high"]
    three = table[table["value"] == "3"].iloc[0]
    of_three = (sample.rows["n_turns"] == "3").to_numpy()
    assert three["spearman"] == pytest.approx(
        stats.spearmanr(alike[of_three], sample.rows["score"][of_three]).statistic
    )


def test_a_history_makes_other_texts_and_other_scores(sample: Task, workbench: Workbench) -> None:
    model = load_model("tfidf")
    alone, joined = (evaluate_pairs(sample, model, history=history) for history in (False, True))
    assert alone["pearson"][0] != joined["pearson"][0]
    alike = [compare_pairs(task, model, workbench, "cosine").mean() for task in (sample, join_histories(sample))]
    assert alike[0] < alike[1]  # what is joined to both sides makes them more alike


def test_what_knows_the_gold_scores_is_perfect_and_upside_down_it_is_always_wrong(sample: Task) -> None:
    gold = sample.rows["score"].to_numpy()
    for factor, expected in ((1, 1), (-1, -1)):
        table = score_pairs(sample, factor * gold + 3)
        for kind in ("pearson", "spearman"):
            np.testing.assert_allclose(table[kind], expected)
            np.testing.assert_allclose(table.loc[0, [f"{kind}_low", f"{kind}_high"]].to_numpy(float), expected)
            # within a domain there are two dialogues, too few for an interval
            assert table.loc[table["dialogues"] < FEWEST, [f"{kind}_low", f"{kind}_high"]].isna().all(axis=None)


def test_a_model_that_compares_texts_itself_does_so_pair_by_pair(sample: Task, workbench: Workbench) -> None:
    model = load_model("jaccard")
    alike = compare_pairs(sample, model, workbench, "own")
    first, second = locate_texts(sample)
    words = [set(text.split()) for text in sample.texts]
    by_hand = [len(words[a] & words[b]) / len(words[a] | words[b]) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(alike, by_hand, atol=1e-6)
    assert evaluate_pairs(sample, model)["pearson"][0] > 0


def test_comparisons_that_make_no_sense_are_refused(sample: Task) -> None:
    with refused(Unsupported, "jaccard", "own"):
        evaluate_pairs(sample, load_model("jaccard"), comparison="cosine")
    with refused(Unsupported, "tfidf", "own", "cosine"):
        evaluate_pairs(sample, load_model("tfidf"), comparison="own")
    with refused(Unsupported, "minilm_query_space"):
        evaluate_pairs(sample, load_model("minilm_query_space"))
    with refused(Unknown, "cosine"):
        evaluate_pairs(sample, load_model("tfidf"), comparison="cosin")  # type: ignore[arg-type]
    plain = make_pairs(PairCard(name="plain"), pd.DataFrame({"text_a": ["a b"], "text_b": ["b c"], "score": [1.0]}))
    with refused(Missing, "plain"):
        evaluate_pairs(plain, load_model("tfidf"), history=True)


def test_only_a_parts_pairs_are_scored_and_a_text_without_words_is_like_nothing(workbench: Workbench) -> None:
    records = pd.DataFrame(
        {
            "text_a": ["salt soup", "red star", "salt soup"],
            "text_b": ["soup salt", "- -", "oven"],
            "score": [1, 0, 0.5],
            "part": ["test", "test", "train"],
        }
    )
    task = make_pairs(PairCard(name="parts"), records)
    alike = compare_pairs(select_pairs(task, "test"), load_model("bow"), workbench, "cosine")
    np.testing.assert_allclose(alike, [1, 0], atol=1e-7)


def test_what_was_compared_in_a_folder_is_not_compared_again_and_without_one_nothing_is_kept(
    sample: Task, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model("tfidf")
    first = evaluate_pairs(sample, model, folder=tmp_path / "kept")
    pd.testing.assert_frame_equal(evaluate_pairs(sample, model), first)
    assert not any(home.iterdir())
    monkeypatch.setattr("traube._pipeline.kinds.pairs.compare_pairs", lambda *_: pytest.fail("compared again"))
    pd.testing.assert_frame_equal(evaluate_pairs(sample, model, folder=tmp_path / "kept"), first)
