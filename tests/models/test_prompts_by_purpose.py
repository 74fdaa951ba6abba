"""The prompt of a model: that for clustering where texts are clustered, that for similarity where pairs are compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from tests.errors import refused
from tests.made import make_module
from traube import evaluate_pairs
from traube._core.errors import Invalid
from traube.models import ModelCard, to_model
from traube.models.prompts import INSTRUCTIONS, choose_prompt, for_pairs
from traube.models.transformer import Transformer
from traube.tasks import PairCard, make_pairs

TEXTS = ["the cat", "a dog a star", "soup", "bread bread bread the dog"]
WEB = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
# prompts as the families write them into config_sentence_transformers.json (model cards, 2025), words of the tiny vocabulary
# put in place of theirs; and what is put before a text to be clustered, and before one of a pair
FAMILIES: dict[str, tuple[dict[str, str], str | None, str, str]] = {
    "none": ({}, None, "", ""),
    "sentence-transformers": ({"query": "", "document": ""}, None, "", ""),
    "nomic": (
        {"search_query": "soup: ", "search_document": "bread: ", "classification": "dog: ", "clustering": "star: "},
        None,
        "star: ",
        "",
    ),
    "EmbeddingGemma": (
        {
            "query": "the: soup | ",
            "document": "the: bread | ",
            "Clustering": "the: star | ",
            "STS": "the: cat | ",
            "PairClassification": "the: dog | ",
        },
        None,
        "the: star | ",
        "the: cat | ",
    ),
    "Qwen3": (
        {"query": WEB, "document": ""},
        None,
        f"Instruct: {INSTRUCTIONS['clustering']}\nQuery:",
        f"Instruct: {INSTRUCTIONS['similarity']}\nQuery:",
    ),
    "jina v3": (
        {"retrieval.query": "soup ", "retrieval.passage": "bread ", "separation": "star ", "text-matching": "cat "},
        None,
        "star ",
        "cat ",
    ),
    "e5": ({"query": "soup: ", "passage": "bread: "}, "query", "soup: ", "soup: "),
    "arctic": ({"query": "soup: "}, None, "", ""),
    "bge": ({"query": "soup for bread: "}, None, "", ""),
}


def model(folder: Path, **card: Any) -> Transformer:
    return Transformer(ModelCard.model_validate({"name": "case", "model": str(folder), **card}), "cpu")


def make_network(tiny_bert: Path, prompts: dict[str, str], default: str | None = None) -> Any:
    from sentence_transformers import SentenceTransformer

    modules = [make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32)]
    return SentenceTransformer(modules=modules, device="cpu", prompts=prompts, default_prompt_name=default)


def save(folder: Path, tiny_bert: Path, prompts: dict[str, str], default: str | None = None) -> Path:
    make_network(tiny_bert, prompts, default).save(str(folder), create_model_card=False)
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_purpose_has_its_prompt_with_vectors_and_a_fingerprint(tiny_bert: Path, tmp_path: Path, family: str) -> None:
    prompts, default, clustering, similarity = FAMILIES[family]
    folder = save(tmp_path / "model", tiny_bert, prompts, default)
    network = make_network(tiny_bert, {})
    clustered, compared = model(folder), for_pairs(model(folder))
    assert (clustered.prompt, compared.prompt) == (clustering, similarity)
    for found, prompt in ((clustered, clustering), (compared, similarity)):
        assert np.allclose(found.encode(TEXTS), network.encode(TEXTS, prompt=prompt), atol=1e-5)
    plain = network.encode(TEXTS)
    assert np.allclose(plain, clustered.encode(TEXTS), atol=1e-3) == (clustering == "")  # a prompt does change them
    # an object in memory behaves like its folder, and stays as it was
    given = make_network(tiny_bert, prompts, default)
    before = dict(given.prompts), given.default_prompt_name
    loaded = to_model(given)
    assert np.array_equal(loaded.encode(TEXTS), clustered.encode(TEXTS))
    assert np.array_equal(for_pairs(loaded).encode(TEXTS), compared.encode(TEXTS))
    assert (dict(given.prompts), given.default_prompt_name) == before
    # cells of models whose prompt is that of before keep their ids
    assert (clustered.fingerprint == compared.fingerprint) == (clustering == similarity)
    said = model(folder, prompt=clustering)
    assert np.array_equal(said.encode(TEXTS), clustered.encode(TEXTS))


def test_a_fingerprint_without_a_prompt_for_a_purpose_is_that_of_before(tiny_bert: Path, tmp_path: Path) -> None:
    """Version 0.2.0 hashed this: the files, and that the card leaves prompt, length and pooling to them."""
    from traube._core.hashing import digest
    from traube.models.transformer import FINGERPRINT

    for name, (prompts, default) in {"a": ({}, None), "b": ({"query": "soup: "}, "query")}.items():
        found = model(save(tmp_path / name, tiny_bert, prompts, default))
        files = {path.relative_to(found.folder).as_posix(): content for path, content in found._hashes.items()}
        assert found.fingerprint == digest([FINGERPRINT, files, ["", None, "mean", "fp32"]])


def test_a_card_says_it_otherwise(tiny_bert: Path, tmp_path: Path) -> None:
    prompts, default, *_ = FAMILIES["EmbeddingGemma"]
    folder = save(tmp_path / "gemma", tiny_bert, prompts, default)
    assert model(folder, prompt="").prompt == ""
    assert model(folder, prompt="soup ").prompt == for_pairs(model(folder, prompt="soup ")).prompt == "soup "
    assert model(folder, prompt_name="pair_classification").prompt == "the: dog | "
    with refused(Invalid, "Clusterings"):
        _ = model(folder, prompt_name="Clusterings").prompt
    with refused(ValidationError, "prompt"):
        model(folder, prompt="", prompt_name="STS")


def test_an_instruction_stands_in_the_models_template_or_the_cards(tiny_bert: Path, tmp_path: Path) -> None:
    team = "Identify the team that has to answer the ticket"
    qwen = save(tmp_path / "qwen", tiny_bert, FAMILIES["Qwen3"][0])
    assert model(qwen, instruction=team).prompt == f"Instruct: {team}\nQuery:"
    plain = save(tmp_path / "e5", tiny_bert, {})  # e5-instruct writes its template into its page alone
    template = "Instruct: {instruction}\nQuery: {text}"
    assert model(plain, template=template).prompt == f"Instruct: {INSTRUCTIONS['clustering']}\nQuery: "
    assert for_pairs(model(plain, template=template)).prompt == f"Instruct: {INSTRUCTIONS['similarity']}\nQuery: "
    assert model(plain, template=template, instruction=team).prompt == f"Instruct: {team}\nQuery: "
    with refused(Invalid, "case"):
        _ = model(plain, instruction=team).prompt
    with refused(ValidationError, "template"):
        model(plain, template="Instruct: {text} {instruction}")


def test_a_trained_network_keeps_the_prompt_that_it_was_trained_with(tiny_bert: Path, tmp_path: Path) -> None:
    prompts, default, clustering, _ = FAMILIES["nomic"]
    base = model(save(tmp_path / "model", tiny_bert, prompts, default))
    base.network.save(str(tmp_path / "trained"), create_model_card=False)
    trained = model(tmp_path / "trained")
    assert trained.prompt == for_pairs(trained).prompt == clustering
    without = model(tmp_path / "model", prompt="")
    without.network.save(str(tmp_path / "without"), create_model_card=False)
    assert model(tmp_path / "without").prompt == ""


@pytest.mark.parametrize("name", ["clustering", "Clustering", "CLUSTERING", "cluster", "separation", "Clust_er-ing"])
def test_names_are_compared_without_case_and_signs(name: str) -> None:
    card = ModelCard(name="case", model="a/b")
    assert choose_prompt(card, {"query": "q", name: "c"}, "query", "clustering") == "c"
    assert choose_prompt(card, {"query": "q", f"{name}s of pages": "c"}, "query", "clustering") == "q"


@pytest.mark.parametrize("content", ['{"prompts": []}', '{"prompts": {"clustering": 3}}', "[]"])
def test_odd_settings_have_no_prompts(tmp_path: Path, content: str) -> None:
    from traube.models.prompts import read_prompts

    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(json.loads(content)))
    assert read_prompts(tmp_path) == ({}, None)


def test_pairs_are_compared_with_the_prompt_for_similarity(tiny_bert: Path, tmp_path: Path) -> None:
    prompts, default, clustering, similarity = FAMILIES["EmbeddingGemma"]
    found = model(save(tmp_path / "model", tiny_bert, prompts, default))
    pairs = [("the cat", "a dog", 0.2), ("the cat", "the cat cat", 0.9), ("soup", "bread", 0.6), ("star", "soup", 0.1)]
    task = make_pairs(PairCard(name="few"), pd.DataFrame(pairs, columns=["text_a", "text_b", "score"]))
    value = evaluate_pairs(task, found)["pearson"][0]
    by_hand = {}
    for prompt in (clustering, similarity):
        one, other = (
            make_network(tiny_bert, {}).encode([pair[side] for pair in pairs], prompt=prompt) for side in (0, 1)
        )
        cosines = (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        by_hand[prompt] = np.corrcoef(cosines, [pair[2] for pair in pairs])[0, 1]
    assert value == pytest.approx(by_hand[similarity], abs=1e-4) != pytest.approx(by_hand[clustering], abs=1e-4)
