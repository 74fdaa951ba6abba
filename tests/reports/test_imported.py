"""Other people's leaderboards: which of their ranks are ties."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from tests.made import store_task
from traube._reports.exchange import IMPORTED_COLUMNS
from traube._reports.imported import overlap, rankings, write_page
from traube._reports.tables import show_rank
from traube._storage import open_storage
from traube.comparison.ranking import rank_by_splits
from traube.tasks.task import Task


def results(task: str = "Tiny", **scores: list[float]) -> pd.DataFrame:
    """Imported results of models on some splits."""
    rows = [
        {
            **dict.fromkeys(IMPORTED_COLUMNS, ""),
            **{"task": task, "split": "test", "subset": "default", "model": model},
            **{"mean": float(np.mean(values or [0.3])), "sd": 0.1, "splits": values},
        }
        for model, values in scores.items()
    ]
    return pd.DataFrame(rows)


RNG = np.random.default_rng(0)
HARD = RNG.normal(0.5, 0.1, 10)  # splits differ more than models do
SCORES = {
    name: (HARD + lead + RNG.normal(0, 0.01, 10)).tolist() for name, lead in (("a", 0.2), ("b", 0.0), ("c", 0.001))
}


def test_ranks_that_the_splits_do_not_tell_apart_are_ties_and_others_are_not(tmp_path: Path) -> None:
    (ranking,) = rankings(open_storage(tmp_path), results(**SCORES, unknown=[], short=[0.9, 0.8]))
    assert {row.model: show_rank(row) for row in ranking.rows.itertuples()} == {
        **{"a": "1", "b": "2–3 (tied)", "c": "2–3 (tied)"},
        **{"unknown": "-", "short": "-"},
    }
    why = dict(zip(ranking.rows["model"], ranking.rows["why"], strict=True))
    assert why == {"a": "", "b": "", "c": "", "unknown": "no score for each split", "short": "other splits or data"}
    assert ranking.found.startswith("1 of 2 neighbors in rank are tied, and 1 model may be the best")
    assert "are not here" in ranking.basis


def test_means_alone_give_no_place(tmp_path: Path) -> None:
    (ranking,) = rankings(open_storage(tmp_path), results(a=[], b=[]))
    assert ranking.found.startswith("No result has a score for each split") and ranking.basis == ""
    assert ranking.rows["rank_low"].isna().all()


def test_splits_that_share_texts_are_allowed_for_where_the_texts_are_here(tmp_path: Path, tiny_task: Task) -> None:
    storage, card = open_storage(tmp_path), tiny_task.card.model_copy(update={"mteb": "Tiny"})
    two = results(a=[0.50, 0.60], b=[0.40, 0.51])
    assert rankings(storage, two)[0].shared is None
    store_task(storage, Task(card, tiny_task.corpus, tiny_task.splits))
    (ranking,) = rankings(storage, two)
    assert ranking.shared == pytest.approx(24 / 36)  # 24 texts are in both splits of 36
    assert "share 67 % of their texts" in ranking.basis
    (other,) = rankings(storage, results(a=[0.5, 0.6, 0.7], b=[0.4, 0.5, 0.5]))
    assert other.shared is None  # three splits are not the task's two
    assert overlap(list(tiny_task.test_splits())[::2]) == pytest.approx(24 / 36)


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(0, 0.9))
def test_the_test_is_the_paired_t_test_and_common_texts_make_it_careful(seed: int, shared: float) -> None:
    a, b = np.random.default_rng(seed).normal(size=(2, 6))
    plain = rank_by_splits(["a", "b"], np.stack([a, b])).p[0, 1]
    assert plain == pytest.approx(ttest_rel(a, b).pvalue)
    assert rank_by_splits(["a", "b"], np.stack([a, b]), shared).p[0, 1] >= plain - 1e-12


def test_equal_models_on_overlapping_splits_seldom_differ_if_the_overlap_is_known_and_often_if_not() -> None:
    rng, n, shared = np.random.default_rng(1), 10, 0.4
    false = np.zeros(2)
    for _ in range(400):
        d = np.sqrt(shared) * rng.normal() + np.sqrt(1 - shared) * rng.normal(size=n)
        pair = np.stack([d, np.zeros(n)])
        false += [rank_by_splits(["a", "b"], pair, r).p[0, 1] < 0.05 for r in (shared, 0.0)]
    assert false[0] / 400 < 0.08 and false[1] / 400 > 0.3


def test_scores_that_are_the_same_are_a_tie(tmp_path: Path) -> None:
    (ranking,) = rankings(open_storage(tmp_path), results(a=SCORES["a"], twin=SCORES["a"], b=SCORES["b"]))
    assert [show_rank(row) for row in ranking.rows.itertuples()] == ["1–2 (tied)", "1–2 (tied)", "3"]


def test_a_score_over_subsets_is_their_mean_split_by_split(tmp_path: Path) -> None:
    """The test is the one of the mean over these subsets, however much these differ."""
    german, french = results(a=[0.30, 0.32, 0.31], b=[0.2, 0.2, 0.23]), results(a=[0.8, 0.79, 0.8], b=[0.7, 0.69, 0.7])
    rows = pd.concat([german.assign(subset="de"), french.assign(subset="fr")])
    (ranking,) = rankings(open_storage(tmp_path), rows)
    assert ranking.subsets == ("de", "fr") and ranking.splits == 3
    assert dict(zip(ranking.rows["model"], ranking.rows["mean"], strict=True)) == pytest.approx(
        {"a": np.mean([0.31, 0.79666667]), "b": np.mean([0.21, 0.69666667])}
    )
    assert ranking.rows["splits"].tolist()[0] == pytest.approx([0.55, 0.555, 0.555])
    assert ranking.rows["rank_high"].tolist() == [1, 2]


def test_a_mean_over_other_subsets_has_no_rank(tmp_path: Path) -> None:
    """A model that leaves out the hardest language is not better for it."""
    every = pd.concat([results(**{m: SCORES[m] for m in "ab"}).assign(subset=name) for name in ("de", "fr", "ru")])
    partial = pd.concat([results(easy=(HARD + 0.4).tolist()).assign(subset=name) for name in ("de", "fr")])
    uneven = pd.concat(
        [results(uneven=SCORES["c"][:n]).assign(subset=name) for name, n in (("de", 10), ("fr", 9), ("ru", 9))]
    )
    (ranking,) = rankings(open_storage(tmp_path), pd.concat([every, partial, uneven]))
    assert dict(zip(ranking.rows["model"], ranking.rows["why"], strict=True)) == {
        **{"a": "", "b": "", "easy": "other subsets", "uneven": "no score for each split"}
    }
    assert ranking.rows["model"].iloc[-1] == "easy"


def test_revisions_are_entries_that_are_named_so_and_a_copy_is_none(tmp_path: Path) -> None:
    one, two = results(a=SCORES["a"], b=SCORES["b"]), results(a=SCORES["c"])
    rows = pd.concat([one.assign(revision="r1", source="x"), two.assign(revision="external", source="x")])
    copy, other = one.assign(revision="r1", source="y"), results(b=SCORES["c"]).assign(revision="r1", source="y")
    assert names_of(tmp_path, rows) == ["a (external)", "a (r1)", "b"]
    assert names_of(tmp_path, pd.concat([rows, copy])) == ["a (external)", "a (r1)", "b"]
    assert names_of(tmp_path, pd.concat([one.assign(revision="r1", source="x"), other])) == [
        "a",
        "b (r1, x)",
        "b (r1, y)",
    ]


def test_splits_are_ranked_apart(tmp_path: Path) -> None:
    rows = [results(**SCORES).assign(split=split) for split in ("test", "headlines")]
    found = rankings(open_storage(tmp_path), pd.concat(rows))
    assert [ranking.title for ranking in found] == ["Tiny, headlines", "Tiny"]
    assert all(len(ranking.rows) == 3 for ranking in found)


def names_of(home: Path, rows: pd.DataFrame) -> list[str]:
    (ranking,) = rankings(open_storage(home), rows)
    return sorted(ranking.rows["model"])


def test_the_page_holds_what_people_wrote_as_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    table = results(task=evil, **SCORES).assign(mteb_version=evil)
    html = write_page(rankings(open_storage(tmp_path), table), tmp_path).read_text()
    assert evil not in html and "1 of 2 neighbors" in html
