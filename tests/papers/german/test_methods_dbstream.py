"""DBSTREAM: regressions of the faults that shaped the published numbers."""

import numpy as np
import pytest
from river.cluster import DBSTREAM
from sklearn.metrics import v_measure_score

from traube.papers.german.dbstream import DBStream


@pytest.fixture(scope="module")
def nine():
    """Nine Gaussian blobs, 1,500 points, in random order."""
    rng = np.random.default_rng(0)
    gold = rng.integers(9, size=1500)
    centers = np.array([(x, y) for x in (0, 5, 10) for y in (0, 5, 10)], dtype=float)
    return centers[gold] + rng.normal(scale=0.7, size=(1500, 2)), gold


@pytest.fixture(scope="module")
def model(nine):
    return DBStream().fit(nine[0])


def test_predicting_twice_gives_the_same(nine, model):
    """river #1265: the first prediction changed the micro-clusters."""
    micro = model.n_micro_clusters_
    assert np.array_equal(model.predict(nine[0]), model.labels_)
    assert np.array_equal(model.predict(nine[0]), model.labels_)
    assert model.n_micro_clusters_ == micro


def test_micro_clusters_are_merged(nine, model):
    """river 0.14 left them apart: 83 of 83."""
    assert len(model.cluster_centers_) < model.n_micro_clusters_
    assert len(set(model.labels_)) <= len(model.cluster_centers_)
    assert v_measure_score(nine[1], model.labels_) > 0.85


def test_weak_micro_clusters_are_removed(nine):
    """river #1324: nothing was ever removed, so that old outliers stayed clusters."""
    outlier = np.array([[500.0, 500.0]])
    model = DBStream().fit(np.vstack([outlier, nine[0]]))
    assert np.abs(model.cluster_centers_).max() < 100


def test_labels_are_those_of_river(nine, model):
    stream = DBSTREAM()
    points = [dict(enumerate(p)) for p in nine[0].tolist()]
    for point in points:
        stream.learn_one(point)
    assert model.labels_.tolist() == [stream.predict_one(point) for point in points]
    assert model.labels_.dtype == np.int64


def test_the_order_of_the_points_matters_and_nothing_else(nine):
    assert np.array_equal(DBStream().fit(nine[0]).labels_, DBStream().fit(nine[0]).labels_)
    shuffled = nine[0][np.random.default_rng(1).permutation(1500)]
    assert not np.array_equal(DBStream().fit(shuffled).cluster_centers_, DBStream().fit(nine[0]).cluster_centers_)


def test_nothing_heavy_enough_is_noise(nine):
    model = DBStream(minimum_weight=1e9).fit(nine[0])
    assert set(model.labels_) == {-1}


def test_unscaled_coordinates_are_one_cluster(nine):
    """Show why DBSTREAM on principal components of unit vectors scores 0."""
    assert len(set(DBStream().fit(nine[0] / 100).labels_)) == 1
