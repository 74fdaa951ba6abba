"""Models that people pass: by name, hub id or folder, as a network in memory, or as a function."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.errors import Refusal, refused
from traube._core.errors import Failed, Malformed, Unavailable, Unknown
from traube.models import Model, load_model, to_model
from traube.models.given import FunctionModel, wrap_embeddings
from traube.models.transformer import Transformer

TEXTS = ["the cat", "a dog", "the moon and a star"]


def test_a_folder_is_a_model(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = load_model(tiny_bert, "cpu").encode(TEXTS)
    assert np.array_equal(load_model(str(tiny_bert), "cpu").encode(TEXTS), vectors)
    monkeypatch.chdir(tiny_bert.parent)
    assert np.array_equal(load_model(f"./{tiny_bert.name}", "cpu").encode(TEXTS), vectors)
    with refused(Unknown, f"./{tiny_bert.name}"):
        load_model(tiny_bert.name)
    with refused(Unknown, "./nothing"):
        load_model("./nothing")
    with refused(TypeError, "load_model", "int"):
        load_model(3)  # type: ignore[arg-type]


def test_a_hub_id_is_a_model_and_without_a_network_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("intfloat/multilingual-e5-small")
    assert (model.name, model.card.model) == ("multilingual_e5_small", "intfloat/multilingual-e5-small")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused(Unavailable, "multilingual_e5_small", "intfloat/multilingual-e5-small"):
        model.fetch()
    assert load_model("deepset/gbert-base").name == "gbert_base"


def test_a_network_in_memory_encodes_as_its_folder_does(minilm: Transformer) -> None:
    model = to_model(minilm.network, name="mine")
    assert model.name == "mine" and not model.trainable and model.weight_bytes == minilm.load()
    model.fetch()  # nothing is downloaded
    assert np.array_equal(model.encode(TEXTS), minilm.encode(TEXTS))
    assert model.precision == "fp32" and model.device == "cpu"


def test_weights_and_settings_of_a_network_say_which_model_it_is(tiny_bert: Path) -> None:
    network = load_model(tiny_bert, "cpu").network  # type: ignore[attr-defined]
    before = to_model(network).fingerprint
    assert to_model(network, name="another").fingerprint == before
    assert pickle.loads(pickle.dumps(to_model(network))).fingerprint == before
    length, network.max_seq_length = network.max_seq_length, 8
    assert to_model(network).fingerprint != before
    network.max_seq_length = length
    assert to_model(network).fingerprint == before
    next(network.parameters()).data[0, 0] += 1
    assert to_model(network).fingerprint != before


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), 1.0] for text in texts])


@pytest.mark.parametrize(
    "function", [lengths, lambda texts: lengths(texts).tolist(), lambda t: sparse.csr_array(lengths(t))]
)
def test_a_function_from_texts_to_vectors_is_a_model(function: Any) -> None:
    model = to_model(function)
    assert model.name in ("lengths", "function") and model.similarity is None and model.encoder is model
    values = model.encode(TEXTS)
    assert values.dtype == np.float32 and values.shape == (3, 2)
    assert model.encode_new(TEXTS, ["ab"])[0, 0] == 2
    assert to_model(function).fingerprint != model.fingerprint  # nothing says that it is still the same


@pytest.mark.parametrize(
    ("function", "refusal"),
    [
        (lambda texts: np.ones((1, 4)), (Malformed, "mine", 1, 4, 3)),
        (lambda texts: np.ones(3), (Malformed, "mine", 3)),
        (lambda texts: "vectors", (Malformed, "mine")),
        (lambda texts: 1 / 0, (Failed, "mine", 3)),
    ],
)
def test_a_function_that_gives_no_vectors_is_one_clear_error(function: Any, refusal: Refusal) -> None:
    with refused(*refusal):
        FunctionModel(function, "mine").encode(TEXTS)


def test_embeddings_are_a_model_of_their_texts() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    model = wrap_embeddings(["a", "b", "a"], values)
    assert model.encode(["b", "a"]).tolist() == [[2, 3], [0, 1]]
    assert (
        model.fingerprint
        == wrap_embeddings(["a", "b", "a"], values).fingerprint
        != wrap_embeddings(["a"], values + 1).fingerprint
    )


def test_a_model_stays_as_it_is_and_auto_is_minilm(minilm: Transformer) -> None:
    given: Model = minilm
    assert to_model(given) is minilm
    assert to_model("auto").name == "minilm"


@pytest.mark.parametrize("given", [3, None, ["minilm"], Transformer])
def test_what_is_no_model_is_a_type_error_that_says_what_to_pass(given: Any) -> None:
    with refused(TypeError, "pass"):
        to_model(given)
