"""Similarities compare the passages of a page: networks agree on pairs and on pages, and distances are made of them."""

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import load_file, save_file

from tests.errors import refused
from traube._core.errors import Changed, DoesNotFit, Failed, Inaccessible, Invalid, Malformed, Missing, Unsafe
from traube.components import DistanceView
from traube.components.fitting import fit_clusterer
from traube.models import checkpoints
from traube.models.similarity import (
    Similarity,
    SimilarityConfig,
    TrainedSimilarity,
    load_network,
    make_network,
    page_similarities,
)
from traube.models.vectors import Dense
from traube.papers.qs3m.sentences import SENTENCES

D = 6  # numbers of a vector
QUERIES = ("text", "passages")
PROJECTIONS, OUTPUTS = ("coded", "printed"), ("relu", "sigmoid")
CONFIGS = [
    *({"network": "qss", "query": query} for query in QUERIES),
    *(
        {"network": "qs3m", "query": query, "projection": projection, "output": output}
        for query, projection, output in product((*QUERIES, "none"), PROJECTIONS, OUTPUTS)
    ),
    *(
        {"network": "attention", "query": "text", "output": output, "masked": masked}
        for output, masked in product(OUTPUTS, (True, False))
    ),
]


def description(**values: Any) -> SimilarityConfig:
    return SimilarityConfig.model_validate({"network": "qs3m", "query": "text", "dimensions": D, **values})


def network_of(config: SimilarityConfig) -> Any:
    """A network with random weights, whose last ReLU is not 0 everywhere."""
    torch.manual_seed(0)
    network = make_network(config)
    last = {"qss": None, "qs3m": network, "attention": getattr(network, "head", None)}[config.network]
    if last is not None:
        torch.nn.init.constant_(last.compare.bias, 1.0)
    return network.eval()


def page_of(config: SimilarityConfig, n: int = 5, seed: int = 0) -> Dense:
    """Passages; where they have sentences, each has another number of them."""
    rng = np.random.default_rng(seed)
    if config.network != "attention":
        return rng.normal(size=(n, D)).astype(np.float32)
    page = rng.normal(size=(n, 1 + SENTENCES, D)).astype(np.float32)
    for i in range(n):
        page[i, 2 + i % SENTENCES :] = 0
    return page.reshape(n, -1)


def query_of(config: SimilarityConfig, seed: int = 9) -> Dense | None:
    return None if config.query == "none" else np.random.default_rng(seed).normal(size=D).astype(np.float32)


every = pytest.mark.parametrize("case", CONFIGS, ids=lambda case: "-".join(map(str, case.values())))


class Given(Similarity):
    """A similarity of a given name."""

    def __init__(self, alike: Any) -> None:
        self.alike = np.array(alike, dtype=np.float32)

    def compare(self, X: Any, query: Dense | None) -> Dense:
        return self.alike


# the networks


@every
def test_a_page_says_of_its_pairs_what_the_network_says_of_each(case: dict[str, Any]) -> None:
    config = description(**case)
    network, X, query = network_of(config), torch.from_numpy(page_of(config)), query_of(config)
    vector = None if query is None else torch.from_numpy(query)
    first, second = (torch.from_numpy(i.ravel()) for i in np.indices((5, 5)))
    with torch.inference_mode():
        pairs = network.forward(X[first], X[second], None if vector is None else vector.expand(25, -1))
        page = network.page(X, vector)
    assert float(page.std()) > 0
    assert np.allclose(page.numpy().ravel(), pairs.numpy(), atol=1e-5)


@every
@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(5)), seed=st.integers(0, 1000))
def test_permuting_the_passages_permutes_what_is_said_of_them(case: Any, order: list[int], seed: int) -> None:
    config = description(**case)
    network, X, query = network_of(config), page_of(config, seed=seed), query_of(config)
    page = page_similarities(network, True, X, query)
    assert np.allclose(page_similarities(network, True, X[order], query), page[np.ix_(order, order)], atol=1e-5)


@every
def test_symmetrised_is_symmetric_and_the_mean_of_both_orders(case: dict[str, Any]) -> None:
    config = description(**case)
    network, X, query = network_of(config), page_of(config), query_of(config)
    with torch.inference_mode():
        raw = network.page(torch.from_numpy(X), None if query is None else torch.from_numpy(query)).numpy()
    both = page_similarities(network, True, X, query)
    assert np.array_equal(both, both.T) and np.allclose(both, (raw + raw.T) / 2)
    one = page_similarities(network, False, X, query)
    assert np.array_equal(one, one.T) and np.array_equal(np.triu(one), np.triu(raw))
    assert (config.network == "qss") == np.allclose(one, both, atol=1e-6)  # a cosine is symmetric by itself


@every
def test_a_network_with_a_query_respects_it_and_one_without_ignores_it(case: dict[str, Any]) -> None:
    config = description(**case)
    network, X = network_of(config), page_of(config)
    one, other = (page_similarities(network, True, X, np.full(D, value, dtype=np.float32)) for value in (0.5, -2.0))
    assert np.array_equal(one, other) == (config.query == "none")


def test_the_query_of_passages_is_their_mean() -> None:
    similarity = Given(np.eye(3))
    similarity.query = "passages"
    assert similarity.make_query(np.array([[0, 2], [4, 6]], dtype=np.float32), None).tolist() == [2, 4]  # type: ignore[union-attr]


def parameters(module: Any) -> int:
    return sum(values.numel() for values in module.parameters())


def test_networks_have_the_parameters_that_the_papers_code_has() -> None:
    paper = {"dimensions": 768}
    qs3m = make_network(description(**paper))
    assert parameters(qs3m.project) == 1_181_184
    assert parameters(qs3m.compare) == 3_841
    assert parameters(make_network(description(**paper, network="qss"))) == 49_184
    attention = make_network(description(**paper, network="attention"))
    assert parameters(attention) - parameters(attention.head) == 49_184
    assert parameters(attention.head) == parameters(qs3m)


@pytest.mark.parametrize("masked", [True, False])
def test_absent_sentences_get_no_attention_but_as_the_papers_code_does_it(masked: bool) -> None:
    config = description(network="attention", masked=masked)
    network, query = network_of(config), query_of(config)
    short = page_of(config).reshape(5, 1 + SENTENCES, D)[:, :6].reshape(5, -1)
    padded = np.pad(short, ((0, 0), (0, 5 * D)))
    same = np.allclose(
        *(page_similarities(network, True, passages, query) for passages in (short, padded)), rtol=0, atol=1e-6
    )
    assert same == masked
    short[2] = 0  # a passage without sentences is compared too
    assert np.isfinite(page_similarities(network, True, short, query)).all()


# distances


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 7).flatmap(lambda n: arrays(np.float32, (n, n), elements=st.floats(-1e6, 1e6, width=32))))
def test_distances_always_are_distances(values: Any) -> None:
    alike = (values + values.T) / 2
    found = Given(alike).distances(np.zeros((len(alike), 1)))
    assert found.dtype == np.float32 and np.array_equal(found, found.T)
    assert (found.diagonal() == 0).all() and found.min() >= 0 and found.max() <= 1


@pytest.mark.parametrize("scale", [1e-20, 1, 1e20])
def test_the_most_alike_pair_of_a_page_is_0_apart_and_the_least_alike_1(scale: float) -> None:
    alike = np.array([[9, 3, 1], [3, 9, 2], [1, 2, 9]])  # what an item is to itself is no pair
    found = Given(scale * alike).distances(np.zeros((3, 1)))
    assert np.allclose(found, [[0, 0, 1], [0, 0, 0.5], [1, 0.5, 0]])


@pytest.mark.parametrize("noise", [0, 1e-7])
def test_items_that_are_equally_alike_are_all_1_apart_whatever_rounding_says(noise: float) -> None:
    alike = np.full((4, 4), 0.7) + noise * np.random.default_rng(0).normal(size=(4, 4))
    assert np.array_equal(Given((alike + alike.T) / 2).distances(np.zeros((4, 1))), 1 - np.eye(4))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3)])
def test_the_smallest_pages_are_clustered(n: int, k: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, D)).astype(np.float32)
    distances = Given(X @ X.T).distances(X)
    assert len(set(fit_clusterer("agglomerative_average", None, DistanceView(distances), k).labels)) == k


def test_what_cannot_be_compared_is_refused() -> None:
    for value in (np.nan, np.inf):
        with refused(Failed):
            Given([[0, value], [value, 0]]).distances(np.zeros((2, 1)))
    needs_query = Given(np.eye(2))
    needs_query.query = "text"
    with refused(Invalid):
        needs_query.distances(np.zeros((2, 1)))
    with refused(DoesNotFit, 300, "0.0"):  # before they are made
        Given(np.eye(300)).distances(np.zeros((300, 1)), memory_bytes=1000)


# the folder


@pytest.fixture
def checkpoint(drop_similarity: Callable[..., Path]) -> Path:
    return drop_similarity()


def change(**values: Any) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return make


def weights(edit: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        values = load_file(folder / "model.safetensors")
        edit(values)
        (folder / "model.safetensors").unlink()
        save_file(values, folder / "model.safetensors")

    return make


def instead(name: str, put: Callable[[Path], object]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / name).unlink()
        put(folder / name)

    return make


def moved_and_linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


FAULTS = {
    "nan": (weights(lambda w: w["expand"].fill_(float("nan"))), (Malformed, "model.safetensors")),
    "shape": (weights(lambda w: w.update(expand=torch.zeros(32, 5))), (Malformed, "model.safetensors")),
    "lacking": (weights(lambda w: w.pop("expand")), (Malformed, "model.safetensors")),
    "more": (weights(lambda w: w.update(more=torch.zeros(2))), (Malformed, "model.safetensors")),
    "other network": (change(network="qs3m"), (Malformed, "model.safetensors", "qs3m")),
    "huge": (change(dimensions=100_000), (Malformed, "model.safetensors")),
    "huge qs3m": (change(dimensions=100_000, network="qs3m"), (Malformed, "model.safetensors", "qs3m")),
    "empty": (instead("model.safetensors", Path.touch), (Malformed, "model.safetensors")),
    "absent": (instead("model.safetensors", lambda path: None), (Missing, "model.safetensors")),
    "pipe": (instead("model.safetensors", os.mkfifo), (Inaccessible, "model.safetensors")),
    "pipe as config": (instead("config.json", os.mkfifo), (Inaccessible, "similarity/config.json")),
    "no config": (instead("config.json", lambda path: None), (Missing, "similarity/config.json")),
    "no json": (instead("config.json", lambda path: path.write_text("{")), (Malformed, "similarity/config.json")),
    "a list": (instead("config.json", lambda path: path.write_text("[]")), (Malformed, "config.json")),
    "unknown key": (change(temprature=1), (Invalid, "similarity/config.json", "temprature")),
    "wrong value": (change(network="qs4m"), (Invalid, "similarity/config.json", "qs4m")),
    "no query": (change(query="none"), (Invalid, "similarity/config.json", "none")),
    "link": (moved_and_linked, (Unsafe, "similarity")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_checkpoint_is_refused_in_one_line_that_names_the_file(checkpoint: Path, name: str) -> None:
    assert checkpoints.check(checkpoint).kind == "pairwise"
    spoil, refusal = FAULTS[name]
    spoil(checkpoint / "similarity")
    with refused(*refusal, checkpoint):
        checkpoints.check(checkpoint)


def test_vectors_of_another_length_than_the_weights_are_for_are_refused(checkpoint: Path) -> None:
    similarity = TrainedSimilarity.at(checkpoint)
    with refused(Malformed, "similarity/config.json", 32, 31):
        similarity.distances(np.zeros((3, 31), dtype=np.float32), np.zeros(31, dtype=np.float32))


def test_weights_that_were_written_since_they_were_hashed_are_not_used(checkpoint: Path) -> None:
    similarity = TrainedSimilarity.at(checkpoint)
    weights(lambda values: values["expand"].mul_(2))(checkpoint / "similarity")
    with refused(Changed, checkpoint / "similarity"):
        similarity.distances(np.ones((2, 32), dtype=np.float32), np.ones(32, dtype=np.float32))


def test_weights_that_were_loaded_can_be_trained_on_and_do_not_follow_the_file(checkpoint: Path) -> None:
    network = load_network(TrainedSimilarity.at(checkpoint))
    before = network.expand.detach().clone()
    (checkpoint / "similarity" / "model.safetensors").write_bytes(b"")
    assert torch.equal(network.expand, before)
    torch.optim.SGD(network.parameters(), lr=1.0).zero_grad()
    network.forward(*torch.rand(3, 4, 32)).sum().backward()
    assert network.expand.grad is not None


def test_weights_of_half_precision_compare_in_single_precision(checkpoint: Path) -> None:
    X, query = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32), np.ones(32, dtype=np.float32)
    before = TrainedSimilarity.at(checkpoint).distances(X, query)
    weights(lambda values: values.update({name: v.half() for name, v in values.items()}))(checkpoint / "similarity")
    after = TrainedSimilarity.at(checkpoint).distances(X, query)
    assert after.dtype == np.float32 and np.allclose(before, after, atol=0.01)
