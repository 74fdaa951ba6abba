"""COB: its gradient, its losses and its baseline; what is left is a checkpoint like any other."""

import json
from itertools import combinations, permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, rand_score

from tests.errors import refused
from tests.training.test_training import words_task
from traube._core.errors import Failed, Invalid, TooFew, TooLarge
from traube.metrics.clustering import score
from traube.models import load_model
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.papers.cob.trainers.cob import LOSSES, Blackbox, Cob, cob_loss, linkage, margin, pairwise_distances
from traube.papers.cob.trainers.untrained import Untrained
from traube.tasks.task import Task
from traube.training import Trainer
from traube.training._trainers.triplet import Triples, Triplet
from traube.training.clusterings import Problem

RECIPE = {"epochs": 3, "batch": 2, "learning_rate": 1e-3, "evaluate_every": 2, "max_length": 16}

two_labelings = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


def adjacency(labels: list[int] | NDArray[np.int64]) -> torch.Tensor:
    found = torch.tensor(labels)
    return (found[:, None] == found[None, :]).double()


def distances(seed: int, n: int) -> torch.Tensor:
    points = torch.tensor(np.random.default_rng(seed).normal(size=(n, 3)))
    return pairwise_distances(points)


# losses


@settings(deadline=None)
@given(two_labelings)
def test_losses_are_one_less_the_metrics(labels: tuple[list[int], list[int]]) -> None:
    gold, found = labels
    n = len(gold)
    rand = float(LOSSES["ri"](adjacency(found), adjacency(gold)))
    assert rand / (n * (n - 1)) == pytest.approx(1 - rand_score(gold, found))
    assert float(LOSSES["ari"](adjacency(found), adjacency(gold))) == pytest.approx(
        1 - adjusted_rand_score(gold, found)
    )
    assert float(LOSSES["purity"](adjacency(found), adjacency(gold))) == pytest.approx(
        1 - score(gold, np.array(found))["purity/noise_as_cluster"]
    )


# the gradient


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=3, max_size=10), st.integers(0, 99))
def test_with_a_large_lambda_the_gradient_leads_to_the_classes(labels: list[int], seed: int) -> None:
    gold, d = adjacency(labels), distances(seed, len(labels)).requires_grad_()
    box = Blackbox(lam=100.0, cluster=linkage("average"))
    (found,) = box.adjacency([d], [gold])
    LOSSES["ri"](found, gold).backward()
    assert d.grad is not None
    assert torch.allclose(d.grad, (gold - found) / 100)
    assert (box.steps, box.shortcuts) == (1, 1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=3, max_size=10), st.integers(0, 99), st.floats(0.01, 100))
def test_the_gradient_is_the_difference_of_two_clusterings(labels: list[int], seed: int, lam: float) -> None:
    gold, d = adjacency(labels), distances(seed, len(labels)).requires_grad_()
    cluster = linkage("average")
    (found,) = Blackbox(lam, cluster).adjacency([d], [gold])
    LOSSES["ri"](found, gold).backward()
    k, n = len(set(labels)), len(labels)
    moved = np.maximum(d.detach().numpy() + lam * (1 - 2 * gold.numpy()), 0)
    np.fill_diagonal(moved, 0)
    after = adjacency(cluster(moved, k)) if 1 < k < n else (torch.ones(n, n) if k == 1 else torch.eye(n)).double()
    assert d.grad is not None
    assert torch.allclose(d.grad, (after - found) / lam)


def test_a_right_clustering_has_no_gradient() -> None:
    gold = adjacency([0, 0, 1, 1])
    d = (4 * (1 - gold) + 0.1 * (gold - torch.eye(4))).requires_grad_()
    (found,) = Blackbox(90.0, linkage("average")).adjacency([d], [gold])
    LOSSES["ri"](found, gold).backward()
    assert d.grad is not None
    assert not d.grad.any()


@pytest.mark.parametrize("name", ["ri", "ari", "purity"])
def test_any_metric_of_adjacency_matrices_can_be_optimized(name: str) -> None:
    """Points that a linear map has to pull apart: thirty steps on the metric alone raise it."""
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 10)
    points = torch.tensor(np.hstack([rng.normal(size=(30, 3)) + 2 * np.eye(3)[classes], 4 * rng.normal(size=(30, 3))]))
    weights = torch.eye(6, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=0.1)
    gold = adjacency(classes)
    box = Blackbox(lam={"ri": 20.0, "ari": 2e4, "purity": 2e4}[name], cluster=linkage("average"))
    scores = []
    for _ in range(30):
        d = [pairwise_distances(points @ weights)]
        labels = box.cluster(d[0].detach().numpy(), 3)
        scores.append(adjusted_rand_score(classes, labels))
        loss = cob_loss(box, LOSSES[name], 0.0, d, [gold])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.mean(scores[-5:]) > scores[0] + 0.15


def test_any_clusterer_of_distances_will_do() -> None:
    def nearest_of_first(d: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        return d[:, :k].argmin(axis=1)

    gold = adjacency([0, 1, 0, 1])
    d = distances(3, 4).requires_grad_()
    (found,) = Blackbox(50.0, nearest_of_first).adjacency([d], [gold])
    assert torch.equal(found, adjacency(nearest_of_first(d.detach().numpy(), 2)))


def test_splits_of_a_batch_may_differ_in_size() -> None:
    labels = [[0, 1, 0, 1, 2], [0, 0, 1], [0, 1, 2, 3, 0, 1, 2]]
    gold = [adjacency(each) for each in labels]
    d = [distances(i, len(each)).requires_grad_() for i, each in enumerate(labels)]
    cob_loss(Blackbox(90.0, linkage("average")), LOSSES["ri"], 1.0, d, gold).backward()
    alone = [distances(i, len(each)).requires_grad_() for i, each in enumerate(labels)]
    for one, t in zip(alone, gold, strict=True):  # mean over the batch: a third of the gradient, a third of lambda
        (found,) = Blackbox(90.0, linkage("average")).adjacency([one], [t])
        (LOSSES["ri"](found, t) / 3).backward()
    margins = [m.detach().clone().requires_grad_() for m in d]
    margin(margins, gold).backward()
    for one, other, m in zip(d, alone, margins, strict=True):
        assert one.grad is not None and other.grad is not None and m.grad is not None
        assert torch.allclose(one.grad, other.grad + m.grad)


# what could go wrong


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2], [0, 0, 1, 1]])
def test_gradients_are_finite_where_texts_coincide(labels: list[int]) -> None:
    """One text, one class, as many classes as texts; and all vectors equal."""
    vectors = torch.ones(len(labels), 4, requires_grad=True)
    d = [pairwise_distances(vectors)]
    gold = [adjacency(labels).float()]
    cob_loss(Blackbox(90.0, linkage("average")), LOSSES["ri"], 1.0, d, gold).backward()
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("lam", [0.0, -1.0, float("nan"), float("inf")])
def test_lambda_must_be_above_zero(lam: float) -> None:
    with refused(Invalid, 0):
        Blackbox(lam, linkage("average"))
    with refused(Invalid, "cob", "lam"):
        Cob.with_values(lam=lam)


def test_a_distance_that_is_not_finite_is_an_error() -> None:
    d = distances(0, 4)
    d[0, 1] = torch.nan
    with refused(Failed, "NaN"):
        Blackbox(90.0, linkage("average")).adjacency([d], [adjacency([0, 1, 0, 1])])


def test_a_split_that_would_fill_the_memory_is_refused(base: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    task = words_task()
    with refused(TooLarge, "words", "train_0", 8, "0.0"):
        Cob().split_problems(task, Cob().select_texts(task, ()))


def test_a_task_without_training_splits_is_refused(base: Transformer, tmp_path: Path) -> None:
    task = words_task()
    tested = Task(task.card, task.corpus, task.splits[task.splits["part"] == "test"])
    with refused(TooFew, "words", "default", "cob"):
        Cob().fit(tested, base, tmp_path)
    with refused(TooFew, "cob"):
        Cob().fit(task, base, tmp_path, extra=["more"])


# triples


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=7), min_size=1, max_size=3))
def test_every_triple_comes_once(labels: list[list[int]]) -> None:
    starts = np.cumsum([0, *map(len, labels)])
    problems = [
        Problem(str(i), np.arange(len(each)) + starts[i], np.unique(each, return_inverse=True)[1])
        for i, each in enumerate(labels)
    ]
    expected = {
        (frozenset({int(p.rows[a]), int(p.rows[b])}), int(p.rows[c]))
        for p in problems
        for a, b in combinations(range(len(p.rows)), 2)
        for c in range(len(p.rows))
        if p.classes[a] == p.classes[b] != p.classes[c]
    }
    if not expected:
        with refused(TooFew):
            Triples(problems, [], 1.0, seed=0)
        return
    triples = Triples(problems, [], 1.0, seed=0)
    made = [triples[i].tolist() for i in range(triples.n)]
    assert {(frozenset(t[:2]), t[2]) for t in made} == expected
    assert len(made) == len(expected)


def test_a_share_of_the_triples_is_drawn_once() -> None:
    problem = Problem("one", np.arange(10), np.repeat([0, 1], 5))
    every, some = (Triples([problem], [], share, seed=0) for share in (1.0, 0.04))
    assert (every.n, some.n) == (100, 4)
    epochs = [{(*sorted(some[i][:2]), some[i][2]) for i in range(4 * e, 4 * e + 4)} for e in range(3)]
    assert epochs[0] == epochs[1] == epochs[2] and len(epochs[0]) == 4


# training


@pytest.mark.parametrize("trainer", [Cob, Triplet])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"head": "none", "layers": 1, "dropout": False}, marks=pytest.mark.slow),
        pytest.param({"layers": 0}, marks=pytest.mark.slow),
    ],
)
def test_what_is_left_is_a_model(
    trainer: type[Trainer],
    changes: dict[str, object],
    base: Transformer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if trainer is Cob and not changes:  # evaluated by other processes
        request.getfixturevalue("two_workers")
    task = words_task()
    seldom = {"evaluate_every": 40, "epochs": 1} if trainer is Triplet else {}  # which has many more steps
    left = trainer.with_values(**RECIPE | seldom | changes).fit(task, base, tmp_path)
    assert left.watched == "validation_ari"
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path))
    model = load_model(left.last.name)
    assert model.encode(task.texts).shape == (16, 256 if "head" not in changes else 32)
    about = json.loads((left.last / "checkpoint.json").read_text())
    assert about["parts"] == ["train", "validation"]
    shares = [entry.get("shortcut") for entry in left.curve]
    assert shares == [None, *([1.0] * (len(shares) - 1) if trainer is Cob else [None] * (len(shares) - 1))]


@pytest.mark.slow
@pytest.mark.parametrize("layers", [0, 1])
def test_what_is_frozen_stays_as_it_was(layers: int, base: Transformer, tmp_path: Path) -> None:
    left = Cob.with_values(**RECIPE | {"layers": layers, "learning_rate": 0.01}).fit(words_task(), base, tmp_path)
    before = dict(base.network[0].auto_model.named_parameters())
    after = dict(
        Transformer(ModelCard(name="after", kind="transformer", model=str(left.last)), "cpu")
        .network[0]
        .auto_model.named_parameters()
    )
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert all(".layer.1." in name for name in changed)
    assert bool(changed) == bool(layers)


@pytest.mark.slow
def test_patience_ends_a_training_that_gets_no_better(base: Transformer, tmp_path: Path) -> None:
    still = RECIPE | {"learning_rate": 1e-9, "epochs": 4, "evaluate_every": 1}
    few, all_ = (Cob.with_values(**still | {"patience": n}).fit(words_task(), base, tmp_path) for n in (2, 0))
    assert len(few.curve) == 3 < len(all_.curve)  # before the first step, and two evaluations that are no better


@pytest.mark.slow
def test_untrained_is_the_random_head_before_the_first_step(base: Transformer, tmp_path: Path) -> None:
    trained = Cob.with_values(**RECIPE).fit(words_task(), base, tmp_path)
    untrained = Untrained.with_values(max_length=16).fit(words_task(), base, tmp_path)
    assert len(untrained.curve) == 1
    assert untrained.curve[0]["validation_ari"] == trained.curve[0]["validation_ari"]
    with refused(Invalid, "epochs", "untrained"):
        Untrained.with_values(epochs=3)


def test_vectors_do_not_depend_on_the_order_of_texts(base: Transformer) -> None:
    task = words_task()
    cob = Cob.with_values(**RECIPE)
    network = cob.make_network(base)
    encoder = cob.make_learner(network, cob.make_examples(network, task, cob.select_texts(task, ()))).encoder.eval()
    rows = np.arange(len(encoder.texts))
    vectors = encoder.vectors(rows)
    for order in list(permutations(range(4)))[:5]:
        assert np.allclose(encoder.vectors(rows[list(order)]), vectors[list(order)], atol=1e-6)
    assert np.allclose(encoder.vectors([3, 3, 1]), vectors[[3, 3, 1]], atol=1e-6)
