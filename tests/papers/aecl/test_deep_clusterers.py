"""Behavior that all deep clusterers share."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_info

from tests.errors import refused
from tests.papers.aecl.conftest import QUICK, SHORT
from traube._core.errors import Failed, Invalid, Missing, TooFew, Unknown
from traube._core.progress import Progress
from traube.components.deep import DEEP, DeepClusterer, is_collapsed
from traube.components.deep.augmentation import swap_or_delete
from traube.components.deep.clusterer import make_even_batches
from traube.components.deep.grouping import k_means
from traube.models.transformer import Transformer

Grouped = tuple[list[str], list[str]]
Train = Callable[[str], tuple[NDArray[np.int64], DeepClusterer[Any]]]
EACH = pytest.mark.parametrize("name", DEEP)


def short(name: str, **values: Any) -> DeepClusterer[Any]:
    return DEEP[name].with_values(**{**SHORT[name], **values})


@pytest.fixture(scope="module")
def train(base: Transformer, grouped: Grouped, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Train a deep clusterer with seed 0, once for all tests; return its labels and it."""

    @cache
    def once(name: str) -> tuple[NDArray[np.int64], DeepClusterer[Any]]:
        clusterer = short(name)
        return clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path_factory.mktemp(name)), clusterer

    return once


class Stopped(Exception):
    """Somebody stopped the training."""


def stops_after(steps: int) -> Progress:
    done = []

    def count(stage: str, amount: int) -> None:
        done.extend([stage] * amount)
        if len(done) > steps:
            raise Stopped

    return Progress(done=count)


def test_every_one_is_quick_enough_to_test() -> None:
    assert QUICK.keys() == SHORT.keys() == DEEP.keys()


@EACH
def test_groups_that_anybody_can_see_are_found_and_so_are_those_of_new_texts(
    name: str, base: Transformer, grouped: Grouped, tmp_path: Path
) -> None:
    texts, groups = grouped
    clusterer = DEEP[name].with_values(**QUICK[name])
    labels = clusterer.fit_predict(texts, 3, base, 1, tmp_path)  # a seed with which all find them, with any torch
    assert labels.dtype == np.int64 and labels.shape == (54,)
    assert adjusted_rand_score(groups, labels) > 0.85
    new = ["bread cat cat", "bread dog dog", "bread star star"] * 3
    assert adjusted_rand_score(["cat", "dog", "star"] * 3, clusterer.predict(new)) == 1
    assert not is_collapsed(labels)
    # what the texts became tells the groups too
    became = clusterer.representations()
    assert became.shape[0] == 54 and became.dtype == np.float32
    unit = became / np.linalg.norm(became, axis=1, keepdims=True)
    same = np.array(groups)[:, None] == np.array(groups)[None, :]
    assert (unit @ unit.T)[same].mean() > (unit @ unit.T)[~same].mean() + 0.05


@pytest.mark.slow
@EACH
def test_a_seed_fixes_everything_and_nothing_of_the_callers_is_touched(
    name: str, base: Transformer, grouped: Grouped, train: Train, tmp_path: Path
) -> None:
    before = deepcopy(base.network.state_dict())
    generator = torch.random.get_rng_state()
    labels, first = train(name)
    second = short(name)
    assert np.array_equal(labels, second.fit_predict(grouped[0], 3, base, 0, tmp_path / "second"))
    assert first.history == second.history
    other = short(name)
    other.fit_predict(grouped[0], 3, base, 2, tmp_path / "other")
    assert other.history != first.history
    assert all(torch.equal(before[key], value) for key, value in base.network.state_dict().items())
    assert torch.equal(generator, torch.random.get_rng_state())


@EACH
def test_a_training_that_was_stopped_goes_on_to_the_very_same_numbers(
    name: str, base: Transformer, grouped: Grouped, train: Train, tmp_path: Path
) -> None:
    texts, _ = grouped
    labels, unbroken = train(name)
    batches = len(make_even_batches(np.arange(54), unbroken.recipe.batch))
    steps = batches * len(unbroken.history)
    again = short(name)
    again.seconds_between_saves = 0.0
    for part in (0.4, 0.8):
        with pytest.raises(Stopped):
            again.fit_predict(texts, 3, base, 0, tmp_path / "again", stops_after(int(part * steps)))
    seen: list[int] = []
    resumed = again.fit_predict(
        texts, 3, base, 0, tmp_path / "again", Progress(done=lambda stage, amount: seen.append(amount))
    )
    assert seen[0] >= int(0.8 * steps) - batches  # what was done before is not done again: an epoch is lost at most
    assert np.array_equal(labels, resumed)
    assert again.history == unbroken.history


def test_what_was_kept_of_another_training_or_is_damaged_is_not_gone_on_with(
    base: Transformer, grouped: Grouped, train: Train, tmp_path: Path
) -> None:
    labels, fresh = train("stcc")
    other = short("stcc", epochs=3)
    other.fit_predict(grouped[0], 3, base, 0, tmp_path)
    assert len(other.history) == 3
    kept = tmp_path / "training.pt"
    kept.write_bytes(kept.read_bytes()[:-100])
    again = short("stcc")
    assert np.array_equal(again.fit_predict(grouped[0], 3, base, 0, tmp_path), labels)
    assert again.history == fresh.history


@EACH
def test_gold_labels_are_shown_and_change_nothing(
    name: str, base: Transformer, grouped: Grouped, train: Train, tmp_path: Path
) -> None:
    texts, groups = grouped
    with_truth, said = short(name), []
    labels, blind = train(name)
    with_labels = with_truth.fit_predict(texts, 3, base, 0, tmp_path / "a", Progress(said=said.append), groups)
    assert np.array_equal(with_labels, labels)
    assert not {"acc", "nmi", "ps", "ns", "same_class_similarity"} & {key for e in blind.history for key in e}
    assert [entry["epoch"] for entry in blind.history] == list(range(1, len(blind.history) + 1))
    assert all(-1 <= entry["same_class_similarity"] <= 1.0001 for entry in with_truth.history)
    if name not in ("stcc", "self_train"):  # which have no clusters before the end, or at first
        assert 0 <= with_truth.history[-1]["acc"] <= 1
        assert "acc" in said[-1]
    assert all(math.isfinite(value) for entry in with_truth.history for value in entry.values())


@EACH
def test_with_one_cluster_or_one_text_there_is_nothing_to_decide(name: str, base: Transformer, tmp_path: Path) -> None:
    clusterer = short(name)
    assert clusterer.fit_predict(["the cat", "a dog", ""], 1, base, 0, tmp_path).tolist() == [0, 0, 0]
    assert clusterer.fit_predict(["the cat"], 1, base, 0, tmp_path).tolist() == [0]
    assert clusterer.history == [] and clusterer.representations() is None


@EACH
@pytest.mark.parametrize(
    "texts",
    [["cat", "dog"], ["", " ", "cat", "dog star"], ["cat"] * 9, ["", "", ""]],
    ids=["two", "empty ones", "all equal", "all empty"],
)
def test_few_or_equal_texts_are_grouped_somehow(
    name: str, texts: Sequence[str], base: Transformer, tmp_path: Path
) -> None:
    labels = short(name).fit_predict(texts, 2, base, 0, tmp_path)
    assert labels.shape == (len(texts),)
    assert set(labels.tolist()) <= {0, 1}
    if len(set(texts)) == 1 and name != "aecl":  # whose batches are in an order that nobody can tell
        assert is_collapsed(labels)


@EACH
def test_what_cannot_be_is_refused_in_a_line(name: str, base: Transformer, tmp_path: Path) -> None:
    clusterer = short(name)
    with refused(TooFew, name):
        clusterer.fit_predict([], 2, base, 0, tmp_path)
    with refused(Invalid, name, 3, 2):
        clusterer.fit_predict(["cat", "dog"], 3, base, 0, tmp_path)
    with refused(Invalid, name, 0, 2):
        clusterer.fit_predict(["cat", "dog"], 0, base, 0, tmp_path)
    with refused(Missing, name):
        clusterer.predict(["cat"])
    with refused(Unknown, name, "bach"):
        DEEP[name].with_values(bach=3)
    with refused(Invalid, name, "batch", 2):
        DEEP[name].with_values(batch=1)


def test_a_loss_that_is_no_number_is_an_error_of_one_line(base: Transformer, grouped: Grouped, tmp_path: Path) -> None:
    network = deepcopy(base.network)
    with torch.no_grad():
        next(network.parameters()).fill_(math.nan)
    with refused(Failed, "aecl", "epoch 1"):
        short("aecl").fit_predict(grouped[0], 3, base.with_network(network), 0, tmp_path)


def test_kmeans_of_a_deep_clusterer_is_the_best_of_ten_starts_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    class Watched(KMeans):
        def fit_predict(self, *arguments: Any) -> Any:
            threads.update(pool["num_threads"] for pool in threadpool_info())
            return super().fit_predict(*arguments)

    monkeypatch.setattr("sklearn.cluster.KMeans", Watched)
    points = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)  # no clusters: each start ends elsewhere
    for seed in (9, 11):  # whose eleventh start would be better than the ten
        labels, centers = k_means(torch.from_numpy(points), 15, seed)
        best = KMeans(15, n_init=10, random_state=seed).fit(points)
        assert np.array_equal(labels, best.labels_) and np.allclose(centers, best.cluster_centers_)
    assert threads == {1}


def test_batches_differ_in_size_by_one_at_most() -> None:
    assert [len(rows) for rows in make_even_batches(np.arange(401), 400)] == [201, 200]
    assert [len(rows) for rows in make_even_batches(np.arange(400), 400)] == [400]
    assert np.concatenate(make_even_batches(np.arange(7), 3)).tolist() == list(range(7))


def test_sccl_trains_for_its_iterations_and_reads_the_clusters_where_its_recipe_says(
    base: Transformer, grouped: Grouped, tmp_path: Path
) -> None:
    assert DEEP["sccl"].with_values(iterations=10, batch=4).epochs(10) == 4  # of three batches each
    assert DEEP["sccl"].with_values(iterations=9, batch=5).epochs(10) == 5
    for kind in ("k_means", "centres"):
        clusterer = short("sccl", labels=kind, head_learning_rate=0.3)  # centers move away from where k-means put them
        labels = clusterer.fit_predict(grouped[0], 9, base, 1, tmp_path / kind)  # more than anybody can see
        became = clusterer.representations()
        near = k_means(torch.from_numpy(became), 9, 1)[0]
        assert (adjusted_rand_score(near, labels) == 1) == (kind == "k_means")
        np.testing.assert_array_equal(clusterer.predict(grouped[0]), labels)


@given(st.integers(1, 40), st.integers(0, 20))
def test_a_fifth_of_the_words_at_least_one_is_swapped_or_deleted(number: int, seed: int) -> None:
    words = [f"w{i}" for i in range(number)]
    (other,) = (text.split() for text in swap_or_delete([" ".join(words)], seed))
    times = max(1, round(number / 5))
    if len(other) < number:
        assert number - len(other) == times
        assert other == [word for word in words if word in other]
    else:
        moved = sum(a != b for a, b in zip(words, other, strict=True))
        assert sorted(other) == sorted(words) and moved <= 2 * times
        assert moved >= 2 or number == 1 or times > 1  # a second swap may undo the first


def test_rstc_learns_the_clusters_of_k_means_until_the_transport_begins(base: Transformer, grouped: Grouped) -> None:
    from traube.papers.aecl.rstc import RstcFit

    texts = grouped[0]
    recipe = short("rstc", frozen=True, scaled=True, alone=1, by_k_means=2, evenness=0.01).recipe
    fit = RstcFit(recipe, [texts] * 3, 3, base, 0)
    kept = []
    for _ in range(4):
        fit.step(0, np.arange(30))
        kept.append(fit.memory["targets"])
    assert kept[0] is None  # the contrast alone
    assert np.array_equal(kept[1], k_means(fit.first, 3, 0)[0]) and kept[2] is kept[1]
    assert not np.array_equal(kept[3], kept[2])  # of an assignment that has hardly learned yet
