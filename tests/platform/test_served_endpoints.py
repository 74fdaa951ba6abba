"""A model behind an endpoint is no champion, however good: a served artifact sends texts nowhere."""

from types import SimpleNamespace
from typing import Any

import pytest

from assets import registry
from traube.comparison import promotion
from traube.comparison.champions import Champions
from traube.models import ModelCard


@pytest.mark.parametrize("kind", ["endpoint", "transformer"])
def test_only_a_model_that_sends_nothing_can_be_a_champion(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    url = {"url": "https://models.example/v1"} if kind == "endpoint" else {}
    card = ModelCard.model_validate({"name": "far", "kind": kind, "model": "m", **url})
    model = SimpleNamespace(card=card, fingerprint="f", corpus_bound=False)
    candidate = SimpleNamespace(model="far", fingerprint="f", key=("far", "none/kmeans"))
    seen: dict[Any, str] = {}
    monkeypatch.setattr(promotion, "choose_sides", lambda options, weights, *_: seen.update(weights))
    registry._choose_sides(
        SimpleNamespace(find_version=lambda *_: None),  # type: ignore[arg-type]
        SimpleNamespace(model=lambda *_: model),  # type: ignore[arg-type]
        None,
        SimpleNamespace(manifest=lambda _: SimpleNamespace(corpus_version="c")),  # type: ignore[arg-type]
        {"words": [candidate]},  # type: ignore[list-item]
        Champions(),
    )
    assert (candidate.key in seen) == (kind == "transformer")
