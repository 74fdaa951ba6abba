import math
import warnings
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics as sk

from tests.errors import Refusal, refused
from traube._core.errors import Malformed
from traube.metrics import GROUPS, METRICS, NOISE_POLICIES, clustering
from traube.metrics import _measures as measures
from traube.metrics.clustering import internal, replicates, score

AGREE = 1e-9
few = settings(deadline=None, max_examples=40)

labelings = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 5), min_size=n, max_size=n), st.lists(st.integers(-1, 6), min_size=n, max_size=n)
    )
)
SKLEARN = {
    "v_measure": sk.v_measure_score,
    "homogeneity": sk.homogeneity_score,
    "completeness": sk.completeness_score,
    "nmi_arithmetic": sk.normalized_mutual_info_score,
    "nmi_geometric": lambda a, b: sk.normalized_mutual_info_score(a, b, average_method="geometric"),
    "ami": sk.adjusted_mutual_info_score,
    "ri": sk.rand_score,
    "ari": sk.adjusted_rand_score,
}


def best_map(true: list[int], predicted: list[int]) -> float:
    """ACC by trying every one-to-one map."""
    classes, clusters = sorted(set(true)), sorted(set(predicted))
    size = max(len(classes), len(clusters))
    targets = classes + [None] * (size - len(classes))
    maps = (dict(zip(clusters, chosen, strict=False)) for chosen in permutations(targets, len(clusters)))
    return max(sum(m[p] == t for t, p in zip(true, predicted, strict=True)) for m in maps) / len(true)


def as_cluster(true, predicted, metric: str) -> float:
    return score(true, np.array(predicted))[f"{metric}/noise_as_cluster"]


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@few
@given(labelings)
@example(([0, 0, 1, 1], [0, 1, 0, 1]))  # independent of each other: nothing is shared, and nothing divided by 0
def test_score_agrees_with_scikit_learn(labels):
    true, predicted = labels
    scores = score(true, np.array(predicted))
    for metric, reference in SKLEARN.items():
        assert scores[f"{metric}/noise_as_cluster"] == pytest.approx(reference(true, predicted), abs=AGREE)


@few
@given(labelings)
def test_acc_is_the_best_one_to_one_map_alone_and_in_score(labels):
    assert clustering.acc(*labels) == as_cluster(*labels, "acc")
    true, predicted = [t % 4 for t in labels[0]], [p % 6 for p in labels[1]]
    assert clustering.acc(true, predicted) == pytest.approx(best_map(true, predicted))
    assert clustering.acc(predicted, true) == pytest.approx(best_map(predicted, true))


@few
@given(labelings, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_items_or_the_names_of_clusters(labels, random):
    true, predicted = labels
    expected = pytest.approx(score(true, np.array(predicted)), abs=AGREE, nan_ok=True)
    order = list(range(len(true)))
    random.shuffle(order)
    assert score([true[i] for i in order], np.array([predicted[i] for i in order])) == expected
    names = random.sample(range(100), 7)
    renamed = [p if p == -1 else names[p] for p in predicted]
    assert score([f"class {9 - t}" for t in true], np.array(renamed)) == expected


@few
@given(labelings)
def test_bounds_and_identities(labels):
    scores = score(labels[0], np.array(labels[1]))
    for policy in NOISE_POLICIES:
        s = {metric: scores[f"{metric}/{policy}"] for metric in METRICS}
        if math.isnan(s["v_measure"]):
            continue
        assert s["v_measure"] == pytest.approx(s["nmi_arithmetic"], abs=AGREE)
        assert s["nmi_geometric"] >= s["nmi_arithmetic"] - AGREE
        assert s["acc"] <= s["purity"]
        assert all(0 <= s[m] <= 1 for m in METRICS if m not in ("ami", "ari"))
        assert max(s["ami"], s["ari"]) <= 1


def test_perfect_clustering_scores_one_everywhere():
    s = score(["a", "b", "a", "c"], np.array([7, 0, 7, 3]))
    assert all(s[f"{m}/{p}"] == pytest.approx(1) for m in METRICS for p in NOISE_POLICIES)
    assert (s["clusters"], s["noise_share"]) == (3, 0)


def test_homogeneity_and_completeness_are_not_swapped():
    true, split = ["a", "a", "b", "b"], np.array([0, 1, 2, 2])
    assert as_cluster(true, split, "homogeneity") == pytest.approx(1)
    assert as_cluster(true, split, "completeness") == pytest.approx(2 / 3)  # H(K) = 1.5 bit, H(K|C) = 0.5 bit
    assert as_cluster(true, split, "v_measure") == pytest.approx(0.8)


def test_noise_policies_by_hand():
    true = ["a", "a", "a", "b", "b", "b"]
    s = score(true, np.array([0, 0, -1, 1, -1, -1]))
    assert (s["clusters"], s["noise_share"]) == (2, 0.5)
    # One cluster of three: 0 -> a (2), noise -> b (2). Purity: 2 + 1 + 2 of 6.
    assert s["acc/noise_as_cluster"] == pytest.approx(4 / 6)
    assert s["purity/noise_as_cluster"] == pytest.approx(5 / 6)
    # 15 pairs. Together in both: (0,1), (4,5). Apart in both: 9 cross pairs less (2,4), (2,5).
    assert s["ri/noise_as_cluster"] == pytest.approx((2 + 7) / 15)
    # Dropped: a a b in 0 0 1, perfect.
    assert [s["v_measure/noise_dropped"], s["acc/noise_dropped"]] == pytest.approx([1, 1])
    # Singletons: sizes 2 1 1 1 1, all pure; 0 -> a (2) and any of b's (1).
    assert [s["homogeneity/noise_as_singletons"], s["purity/noise_as_singletons"]] == pytest.approx([1, 1])
    assert s["acc/noise_as_singletons"] == pytest.approx(3 / 6)
    assert s["ri/noise_as_singletons"] == pytest.approx((1 + 9) / 15)
    h_pred = -(2 / 6 * math.log(2 / 6) + 4 / 6 * math.log(1 / 6))
    assert s["completeness/noise_as_singletons"] == pytest.approx(math.log(2) / h_pred)


def test_nothing_but_noise():
    s = score(["a", "b", "b"], np.array([-1, -1, -1]))
    assert (s["clusters"], s["noise_share"]) == (0, 1)
    assert all(math.isnan(s[f"{m}/noise_dropped"]) for m in METRICS)
    assert s["v_measure/noise_as_cluster"] == 0
    assert s["homogeneity/noise_as_singletons"] == pytest.approx(1)


def test_score_names_and_python_floats():
    s = score([1, 2], np.array([0, -1]))
    assert set(s) == {f"{m}/{p}" for m in METRICS for p in NOISE_POLICIES} | {"clusters", "noise_share"}
    assert all(type(value) is float for value in s.values())


def test_many_singletons_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(["a", "b"] * 50, np.full(100, -1))


@pytest.mark.parametrize(
    ("true", "predicted", "refusal"),
    [
        (["a"], [0, 1], (Malformed, 1, 2)),
        ([], np.array([], dtype=int), (Malformed,)),
        (["a", None], [0, 1], (Malformed, 1)),
        (["a", float("nan")], [0, 1], (Malformed, 1)),
        (["a", "b"], [0.0, 1.0], (Malformed,)),
        (["a", "b"], ["x", "y"], (Malformed,)),
        (["a", "b"], [[0, 1]], (Malformed,)),
    ],
)
def test_score_refuses(true, predicted, refusal: Refusal):
    with refused(*refusal):
        score(true, np.array(predicted))


def two_groups(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 2
    noise = np.random.default_rng(0).normal(scale=0.05, size=(n, 8))
    return (np.eye(8)[labels] + noise).astype(np.float32), labels


def test_internal_equals_scikit_learn_for_dense_and_sparse():
    vectors, labels = two_groups()
    labels = np.where(np.arange(60) < 5, -1, labels)
    expected = sk.silhouette_score(vectors[5:], labels[5:], metric="cosine")
    groups = np.zeros(60, dtype=np.int64)
    assert internal(vectors, labels, groups, seed=0)[0] == pytest.approx(
        {"silhouette": expected, "clusters": 2, "noise_share": 5 / 60}
    )
    for kind in (sparse.csr_matrix, sparse.csr_array):
        assert internal(kind(vectors), labels, groups, seed=0)[0]["silhouette"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("labels", [[0] * 6, [-1] * 6, [-1, 0, 0, 0, 0, 0], range(6)])
def test_silhouette_is_nan_where_it_is_not_defined(labels):
    assert math.isnan(
        internal(two_groups(6)[0], np.array(labels), np.zeros(6, dtype=np.int64), seed=0)[0]["silhouette"]
    )


def test_silhouette_samples_by_seed(monkeypatch):
    monkeypatch.setattr(clustering, "SILHOUETTE_ROWS", 20)
    vectors, labels = two_groups()
    groups = np.zeros(len(labels), dtype=np.int64)
    values = [internal(vectors, labels, groups, seed=seed)[0]["silhouette"] for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]


def test_internal_refuses_other_lengths():
    with refused(Malformed, 6, 5):
        internal(two_groups(6)[0], np.zeros(5, dtype=int), np.zeros(5, dtype=np.int64), seed=0)


# adjusted for chance: where no other clustering is possible, the fraction is 0 / 0


def degenerate(n: int) -> dict[str, np.ndarray]:
    """Return labelings of n items that leave an adjusted measure little or no chance to adjust for."""
    return {
        "alone": np.arange(n),
        "together": np.zeros(n, dtype=int),
        "one is apart": (np.arange(n) > 0).astype(int),
        "two classes": np.arange(n) % 2,
        "all noise": np.full(n, -1),
        "one noise": np.where(np.arange(n) == 0, -1, 0),
    }


def read_noise(predicted: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what each noise policy keeps, bool [n], and the clusters that it makes."""
    noise, every = predicted == -1, np.full(len(predicted), True)
    singletons = np.where(noise, 1_000 + np.arange(len(predicted)), predicted)
    policies = (every, predicted), (~noise, predicted), (every, singletons)
    return dict(zip(NOISE_POLICIES, policies, strict=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("n", [1, 2, 3, 5, 18, 19, 21, 107, 200])
def test_adjusted_measures_of_degenerate_labelings_are_scikit_learns(n):
    groups = np.arange(n) % GROUPS
    references: dict[tuple[str, bytes, bytes], float] = {}  # without noise, every policy's are the same

    def reference(metric: str, true: np.ndarray, clusters: np.ndarray) -> float:
        key = metric, true.tobytes(), clusters.tobytes()
        if key not in references:
            references[key] = SKLEARN[metric](true, clusters) if len(true) else math.nan
        return references[key]

    for true, predicted in product(degenerate(n).values(), repeat=2):
        scores, without = score(true, predicted), replicates(true, predicted, groups, ["ami", "ari"])
        for policy, (kept, clusters) in read_noise(predicted).items():
            for group in (None, 0, 1, GROUPS - 1):  # the replicates between are like the second
                left = kept if group is None else kept & (groups != group)
                for metric in ("ami", "ari"):
                    name = f"{metric}/{policy}"
                    value = scores[name] if group is None else without[name][group]
                    expected = reference(metric, true[left], clusters[left])
                    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, group)


def test_ami_is_one_of_the_same_groups_and_zero_where_it_cannot_vary():
    for n in range(1, 201):
        alone, together, halves = np.arange(n), np.zeros(n, dtype=int), np.arange(n) // 2
        assert [as_cluster(n - same, same, "ami") for same in (alone, together, halves)] == [1, 1, 1]
        if n > 2:
            assert [as_cluster(alone, other, "ami") for other in (together, halves)] == [0, 0]
            assert [as_cluster(together, other, "ami") for other in (alone, halves)] == [0, 0]


def test_ami_of_labelings_that_just_can_vary_is_computed():
    """One pair of ten items is together, and it is not the pair of the classes: -1 of the 44 other pairs."""
    true, predicted = np.minimum(np.arange(10), 8), np.maximum(np.arange(10), 1)
    assert as_cluster(true, predicted, "ami") == pytest.approx(-1 / 44, abs=1e-12)


@few
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 12)), min_size=1, max_size=40))
def test_adjusted_measures_agree_with_scikit_learn_under_every_policy(pairs):
    true, predicted = np.array(pairs).T
    scores = score(true, predicted)
    for policy, (kept, clusters) in read_noise(predicted).items():
        for metric in ("ami", "ari"):
            expected = SKLEARN[metric](true[kept], clusters[kept]) if kept.any() else math.nan
            # scikit-learn's own rounding, of labelings of which nearly all are alone: up to 1e-11 at 40 items
            assert scores[f"{metric}/{policy}"] == pytest.approx(
                expected, abs=1e-12 if len(true) < 13 else 1e-10, nan_ok=True
            )
            assert not scores[f"{metric}/{policy}"] > 1


# replicates: the score without a group of texts


@settings(deadline=None, max_examples=15)  # of twenty replicates each
@given(labelings, st.integers(0, 10**6))
def test_replicates_are_the_scores_of_the_texts_that_are_left(labels, seed):
    true, predicted = np.array(labels[0]), np.array(labels[1])
    groups = np.random.default_rng(seed).integers(0, GROUPS, len(true))
    found = replicates(true, predicted, groups)
    for group in range(GROUPS):
        left = groups != group
        expected = score(true[left], predicted[left]) if left.any() else dict.fromkeys(found, math.nan)
        got = {name: values[group] for name, values in found.items()}
        assert got == pytest.approx({name: expected[name] for name in got}, abs=AGREE, nan_ok=True)


def test_replicates_of_the_silhouette_are_means_over_the_texts_that_are_left():
    vectors, labels = two_groups()
    groups = np.arange(60) % GROUPS
    scores, found = internal(vectors, labels, groups, seed=0)
    each = sk.silhouette_samples(vectors, labels, metric="cosine")
    assert scores["silhouette"] == pytest.approx(each.mean())
    assert found["silhouette"] == pytest.approx([each[groups != g].mean() for g in range(GROUPS)])


@pytest.mark.parametrize("at_once", [2**18, 100], ids=["together", "in blocks"])
def test_ami_without_each_group_is_scikit_learns_to_twelve_digits(at_once, monkeypatch):
    """Of large and small clusters, and of many that hold one item."""
    monkeypatch.setattr(measures, "MOST_TERMS", at_once)
    rng = np.random.default_rng(0)
    true = rng.choice(12, 4_000, p=rng.dirichlet(np.ones(12)))
    predicted = np.where(rng.random(4_000) < 0.6, true // 2, rng.choice(60, 4_000))
    predicted[rng.random(4_000) < 0.1] = -1
    groups = rng.integers(GROUPS, size=4_000)
    found = replicates(true, predicted, groups, ["ami"])
    for policy, (kept, clusters) in read_noise(predicted).items():
        for group in range(0, GROUPS, 7):
            left = kept & (groups != group)
            expected = sk.adjusted_mutual_info_score(true[left], clusters[left])
            assert found[f"ami/{policy}"][group] == pytest.approx(expected, abs=1e-12)
