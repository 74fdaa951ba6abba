"""AECL: its stages, what its clusters depend on, and how sizes set its weights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.papers.aecl.conftest import QUICK
from traube.components.deep.encoding import Encoded, copy_network
from traube.models.transformer import Transformer
from traube.papers.aecl.aecl import Aecl, count_stages, spread_weight
from traube.papers.aecl.on_encoder import encode_frozen

Grouped = tuple[list[str], list[str]]


@pytest.mark.parametrize(
    ("n", "k", "first", "second"),
    [
        (8_000, 4, 11, 1),  # AgNews
        (12_340, 8, 11, 1),  # SearchSnippets
        (20_000, 20, 3, 1),  # StackOverflow, Biomedical
        (11_109, 152, 11, 6),  # GoogleNews
        (2_472, 89, 21, 10),  # Tweet
    ],
)
def test_stages_are_as_long_as_the_papers_code_has_them(n: int, k: int, first: int, second: int) -> None:
    assert count_stages(Aecl.defaults, n, k) == (first, second)


def test_a_shorter_training_keeps_the_share_of_its_stages_but_for_those_that_are_given() -> None:
    def of(**values: int) -> tuple[int, int]:
        return count_stages(Aecl.with_values(**values).recipe, 2_472, 89)

    assert of(epochs=35) == (10, 5)
    assert of(epochs=3) == (1, 1)
    assert of(epochs=35, stage_1=0) == (0, 5)
    assert of(epochs=700) == (21, 10)
    assert count_stages(Aecl.defaults, 3_000, 8) == (21, 3)  # a set of few clusters is not left with a batch or two


def test_each_stage_has_its_losses(base: Transformer, grouped: Grouped, tmp_path: Path) -> None:
    clusterer = Aecl.with_values(**QUICK["aecl"] | {"epochs": 5, "stage_1": 2, "stage_2": 1})
    clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path)
    every = {"epoch", "loss", "contrast", "clusters", "changed", "sure"}
    third = {"clusters_contrast", "entropies", "labels"}
    assert [set(e) - every for e in clusterer.history] == [set(), set(), {"labels"}, third, third]
    without = Aecl.with_values(
        **QUICK["aecl"] | {"epochs": 2, "stage_1": 0, "stage_2": 0, "pseudo_labels": False, "contrast": "unguided"}
    )
    without.fit_predict(grouped[0], 3, base, 0, tmp_path)
    assert [set(e) - every for e in without.history] == [third - {"labels"}] * 2


@pytest.mark.parametrize(
    "values",
    [
        {"attention": "printed"},
        {"contrast": "printed", "cluster_contrast": "printed"},
        {"signs": "printed"},
        {"contrast": "confident", "threshold": 0.4},
        {"frozen": True},
        {"bf16": True},
        {"instance_temperature": 1.0, "cluster_temperature": 0.5},
    ],
    ids=lambda values: " ".join(values),
)
def test_each_way_of_training_trains(
    values: dict[str, object], base: Transformer, grouped: Grouped, tmp_path: Path
) -> None:
    clusterer = Aecl.with_values(**QUICK["aecl"] | {"epochs": 4, "stage_1": 2, "stage_2": 1} | values)
    clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path)
    losses = [entry["contrast"] for entry in clusterer.history]
    assert losses[-1] < losses[0]


def test_ns_falls_while_it_learns_and_ps_is_the_rest(base: Transformer, grouped: Grouped, tmp_path: Path) -> None:
    clusterer = Aecl.with_values(**QUICK["aecl"])
    clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path, labels=grouped[1])
    assert clusterer.history[-1]["ns"] < clusterer.history[0]["ns"]
    assert all(-1e-6 <= e["ns"] <= 1 and e["ns"] + e["ps"] == pytest.approx(1) for e in clusterer.history)


def test_attention_learns_from_equation_7_alone(base: Transformer, grouped: Grouped, tmp_path: Path) -> None:
    values = {"frozen": True, "scaled": True, "epochs": 20, "stage_1": 20, "batch": 54, "head_learning_rate": 3e-3}
    chance = 1 - 1 / 3  # of three groups of one size
    ns = {}
    for contrast in ("coded", "unguided"):
        clusterer = Aecl.with_values(**values, contrast=contrast)
        clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path / contrast, labels=grouped[1])
        ns[contrast] = clusterer.history[-1]["ns"]
    assert ns["coded"] < 0.8 * chance
    assert ns["unguided"] == pytest.approx(chance, abs=0.05)


def test_a_frozen_encoder_encodes_a_task_once_and_the_last_one_is_kept(base: Transformer, grouped: Grouped) -> None:
    def views(texts: list[str]) -> list[Encoded]:
        return [Encoded(copy_network(base, 32, True), view) for view in (texts, [f"{text} query" for text in texts])]

    first = encode_frozen(base, views(grouped[0]))
    again = encode_frozen(base, views(grouped[0]))  # another training has networks of its own
    assert all(a is b for a, b in zip(first, again, strict=True))
    others = encode_frozen(base, views(grouped[0][1:]))
    assert torch.allclose(others[1], first[1][1:], atol=1e-5)
    encoded = encode_frozen(base, views(grouped[0]))
    assert torch.equal(encoded[0], first[0]) and encoded[0] is not first[0]


def test_only_a_frozen_encoder_stays_as_it_is(base: Transformer, grouped: Grouped, tmp_path: Path) -> None:
    before = Encoded(copy_network(base, 32, True), grouped[0]).vectors()
    for frozen in (True, False):
        values = {"epochs": 2, "stage_1": 1, "stage_2": 1, "frozen": frozen, "learning_rate": 1e-3}
        clusterer = Aecl.with_values(**QUICK["aecl"] | values)
        clusterer.fit_predict(grouped[0], 3, base, 0, tmp_path / str(frozen))
        assert torch.equal(clusterer.fitted.vectors(), before) is frozen
        kept = torch.load(tmp_path / str(frozen) / "training.pt", weights_only=True)
        assert any(name.startswith("encoder") for name in kept["modules"]) is not frozen


def test_texts_are_encoded_alike_whatever_shares_their_batch(base: Transformer, grouped: Grouped) -> None:
    encoded = Encoded(copy_network(base, 32, True), grouped[0])
    encoded.network.eval()
    with torch.no_grad():
        few = encoded(np.array([5, 3, 40]))
    assert torch.allclose(few, encoded.vectors()[[5, 3, 40]], atol=1e-5)
    assert np.allclose(encoded.vectors().numpy(), base.encode(grouped[0]), atol=1e-5)
    short = Encoded(copy_network(base, 4, True), ["the cat dog star soup bread"])
    assert short.lengths.tolist() == [4]


def test_how_unlike_in_size_clusters_are_is_given_or_guessed_from_their_number() -> None:
    assert spread_weight(Aecl.defaults, 89) == 0.09
    assert spread_weight(Aecl.defaults, 8) == 0.18
    assert spread_weight(Aecl.with_values(balance="even").recipe, 89) == 10
