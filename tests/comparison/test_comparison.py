"""Who is better, and who becomes champion."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.made import with_replicates
from traube.benchmark.params import Promotion, Protocol
from traube.benchmark.plan import Cell
from traube.benchmark.record import record
from traube.foundation.errors import TraubeError
from traube.methods import parse_method
from traube.comparison.jackknife import Test
from traube.comparison.candidates import Candidate, Comparison, Verdict, candidates, compare, corrected, find, judge
from traube.store import Store
from traube.tasks.task import Task, TaskCard, text_id

METRIC = "v_measure/noise_as_cluster"
PAPER = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1, 2, 3))
Score = Callable[..., None]


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
def store(tmp_path: Path, tasks: Mapping[str, Task]) -> Store:
    store = Store(tmp_path / "store")
    for task in tasks.values():
        store.save_corpus(task.name, task.corpus, task.corpus[["text_id"]], "raw")
        store.complete(task.card, store.save_splits(task.card, task.splits))
    return store


@pytest.fixture
def score(store: Store, tasks: Mapping[str, Task]) -> Score:
    """Stores a model's V-measure, near a mean, on each split of a task; and clusters that are right that often."""

    def add(
        task: str, model: str, mean: float, seed: int = 1, spread: float = 0.01, texts: float = 0.0, draw: int = 0
    ) -> None:
        manifest = store.manifest(task)
        assert manifest is not None
        cell = Cell(
            *(task, tasks[task].card.family, model, model, parse_method("none/kmeans"), seed, "paper", "default"),
            manifest.data_version,
        )
        rng = np.random.default_rng([seed, draw, len(model), ord(model[0])])
        splits = tasks[task].splits
        values = {s: mean + spread * rng.normal() for s in splits["split"].unique()}
        store.save_scores(
            task,
            cell.cell_id,
            with_replicates(
                pd.DataFrame([{"split": s, "level": "class", "metric": METRIC, "value": v} for s, v in values.items()]),
                texts,
                seed + len(model) + ord(model[0]),
            ),
        )
        right = splits["label"].astype(int).to_numpy()
        clusters = np.where(rng.random(len(right)) < mean, right, 1 - right)
        store.save_assignments(task, cell.cell_id, splits[["split", "level", "item"]].assign(cluster=clusters), 0.0)
        store.save_cell(record(cell, "done"))

    return add


def found_in(store: Store, tasks: Mapping[str, Task]) -> dict[str, list[Candidate]]:
    return {name: candidates(store, name, "paper", PAPER, METRIC) for name in tasks}


def verdicts(store: Store, tasks: Mapping[str, Task], rules: Promotion = Promotion()) -> dict[str, Verdict]:  # noqa: B008
    """The model `new` against the champion `old`, wherever both are scored."""
    found = found_in(store, tasks)
    new = {t: c for t, cs in found.items() for c in cs if c.model == "new"}
    old = {t: c for t, cs in found.items() for c in cs if c.model == "old"}
    return {v.task: v for v in judge(store, tasks, found, new, old, rules)}


def test_a_clear_gain_is_promoted_and_a_tie_is_not(store: Store, tasks: dict[str, Task], score: Score) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5, spread=0.002)
    score("one", "new", 0.6, spread=0.002)
    score("two", "new", 0.501, spread=0.002)
    found = verdicts(store, tasks)
    assert found["one"].decision == "promote"
    assert found["two"].decision == "keep"
    assert "p = " in found["one"].reason


def test_without_a_champion_the_first_becomes_it(store: Store, tasks: dict[str, Task], score: Score) -> None:
    score("one", "new", 0.6)
    assert verdicts(store, tasks)["one"].decision == "first"


def test_a_significant_gain_below_the_minimum_is_kept_out(store: Store, tasks: dict[str, Task], score: Score) -> None:
    score("one", "old", 0.500, spread=0.0001)
    score("one", "new", 0.502, spread=0.0001)
    verdict = verdicts(store, tasks)["one"]
    assert verdict.decision == "keep"
    assert "less than 0.5 points better" in verdict.reason
    assert verdicts(store, tasks, Promotion(minimum_effect=0.001))["one"].decision == "promote"


def test_a_loss_on_another_task_of_the_family_forbids_promotion(
    store: Store, tasks: dict[str, Task], score: Score
) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    score("two", "new", 0.3)
    verdict = verdicts(store, tasks)["one"]
    assert verdict.decision == "keep"
    assert "on two it loses" in verdict.reason


def test_a_gain_waits_until_the_familys_other_tasks_are_scored(
    store: Store, tasks: dict[str, Task], score: Score
) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    verdict = verdicts(store, tasks)["one"]
    assert verdict.decision == "hold"
    assert "no score on two yet" in verdict.reason


def test_a_champion_without_a_score_on_the_present_data_is_not_passed_over(
    store: Store, tasks: dict[str, Task], score: Score
) -> None:
    score("one", "new", 0.6)
    found = found_in(store, tasks)
    (verdict,) = judge(store, tasks, found, {"one": found["one"][0]}, {"one": None}, Promotion())
    assert verdict.decision == "hold"


def test_a_loss_that_cannot_be_ruled_out_holds_a_promotion(store: Store, tasks: dict[str, Task], score: Score) -> None:
    """The less the other task says, the less is allowed: no loss is proven there, and none is excluded."""
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    score("two", "new", 0.46, spread=0.1)
    verdict = verdicts(store, tasks)["one"]
    assert verdict.decision == "hold"
    assert "on two a loss of more than 1 point cannot be ruled out" in verdict.reason
    assert verdicts(store, tasks, Promotion(margin=0.2))["one"].decision == "promote"


def test_the_family_guard_stops_true_losses_and_lets_equal_models_pass(
    store: Store, tasks: dict[str, Task], score: Score
) -> None:
    """A true loss of two points on the family's other task is seldom promoted, and an equal model mostly."""
    trials, promoted = 60, {-0.02: 0, 0.0: 0}
    for draw in range(trials):
        for task in ("one", "two"):
            score(task, "old", 0.5, spread=0.006, draw=draw)
        score("one", "new", 0.6, spread=0.006, draw=draw)
        for loss in promoted:
            score("two", "new", 0.5 + loss, spread=0.006, draw=draw)
            promoted[loss] += verdicts(store, tasks)["one"].decision == "promote"
    assert promoted[-0.02] <= 3
    assert promoted[0.0] >= 0.75 * trials


def test_one_split_needs_two_seeds_to_decide(store: Store, tasks: dict[str, Task], score: Score) -> None:
    for seed in (1, 2, 3):
        score("single", "old", 0.6, seed, texts=0.005)
        score("single", "new", 0.9, seed, texts=0.005)
        verdict = verdicts(store, tasks)["single"]
        assert verdict.comparison is not None and verdict.comparison.test is not None
        assert verdict.comparison.test.low < 0.3 < verdict.comparison.test.high
        if seed == 1:
            assert verdict.decision == "hold"
            assert "one split and one seed" in verdict.reason
            assert verdict.comparison.verdict().startswith("undecided: one split and one seed")
    assert verdict.decision == "promote"
    assert "jackknife over texts" in verdict.reason


def test_p_values_are_corrected_over_the_tasks(store: Store, tasks: dict[str, Task], score: Score) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
        score(task, "new", 0.51)
    found = found_in(store, tasks)
    pairs = [compare(store, tasks[t], *found[t]) for t in ("one", "two")]
    for before, after in zip(pairs, corrected(pairs), strict=True):
        assert before.test is not None
        assert after.corrected >= before.test.p
    assert min(c.corrected for c in corrected(pairs)) == pytest.approx(2 * min(c.corrected for c in pairs))


def test_a_candidate_is_found_by_model_or_by_model_and_method(
    store: Store, tasks: dict[str, Task], score: Score
) -> None:
    score("one", "old", 0.5)
    options = found_in(store, tasks)["one"]
    assert find(options, "old") == find(options, "old:none/kmeans") == options[0]
    with pytest.raises(TraubeError, match="did you mean old"):
        find(options, "olf")
    with pytest.raises(TraubeError, match="did you mean none/kmeans"):
        find(options, "old:none/kmean")


def test_the_best_of_many_newcomers_pays_for_the_choice(store: Store, tasks: dict[str, Task], score: Score) -> None:
    score("one", "old", 0.50)
    score("one", "new", 0.52)
    found = found_in(store, tasks)
    new, old = found["one"]
    one, many = (
        judge(store, tasks, found, {"one": new}, {"one": old}, Promotion(), newcomers={"one": n})[0] for n in (1, 1000)
    )
    assert (one.decision, many.decision) == ("promote", "keep")


def test_stale_weights_do_not_vouch_for_new_ones(store: Store, tasks: dict[str, Task], score: Score) -> None:
    for task in ("one", "two"):
        score(task, "old", 0.5)
    score("one", "new", 0.6)
    found = found_in(store, tasks)
    score("two", "new", 0.9)
    stale = [
        replace(c, fingerprint="before") for c in candidates(store, "two", "paper", PAPER, METRIC) if c.model == "new"
    ]
    new, old = found["one"]
    verdict = judge(store, tasks, {**found, "two": [*stale, *found["two"]]}, {"one": new}, {"one": old}, Promotion())[0]
    assert verdict.decision == "hold"
    assert "no score on two yet" in verdict.reason


def test_of_two_methods_of_one_model_the_better_one_is_named() -> None:
    """The answer once named the model, which both have."""
    one = Candidate("one", "paper", METRIC, "m", "f", "none/kmeans", "d", ("c",), 0.6)
    test = Test("t", 0.1, 0.05, 0.15, 0.001, 3.0, 9, 0.02, 8)
    for other, said in ((replace(one, method="none/dbstream"), "none/kmeans"), (replace(one, model="n"), "m")):
        assert Comparison(one, other, test, corrected=0.01).verdict() == f"{said} is better"
