"""Parameters of a clusterer reach it, whoever clusters: `cluster_texts`, `traube cluster` or a run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.cli.conftest import begin_in, call
from traube import EmbeddingClusterer, cluster_texts
from traube._core.errors import TraubeError
from traube.components import CLUSTERERS, Component, VectorView, parse_method
from traube.components.fitting import fit_clusterer

TEXTS = [f"{about} {i}" for i in range(10) for about in ("bread dough", "ship crew", "moon crater")]
VECTORS = np.random.default_rng(0).normal(size=(len(TEXTS), 8)).astype(np.float32)
# those that train an encoder group tasks only
NAMES = [name for name, clusterer in CLUSTERERS.items() if clusterer.params and clusterer.input_kind != "encoder"]


class Built(BaseException):
    """The arguments of an estimator, in place of the estimator; no `except Exception` stops it."""

    def __init__(self, **given: Any) -> None:
        self.given = given


def change(clusterer: Component, name: str, default: Any) -> Any:
    words = ("random", "elkan", "single", "leaf", "minibatch_kmeans", "cosine", "euclidean", "manhattan")
    for value in (not default,) if isinstance(default, bool) else (3, 0.3, 0.7, *words):
        try:
            resolved = clusterer.resolve({name: value})[name]
        except TraubeError:
            continue
        if resolved != default:
            return resolved
    raise AssertionError(f"no value of {name} but its default is tried here")


@pytest.fixture(params=NAMES)
def changed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Mapping[str, Any]]:
    """The name of a clusterer that says with what it is built, and other parameters than its defaults."""
    clusterer = CLUSTERERS[request.param]

    def build(**given: Any) -> Any:
        raise Built(**given)

    monkeypatch.setitem(CLUSTERERS, request.param, replace(clusterer, build=build))
    return request.param, {name: change(clusterer, name, default) for name, default in clusterer.params.items()}


def method_of(name: str) -> str:
    return f"{'pca' if CLUSTERERS[name].input_kind == 'reduced' else 'none'}/{name}"


def test_every_way_builds_the_clusterer_of_a_run(
    changed: tuple[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, params = changed
    k = 3 if CLUSTERERS[name].n_clusters == "given" else None
    with pytest.raises(Built) as run:
        fit_clusterer(name, params, VectorView(VECTORS), k, 42, texts=TEXTS)
    assert params.items() <= run.value.given.items()

    method = parse_method(method_of(name), {name: params})
    with pytest.raises(Built) as python:
        cluster_texts(TEXTS, embeddings=VECTORS, algorithm=method, n_clusters=k)
    assert python.value.given.items() >= run.value.given.items()
    if CLUSTERERS[name].input_kind != "texts":
        with pytest.raises(Built) as estimator:
            EmbeddingClusterer(k, method).fit(VECTORS)
        assert estimator.value.given.items() >= run.value.given.items()

    begin_in(tmp_path, monkeypatch)
    protocol = {"reducers": ["none"], "clusterers": ["kmeans"], "parameters": {name: dict(params)}}
    own = {
        "protocol": "one",
        "tasks": ["pydocs_s2s"],
        "models": ["tfidf"],
        "protocols": {"one": protocol, "own": protocol},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(own))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    number = () if k is None else ("-k", str(k))
    with pytest.raises(Built) as command:
        call("cluster", "texts.txt", "-m", "hashed", "--method", method_of(name), "--no-report", *number)
    assert command.value.given.items() >= run.value.given.items()


def test_neighbors_of_stable_k_means_change_its_groups() -> None:
    """The twin: without parameters the groups are those of the defaults."""
    by_default = cluster_texts(TEXTS, embeddings=VECTORS, n_clusters=4).labels
    default, other = ({"stable_kmeans": {"n_neighbors": n}} for n in (14, 3))
    same = cluster_texts(TEXTS, embeddings=VECTORS, n_clusters=4, algorithm=parse_method("stable_kmeans", default))
    assert np.array_equal(same.labels, by_default)
    fewer = cluster_texts(TEXTS, embeddings=VECTORS, n_clusters=4, algorithm=parse_method("stable_kmeans", other))
    assert not np.array_equal(fewer.labels, by_default)
