"""Names of metrics on the command line, in cards and in params.yaml."""

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from tests.errors import refused
from traube._core.errors import Unknown
from traube.metrics import full_name
from traube.metrics.clustering import score


@pytest.mark.parametrize("seed", range(5))
def test_nmi_is_a_name_of_v_measure_and_equals_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, clusters = rng.integers(0, 6, 200), rng.integers(0, 9, 200)
    value = score(labels, clusters)[full_name("nmi")]
    assert value == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-12)
    assert value == score(labels, clusters)["nmi_arithmetic/noise_as_cluster"]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("nmi", "v_measure/noise_as_cluster"),
        ("nmi/noise_dropped", "v_measure/noise_dropped"),
        ("acc", "acc/noise_as_cluster"),
        ("ari/noise_as_singletons", "ari/noise_as_singletons"),
        ("silhouette", "silhouette"),
        ("AMI", "ami/noise_as_cluster"),
        ("V-measure", "v_measure/noise_as_cluster"),
        ("ARI/Noise_dropped", "ari/noise_dropped"),
    ],
)
def test_a_metric_may_be_named_without_what_becomes_of_noise(name: str, full: str) -> None:
    assert full_name(name) == full


@pytest.mark.parametrize(("name", "near"), [("nmii", "nmi"), ("v_measur", "v_measure"), ("acc/noise", "acc/noise_")])
def test_an_unknown_metric_is_named_with_those_near_it(name: str, near: str) -> None:
    with refused(Unknown, name, near):
        full_name(name)
