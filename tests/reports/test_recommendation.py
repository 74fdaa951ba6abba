"""The best model in a sentence: certain if the difference is significant, and undecided if not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.made import save_scored, store_task, with_replicates
from traube._core.errors import Missing, Unknown
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import record
from traube._reports.recommendation import Recommendation, recommend
from traube._storage import Storage
from traube.models import load_model
from traube.tasks.task import Task, TaskCard, index_texts, make_split

METRIC = "v_measure/noise_as_cluster"
SEEDS = (1, 2, 3)


@pytest.fixture
def task(storage: Storage, topics: pd.DataFrame) -> Task:
    corpus, records = index_texts(topics)
    task = Task(TaskCard(name="mine"), corpus, make_split(records, "all", "topic", label="topic")).validate()
    store_task(storage, task)
    return task


def scored(
    storage: Storage, task: Task, scores: dict[str, float], noise: float, seeds: tuple[int, ...] = SEEDS
) -> Recommendation:
    """Recommend among models with these scores, which vary by `noise` from seed to seed and with the texts."""
    protocol = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=seeds)
    rng = np.random.default_rng(0)
    for model, score in scores.items():
        for cell in cells(task, load_model(model), protocol, protocol_name="own"):
            value = score + noise * rng.normal()
            table = pd.DataFrame({"split": ["all"], "level": ["topic"], "metric": METRIC, "value": value})
            scores = with_replicates(table, spread=noise / 10, seed=int(rng.integers(10**6)))
            save_scored(storage, record(cell, "done"), scores)
    return recommend(storage, "mine", "own", protocol)


def test_a_clear_lead_is_said_to_be_one(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"bow": 0.4, "tfidf": 0.7, "lsa": 0.5}, noise=0.005)
    assert found.answer.startswith("tfidf with none/kmeans clusters mine best: v-measure 7")
    assert "ahead of lsa with none/kmeans by +" in found.answer and found.answer.endswith("3 comparisons.")
    assert found.ties == [] and found.advice == ""
    assert found.command == "traube cluster FILE --model tfidf --method none/kmeans"


def test_of_a_tie_the_texts_that_would_decide_it_are_counted(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"bow": 0.1, "tfidf": 0.505, "lsa": 0.5}, noise=0.01)
    assert "comes first on mine" in found.answer and "is not significantly different from lsa (p = ." in found.answer
    assert len(found.details) == 2 and "ahead of lsa with none/kmeans by " in found.details[0]
    lead = next(rival.verdict for rival in found.rivals if rival.candidate.model == "lsa")
    needed = int(found.advice.split("some ")[1].split(" ")[0].replace(",", ""))
    assert needed > found.texts == 48
    assert needed == pytest.approx(48 * (2.8 * lead.error / lead.difference) ** 2, abs=100)


def test_what_is_as_good_and_cheaper_is_named_with_its_seconds_or_money(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"bow": 0.1, "tfidf": 0.502, "lsa": 0.5}, noise=0.004)
    assert found.bargain == ""  # nothing was measured
    costs = {"tfidf with none/kmeans": 24.2, "lsa with none/kmeans": 2.0, "bow with none/kmeans": 0.1}
    assert replace(found, seconds=costs).bargain == (
        "lsa with none/kmeans is tied with it and 12 times cheaper: 2 s for 1,000 texts, not 24 s."
    )  # bow is cheaper still, but worse
    assert replace(found, seconds={**costs, "lsa with none/kmeans": 20.0}).bargain == ""
    costs = {"tfidf with none/kmeans": 2.0, "lsa with none/kmeans": 24.2, "bow with none/kmeans": 0.1}
    paid = replace(found, seconds=costs, money={"tfidf with none/kmeans": 0.0124})
    assert paid.bargain == "lsa with none/kmeans is tied with it and costs no money for 1,000 texts, not $0.012."
    alone = replace(paid, rivals=())
    assert alone.bargain == "" and "tfidf costs $0.012 for 1,000 texts." in alone.text
    assert "costs" not in replace(paid, money={"lsa with none/kmeans": 0.1}).bargain


def test_a_lead_of_nothing_is_none_in_practice(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"tfidf": 0.5, "lsa": 0.5}, noise=0.001)
    assert found.ties
    assert found.advice == "lsa and tfidf are tied: take the one that costs least."


def test_a_lead_that_is_open_is_no_tie_to_save_on(storage: Storage, task: Task) -> None:
    """A model is not "as good" only because scores vary too much to show a difference."""
    found = scored(storage, task, {"tfidf": 0.5, "lsa": 0.501, "bow": 0.42}, noise=0.05)
    leads = {rival.candidate.model: rival.verdict.difference for rival in found.ties}
    dearer = {rival.candidate.name: 1.0 for rival in found.rivals} | {found.winner.name: 20.0}
    for model, lead in leads.items():
        said = replace(found, seconds={**dearer, f"{model} with none/kmeans": 0.5}).bargain
        assert said.startswith(model) == (lead < 0.01)
    assert any(lead > 0.01 for lead in leads.values())
    assert len(leads) == 2 and "(p ≥ ." in found.answer  # of both


def test_one_seed_decides_nothing(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"tfidf": 0.9, "lsa": 0.1}, noise=0.005, seeds=(1,))
    assert "by the texts alone" in found.answer and "one seed" in found.answer
    assert "Three seeds would decide" in found.advice


def test_a_model_alone_is_best_of_itself(storage: Storage, task: Task) -> None:
    found = scored(storage, task, {"tfidf": 0.9}, noise=0.005)
    assert "no other model is scored" in found.answer and "traube models" in found.advice
    # as on the leaderboard: no further than the metric's scale
    assert "(95 % CI 40.0 to 100.0)" in replace(found, low=0.4, high=1.1).answer
    assert "(95 % CI 0.0 to 60.0)" in replace(found, low=-0.1, high=0.6).answer
    assert "(95 % CI 40.0 to 60.0)" in replace(found, low=0.4, high=0.6).answer


def test_what_is_not_scored_is_said(storage: Storage, task: Task) -> None:
    with refused(Missing, "traube run -t mine -p own"):
        recommend(storage, "mine", "own", Protocol(reducers=("none",), clusterers=("kmeans",)))
    with refused(Unknown, "mien"):
        recommend(storage, "mien", "own", Protocol(reducers=("none",), clusterers=("kmeans",)))
