"""Weights are what they claim: a matrix of sound networks that are all accepted, and each with one
tensor missing, renamed, added or of another shape, which is refused by name.
"""

import json
import re
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.errors import refused
from tests.made import make_module
from traube._core.errors import Malformed, Missing, Unsafe
from traube.models import ModelCard, checkpoints, tensors
from traube.models.tensors import IDLE
from traube.models.transformer import Transformer as Model
from traube.models.vetting import VettedFolder


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder, to be spoiled."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def check_tensors(folder: Path) -> None:
    tensors.check_tensors(VettedFolder.at(folder))


def edit_config(folder: Path, **values: Any) -> None:
    held = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**held, **values}))


SMALL: dict[str, Any] = {
    "vocab_size": 16,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
T5: dict[str, Any] = {"vocab_size": 16, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
DISTIL: dict[str, Any] = {"vocab_size": 16, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
MODERN = {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
# What people publish as the body of an embedding model: plain encoders, the same with the heads that
# they were pre-trained with, encoders of translators, and causal models.
SOUND: dict[str, dict[str, Any]] = {
    name: settings
    for names, settings in (
        ("BertModel BertForMaskedLM BertForPreTraining BertForSequenceClassification", SMALL),
        ("RobertaModel RobertaForMaskedLM XLMRobertaModel XLMRobertaForMaskedLM", SMALL),
        ("CamembertModel CamembertForMaskedLM MPNetModel MPNetForMaskedLM", SMALL),
        ("ElectraModel ElectraForPreTraining ElectraForMaskedLM", {**SMALL, "embedding_size": 16}),
        ("AlbertModel AlbertForMaskedLM AlbertForPreTraining", {**SMALL, "embedding_size": 16}),
        ("DebertaV2Model DebertaV2ForMaskedLM", {**SMALL, "relative_attention": True}),
        ("DistilBertModel DistilBertForMaskedLM DistilBertForSequenceClassification", DISTIL),
        ("ModernBertModel ModernBertForMaskedLM", MODERN),
        ("T5EncoderModel T5ForConditionalGeneration MT5EncoderModel", T5),
        ("LlamaModel LlamaForCausalLM MistralModel Qwen2ForCausalLM Qwen3Model", GROUPED),
        ("GPT2Model GPT2LMHeadModel", {"vocab_size": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}),
    )
    for name in names.split()
}


def body(name: str, tiny_bert: Path, folder: Path) -> Path:
    """A body with random weights as transformers saves it, with a vocabulary of a few words."""
    import transformers

    torch.manual_seed(0)
    network = getattr(transformers, name)
    network(network.config_class(**SOUND[name])).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder


def change(folder: Path, how: Callable[[dict[str, torch.Tensor]], object], file: str = "model.safetensors") -> None:
    weights = load_file(folder / file)
    how(weights)
    save_file(weights, folder / file, {"format": "pt"})


def explain_refusal(folder: Path) -> str:
    with refused(Malformed, folder) as error:
        check_tensors(folder)
    return str(error.value)


@pytest.mark.parametrize("name", SOUND)
def test_valid_weights_are_accepted_and_a_wrong_tensor_is_named(tiny_bert: Path, tmp_path: Path, name: str) -> None:
    import transformers

    folder = body(name, tiny_bert, tmp_path / "model")
    check_tensors(folder)

    known = transformers.AutoModel.from_pretrained(folder).state_dict().keys()
    names = sorted(load_file(folder / "model.safetensors"))
    needed = [
        n for n in names if not IDLE.search(n) and any(n.endswith(k) for k in known) and not n.startswith("decoder.")
    ]
    whole = (folder / "model.safetensors").read_bytes()
    for chosen, is_renamed in ((needed[0], False), (needed[len(needed) // 2], True), (needed[-1], False)):
        short = ".".join(chosen.split(".")[-2:])

        def spoil(weights: dict[str, torch.Tensor], name: str = chosen, is_renamed: bool = is_renamed) -> None:
            tensor = weights.pop(name)
            if is_renamed:
                weights[f"net.{name}"] = tensor

        change(folder, spoil)
        assert short in explain_refusal(folder)
        (folder / "model.safetensors").write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "size"), [("encoder.layer.2.output.dense.bias", 32), ("embeddings.LayerNorm.bias", 31)]
)
def test_a_tensor_that_belongs_nowhere_or_has_another_shape_is_refused(folder: Path, name: str, size: int) -> None:
    change(folder, lambda weights: weights.update({name: torch.zeros(size)}))
    assert name in explain_refusal(folder)


@pytest.mark.parametrize("content", ["none", "prefixed"])
def test_weights_of_nothing_or_under_other_names_are_refused(tiny_bert: Path, content: str, home: Path) -> None:
    """They once gave a random network and a row on the leaderboard."""
    folder = checkpoints.paths.checkpoints() / "mine"
    shutil.copytree(tiny_bert, folder)
    weights = load_file(folder / "model.safetensors")
    other = {} if content == "none" else {f"net.{name}": tensor for name, tensor in weights.items()}
    save_file(other, folder / "model.safetensors", {"format": "pt"})
    assert "embeddings.LayerNorm.bias" in explain_refusal(folder)
    with refused(Malformed, folder, "embeddings.LayerNorm.bias"):
        checkpoints.check(folder)
    with refused(Malformed, "mine"):
        Model(ModelCard(name="mine", model=str(folder)), "cpu").encode(["the cat"])


def rename(weights: dict[str, torch.Tensor], new_name: Callable[[str], str]) -> None:
    for name in list(weights):
        weights[new_name(name)] = weights.pop(name)


def drop_pooler(weights: dict[str, torch.Tensor]) -> None:
    for name in [name for name in weights if name.startswith("pooler.")]:
        del weights[name]


def name_as_in_2018(weights: dict[str, torch.Tensor]) -> None:
    rename(weights, lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma"))
    rename(weights, lambda name: name.replace("LayerNorm.bias", "LayerNorm.beta"))
    weights["embeddings.position_ids"] = torch.arange(64)[None]


@pytest.mark.parametrize("how", [drop_pooler, name_as_in_2018, lambda weights: rename(weights, "bert.{}".format)])
def test_weights_without_a_pooler_and_names_that_transformers_knows_are_sound(
    folder: Path, how: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    change(folder, how)
    check_tensors(folder)


def test_an_encoder_that_uses_its_pooler_needs_it(folder: Path) -> None:
    change(folder, drop_pooler)
    settings = {"text": {"method": "forward", "method_output_name": "pooler_output"}}
    (folder / "sentence_bert_config.json").write_text(json.dumps({"modality_config": settings}))
    assert "pooler" in explain_refusal(folder)


# several files


def shards(tiny_bert: Path, folder: Path) -> Path:
    import transformers

    network = transformers.AutoModel.from_pretrained(tiny_bert)
    network.save_pretrained(folder, max_shard_size="20KB")
    transformers.AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    return folder


def card(folder: Path) -> ModelCard:
    return ModelCard(name="case", model=str(folder))


def test_weights_in_several_files_are_sound_and_each_is_needed(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shards(tiny_bert, tmp_path / "model")
    check_tensors(folder)
    Model(card(folder), "cpu").encode(["the cat"])
    next(folder.glob("model-*.safetensors")).unlink()
    with refused(Missing, "model.safetensors.index.json"):
        Model(card(folder), "cpu").encode(["the cat"])


@pytest.mark.parametrize("name", ["x.bin", "../model.safetensors", "/etc/model.safetensors", "x.pt", "x"])
def test_an_index_of_anything_but_safetensors_beside_it_is_refused_and_the_file_never_opened(
    tiny_bert: Path, tmp_path: Path, name: str
) -> None:
    class Burglar:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "burgled",))

    folder = shards(tiny_bert, tmp_path / "model")
    if "/" not in name:
        torch.save({"state": Burglar()}, folder / name)
    index = folder / "model.safetensors.index.json"
    about = json.loads(index.read_text())
    about["weight_map"] = dict.fromkeys(about["weight_map"], name)
    index.write_text(json.dumps(about))
    with refused(Unsafe, "index.json"):
        Model(card(folder), "cpu").encode(["the cat"])
    assert not (tmp_path / "burgled").exists()


# sentence-transformers' modules


def modules(tiny_bert: Path, folder: Path, *more: Any) -> Path:
    from sentence_transformers import SentenceTransformer

    body, pooling = make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32)
    network = SentenceTransformer(modules=[body, pooling, *more], device="cpu")
    network.save(str(folder), create_model_card=False)
    return folder


def test_every_module_has_its_own_weights(tiny_bert: Path, tmp_path: Path) -> None:
    more = make_module("Dense", 32, 16), make_module("LayerNorm", 16), make_module("Normalize")
    folder = modules(tiny_bert, tmp_path / "model", *more)
    check_tensors(folder)
    whole = (folder / "2_Dense" / "model.safetensors").read_bytes()
    change(folder / "2_Dense", lambda weights: weights.pop("linear.bias"))
    assert "linear.bias" in explain_refusal(folder)
    (folder / "2_Dense" / "model.safetensors").write_bytes(whole)
    check_tensors(folder)
    change(folder / "3_LayerNorm", lambda weights: weights.update(more=torch.zeros(1)))
    assert '"more"' in explain_refusal(folder)


def test_a_static_embedding_has_its_matrix(tiny_bert: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    module = make_module("StaticEmbedding", AutoTokenizer.from_pretrained(tiny_bert), embedding_dim=24)
    network = SentenceTransformer(modules=[module], device="cpu")
    network.save(str(tmp_path / "model"), create_model_card=False)
    check_tensors(tmp_path / "model")
    change(tmp_path / "model", lambda weights: weights.update({"net.weight": weights.pop("embedding.weight")}))
    assert "'embeddings'" in explain_refusal(tmp_path / "model")


# cost


MANY = {"num_hidden_layers": 10**6, "n_layers": 10**6, "inner_group_num": 10**8, "num_feedforward_networks": 10**8}


@pytest.mark.parametrize(("key", "number"), [*MANY.items(), ("block_sizes", [10**7] * 9)])
def test_a_million_layers_by_any_name_are_refused_at_once(folder: Path, key: str, number: int | list[int]) -> None:
    edit_config(folder, **{key: number})
    began = time.process_time()
    assert re.search(f"config.json: {key} [0-9,]+ ", explain_refusal(folder))
    assert time.process_time() - began < 60  # a million layers would take hours


# Architecture, and a table of positions that no weights have: as it is, and as it would take all memory.
TABLES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "frequencies": ("LlamaModel", {"num_attention_heads": 2}, {"head_dim": 10**9}),
    "fewer frequencies": ("LlamaModel", {"num_attention_heads": 2}, {"head_dim": 10**6}),
    "a part of the frequencies": ("GPTNeoXModel", {"num_attention_heads": 2}, {"head_dim": 10**8}),
    "positions": ("CodeGenModel", {"rotary_dim": 8, "n_embd": 16, "n_head": 2, "n_layer": 2}, {"n_positions": 10**9}),
    "rotations": ("CodeGenModel", {"rotary_dim": 8, "n_embd": 16, "n_head": 2, "n_layer": 2}, {"rotary_dim": 10**9}),
    "masks": ("GPTNeoModel", {"num_layers": 2, "num_heads": 2}, {"max_position_embeddings": 10**6}),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_positions_are_no_larger_than_weights_allow(tiny_bert: Path, tmp_path: Path, name: str) -> None:
    import transformers

    kind, settings, spoilt = TABLES[name]
    network = getattr(transformers, kind)
    sizes = {"hidden_size": 16, "vocab_size": 16, "num_hidden_layers": 2, "intermediate_size": 32}
    attention = {"attention_types": [[["global", "local"], 1]]} if kind == "GPTNeoModel" else {}
    network(network.config_class(**{**sizes, **settings, **attention})).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    check_tensors(tmp_path)
    edit_config(tmp_path, **spoilt)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "config.json" in explain_refusal(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


@pytest.mark.parametrize(("key", "number"), [("attention_window", [512, 1_025]), ("local_radius", 4_097)])
def test_windows_that_each_text_is_padded_to_have_a_limit(folder: Path, key: str, number: int | list[int]) -> None:
    edit_config(folder, **{key: 512})
    check_tensors(folder)
    edit_config(folder, **{key: number})
    with refused(Malformed, key, "config.json"):
        check_tensors(folder)


def test_the_comparison_reads_no_weights(minilm: Model) -> None:
    check_tensors(minilm.folder)  # what is imported is not part of it
    began = psutil.Process().memory_info().rss
    assert tensors._find_fault.__wrapped__(VettedFolder.at(minilm.folder)) == ""  # type: ignore[attr-defined]
    assert psutil.Process().memory_info().rss - began < 40e6  # the weights take 90


def test_the_comparison_leaves_random_numbers_as_they_are(folder: Path) -> None:
    """A training that loads its base model draws the same numbers as before."""
    change(folder, drop_pooler)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    check_tensors(folder)
    assert torch.equal(torch.rand(4), expected)
