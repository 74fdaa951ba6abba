"""Vectors of Matryoshka models, cut to their first dimensions and made unit again."""

from pathlib import Path

import numpy as np
import pytest

from tests.errors import refused
from tests.made import make_module
from traube import evaluate, load_model
from traube._core.errors import Invalid, Unknown
from traube.models import ModelCard
from traube.models.naming import name_model
from traube.models.transformer import Transformer

TEXTS = ["the cat", "a dog a star", "soup", "bread bread bread the dog"]


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer

    modules = [make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model"


@pytest.mark.parametrize("dimensions", [1, 8, 32])
def test_vectors_are_those_of_sentence_transformers_cut_and_normalized(folder: Path, dimensions: int) -> None:
    from sentence_transformers import SentenceTransformer

    own = SentenceTransformer(str(folder), device="cpu", truncate_dim=dimensions)
    found = load_model(f"{folder}@{dimensions}", "cpu")
    assert found.card.dimensions == dimensions and found.name.endswith(f"@{dimensions}")
    assert np.allclose(found.encode(TEXTS), own.encode(TEXTS, normalize_embeddings=True), atol=1e-5)
    card = ModelCard(name="cut", model=str(folder), dimensions=dimensions)
    assert np.array_equal(Transformer(card, "cpu").encode(TEXTS), found.encode(TEXTS))


def test_a_cut_model_is_another_model(folder: Path) -> None:
    whole, cut, shorter = (load_model(f"{folder}{by}", "cpu") for by in ("", "@16", "@8"))
    assert len({model.fingerprint for model in (whole, cut, shorter)}) == 3
    found = evaluate(TEXTS * 2, [whole, cut], "none/kmeans", labels=["a", "b", "a", "b"] * 2)
    assert set(found.scores["model"]) == {whole.name, cut.name}


def test_names_of_cut_models(folder: Path) -> None:
    assert name_model("minilm@64") == "minilm@64" == load_model("minilm@64").name
    written = name_model(f"{folder}@8", write=True)  # the card is the whole model's
    assert load_model(written).card.dimensions == 8 and load_model(written.partition("@")[0]).card.dimensions is None
    for name in ("tfidf@8", "minilm_query_space@8"):
        with refused(Invalid, name.partition("@")[0]):
            load_model(name)
    with refused(Invalid, 32, 33):
        load_model(f"{folder}@33", "cpu").encode(TEXTS)
    for name in ("minilm@0", "minilm@", "minilm@x", "nothing@8"):
        with refused(Unknown, "minilm"):
            load_model(name)
