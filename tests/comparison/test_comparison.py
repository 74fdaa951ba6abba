"""Comparison of models, and the choice of a champion."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.made import save_scored, store_task, with_replicates
from traube._core.errors import Missing, Unknown
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.params import Promotion, Protocol
from traube._pipeline.record import record
from traube._storage import Storage, open_storage
from traube.comparison.candidates import Candidate, candidates, find
from traube.comparison.promotion import Contest, Decision, Why, choose_sides, judge
from traube.comparison.standings import compare_on_tasks, list_common_tasks, read_standing
from traube.comparison.verdict import Undecided
from traube.components import parse_method
from traube.tasks.stored import get_manifest
from traube.tasks.task import Task, TaskCard, text_id

METRIC = "v_measure/noise_as_cluster"
PAPER = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1, 2, 3))
BOTH = PAPER.model_copy(update={"clusterers": ("kmeans", "dbstream")})
Score = Callable[..., None]
Options = dict[str, list[Candidate]]
ListOptions = Callable[[], Options]
Decide = Callable[..., list[Decision]]
Verdicts = Callable[..., dict[str, Decision]]


def task_of(name: str, splits: int, family: str = "fam") -> Task:
    """Disjoint splits of twenty texts in two classes."""
    rows = [
        {"split_set": "default", "split": f"s{s}", "level": "class", "item": i, "text_id": text_id(f"{s} {i}")}
        | {"label": str(i % 2), "query_id": None, "part": "test"}
        for s in range(splits)
        for i in range(20)
    ]
    frame = pd.DataFrame(rows)
    texts = [f"{s} {i}" for s in range(splits) for i in range(20)]
    corpus = pd.DataFrame({"text_id": [text_id(t) for t in texts], "text": texts})
    return Task(TaskCard(name=name, family=family), corpus, frame)


@pytest.fixture
def tasks() -> dict[str, Task]:
    return {"one": task_of("one", 8), "two": task_of("two", 8), "single": task_of("single", 1, "other")}


@pytest.fixture
def storage(tmp_path: Path, tasks: Mapping[str, Task]) -> Storage:
    storage = open_storage(tmp_path)
    for task in tasks.values():
        store_task(storage, task)
    return storage


@pytest.fixture
def score(storage: Storage, tasks: Mapping[str, Task]) -> Score:
    """Stores a model's V-measure, near a mean, on each split of a task; and clusters that are right that often."""

    def add(
        task: str,
        model: str,
        mean: float,
        seed: int = 1,
        spread: float = 0.01,
        texts: float = 0.0,
        draw: int = 0,
        method: str = "none/kmeans",
    ) -> None:
        manifest = get_manifest(storage, task)
        assert manifest is not None
        cell = ClusteringCell(
            *(task, tasks[task].card.family, model, model, parse_method(method), seed, "paper", "default"),
            manifest.data_version,
        )
        rng = np.random.default_rng([seed, draw, len(model), ord(model[0])])
        splits = tasks[task].splits
        values = {s: mean + spread * rng.normal() for s in splits["split"].unique()}
        scores = with_replicates(
            pd.DataFrame([{"split": s, "level": "class", "metric": METRIC, "value": v} for s, v in values.items()]),
            texts,
            seed + len(model) + ord(model[0]),
        )
        right = splits["label"].astype(int).to_numpy()
        clusters = np.where(rng.random(len(right)) < mean, right, 1 - right)
        assignments = splits[["split", "level", "item"]].assign(cluster=clusters)
        save_scored(storage, record(cell, "done"), scores, assignments)

    return add


@pytest.fixture
def list_options(storage: Storage, tasks: Mapping[str, Task]) -> ListOptions:
    """Returns the candidates of each task."""
    return lambda: {name: candidates(storage, name, "paper", PAPER, METRIC) for name in tasks}


@pytest.fixture
def decide(storage: Storage, tasks: Mapping[str, Task]) -> Decide:
    """Judges contests among candidates."""
    families = {name: task.card.family for name, task in tasks.items()}
    return lambda options, contests, **rules: judge(storage, families, options, contests, Promotion(**rules))


@pytest.fixture
def verdicts(list_options: ListOptions, decide: Decide) -> Verdicts:
    """Judges the model `new` against the champion `old`, wherever both are scored."""

    def judge_all(**rules: Any) -> dict[str, Decision]:
        found = list_options()
        new, old = ({t: c for t, cs in found.items() for c in cs if c.model == model} for model in ("new", "old"))
        contests = {task: Contest(new.get(task), old.get(task)) for task in found}
        return {decision.task: decision for decision in decide(found, contests, **rules)}

    return judge_all


def test_a_clear_gain_is_promoted_and_a_tie_is_not(score: Score, verdicts: Verdicts) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5, spread=0.002)
    score("one", "new", 0.6, spread=0.002)
    score("two", "new", 0.501, spread=0.002)
    found = verdicts()
    assert found["one"].outcome == "promote"
    assert found["two"].outcome == "keep"
    assert "p < .001" in found["one"].reason
    waiting = verdicts(approval=True)["one"]  # for a person
    assert (waiting.outcome, waiting.why) == ("hold", Why.NOT_APPROVED)
    assert waiting.verdict and waiting.verdict.better == "a"


def test_without_a_champion_the_first_becomes_it(score: Score, verdicts: Verdicts) -> None:
    score("one", "new", 0.6)
    assert verdicts()["one"].outcome == "first"


def test_a_significant_gain_below_the_minimum_is_kept_out(score: Score, verdicts: Verdicts) -> None:
    score("one", "old", 0.500, spread=0.0001)
    score("one", "new", 0.502, spread=0.0001)
    verdict = verdicts()["one"]
    assert verdict.outcome == "keep"
    assert "less than 0.5 points better" in verdict.reason
    assert verdicts(minimum_effect=0.001)["one"].outcome == "promote"


@pytest.mark.parametrize(
    ("elsewhere", "outcome", "reason"),
    [(0.3, "keep", "on two it loses"), (None, "hold", "no score on two yet")],
)
def test_a_gain_counts_once_the_familys_other_tasks_are_scored(
    score: Score, verdicts: Verdicts, elsewhere: float | None, outcome: str, reason: str
) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    if elsewhere is not None:
        score("two", "new", elsewhere)
    verdict = verdicts()["one"]
    assert verdict.outcome == outcome
    assert reason in verdict.reason


def test_a_champion_without_a_score_is_not_passed_over(score: Score, list_options: ListOptions, decide: Decide) -> None:
    score("one", "new", 0.6)
    found = list_options()
    (verdict,) = decide(found, {"one": Contest(found["one"][0], "unscored")})
    assert verdict.outcome == "hold"


def test_a_loss_that_cannot_be_ruled_out_holds_a_promotion(score: Score, verdicts: Verdicts) -> None:
    """The less the other task says, the less is allowed: no loss is proven there, and none is excluded."""
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    score("two", "new", 0.46, spread=0.1)
    verdict = verdicts()["one"]
    assert verdict.outcome == "hold"
    assert "on two a loss of more than 1 point cannot be ruled out" in verdict.reason
    assert verdict.elsewhere is not None and verdict.elsewhere[1] is not None
    assert f"{100 * verdict.elsewhere[1].at_least(0.05):+.2f}" in verdict.reason
    assert verdicts(margin=0.2)["one"].outcome == "promote"


def test_a_loss_is_proven_when_the_whole_interval_is_beyond_the_margin(score: Score, verdicts: Verdicts) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    score("two", "new", 0.4)
    decision = verdicts()["one"]
    assert decision.elsewhere is not None and decision.elsewhere[1] is not None
    least = -decision.elsewhere[1].high  # the least loss that the interval does not exclude
    assert least > 0 and decision.why is Why.WORSE_ELSEWHERE
    smaller, equal = (verdicts(margin=m)["one"] for m in (least - 1e-6, least))
    assert (smaller.why, equal.why) == (Why.WORSE_ELSEWHERE, Why.LOSS_NOT_RULED_OUT)


@pytest.mark.slow
def test_the_family_guard_stops_true_losses_and_lets_equal_models_pass(score: Score, verdicts: Verdicts) -> None:
    """A true loss of two points on the family's other task is seldom promoted, and an equal model mostly."""
    trials, promoted = 24, {-0.02: 0, 0.0: 0}
    for draw in range(trials):
        for task in ("one", "two"):
            score(task, "old", 0.5, spread=0.006, draw=draw)
        score("one", "new", 0.6, spread=0.006, draw=draw)
        for loss in promoted:
            score("two", "new", 0.5 + loss, spread=0.006, draw=draw)
            promoted[loss] += verdicts()["one"].outcome == "promote"
    assert promoted[-0.02] <= 2
    assert promoted[0.0] >= 0.7 * trials


def test_one_split_needs_two_seeds_to_decide(score: Score, verdicts: Verdicts) -> None:
    for seed in (1, 2, 3):
        score("single", "old", 0.6, seed, texts=0.005)
        score("single", "new", 0.9, seed, texts=0.005)
        verdict = verdicts()["single"]
        assert verdict.verdict is not None
        assert verdict.verdict.low < 0.3 < verdict.verdict.high
        if seed == 1:
            assert verdict.outcome == "hold"
            assert "one split and one seed" in verdict.reason
            assert verdict.verdict.undecided is Undecided.ONE_SEED and verdict.why is Why.UNDECIDED
    assert verdict.outcome == "promote"


def test_all_newcomers_that_challenge_are_one_family(score: Score, verdicts: Verdicts) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
        score(task, "new", 0.51)
    found = [decision.verdict for decision in verdicts().values()]
    assert [verdict and verdict.comparisons for verdict in found] == [2, 2]


def test_a_comparison_is_of_the_table_or_of_those_named(
    storage: Storage, score: Score, list_options: ListOptions
) -> None:
    for task in ("one", "two"):
        for model, mean in (("bow", 0.5), ("tfidf", 0.52), ("lsa", 0.51)):
            score(task, model, mean)
    (of_table, _), left_out = compare_on_tasks(storage, ["one", "two", "one"], "paper", PAPER, "tfidf", "lsa")
    assert left_out == {}
    table = read_standing(storage, list_options()["one"]).ranking
    assert of_table.verdict == table.verdict("tfidf", "lsa") and of_table.verdict.comparisons == 3
    (planned, _), _ = compare_on_tasks(storage, ["one", "two"], "paper", PAPER, "tfidf:none/kmeans", "lsa")
    assert planned.verdict.comparisons == 2
    assert planned.verdict.error == pytest.approx(of_table.verdict.error)
    ((same,), left_out) = compare_on_tasks(storage, ["one", "single"], "paper", PAPER, "lsa", "lsa")
    assert same.verdict.undecided is Undecided.SAME
    assert "'paper'" in left_out["single"]


def test_models_are_compared_on_the_tasks_that_both_have_scores_of(storage: Storage, score: Score) -> None:
    for task in ("one", "two"):
        score(task, "lsa", 0.5)
    score("one", "tfidf", 0.5)
    failed = ClusteringCell("two", "fam", "tfidf", "tfidf", parse_method("none/kmeans"), 1, "paper", "default", "v")
    storage.save_cell(record(failed, "failed", reason="out of memory"))
    assert list_common_tasks(storage, "lsa", "tfidf") == ["one"]
    assert list_common_tasks(storage, "lsa:none/kmeans", "lsa") == ["one", "two"]
    with refused(Missing, "traube run -m lsa -m bow", "lsa"):
        list_common_tasks(storage, "lsa", "bow")


def test_a_candidate_is_found_by_model_and_method(score: Score, list_options: ListOptions) -> None:
    score("one", "old", 0.5)
    options = list_options()["one"]
    assert find(options, "old") == find(options, "old:none/kmeans") == options[0]
    with refused(Unknown, "old"):
        find(options, "olf")
    with refused(Unknown, "none/kmeans"):
        find(options, "old:none/kmean")


def test_the_best_of_many_newcomers_pays_for_the_choice(
    score: Score, list_options: ListOptions, decide: Decide
) -> None:
    score("one", "old", 0.50)
    score("one", "new", 0.52)
    found = list_options()
    new, old = found["one"]
    one, many = (decide(found, {"one": Contest(new, old, n)})[0] for n in (1, 1000))
    assert (one.outcome, many.outcome) == ("promote", "keep")


def test_the_challenger_is_the_best_newcomer_by_the_champions_method(storage: Storage, score: Score) -> None:
    score("one", "old", 0.5)
    for model, mean, method in (
        ("new", 0.6, "none/kmeans"),
        ("newer", 0.7, "none/dbstream"),
        ("gone", 0.9, "none/kmeans"),
    ):
        score("one", model, mean, method=method)
    options = candidates(storage, "one", "paper", BOTH, METRIC)
    weights = {c.key: c.fingerprint for c in options if c.model != "gone"}  # which cannot be served
    held = {"model": "old", "fingerprint": "old", "method": "none/kmeans", "weights": "old"}
    back = {**held, "model": "new", "fingerprint": "new", "weights": "new"}

    def sides(held: dict[str, str] | None, *rejected: dict[str, str]) -> tuple[str, str, int]:
        found = choose_sides(options, weights, held, rejected)
        champion = found.champion.model if isinstance(found.champion, Candidate) else found.champion or ""
        return found.challenger.model if found.challenger else "", champion, found.newcomers

    assert sides(None) == ("newer", "", 3)
    assert sides(held) == ("new", "old", 1)  # not the best one, by another method
    assert sides(held, back) == ("newer", "old", 1)  # nobody else is scored by the champion's
    assert sides({**held, "fingerprint": "before", "weights": "before"}) == ("new", "unscored", 2)


def test_stale_weights_do_not_vouch_for_new_ones(
    storage: Storage, score: Score, list_options: ListOptions, decide: Decide
) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    found = list_options()
    score("two", "new", 0.9)
    stale = [
        replace(c, fingerprint="before") for c in candidates(storage, "two", "paper", PAPER, METRIC) if c.model == "new"
    ]
    new, old = found["one"]
    options = {**found, "two": [*stale, *found["two"]]}
    (verdict,) = decide(options, {"one": Contest(new, old)})
    assert verdict.outcome == "hold"
    assert "no score on two yet" in verdict.reason


def test_of_two_methods_of_one_model_the_better_one_is_named(storage: Storage, score: Score) -> None:
    """The answer once named the model, which both have."""
    score("one", "old", 0.5)
    score("one", "old", 0.7, draw=1, method="none/dbstream")
    ((found,), _) = compare_on_tasks(storage, ["one"], "paper", BOTH, "old:none/kmeans", "old:none/dbstream")
    assert found.verdict.answer == "old with none/dbstream is better (p < .001, 1 comparison)"
