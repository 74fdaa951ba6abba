"""The catalog: what it names parses, is described, and loads from the allowlists in little."""

import gzip
import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from deploy import make_catalogue as script
from tests.errors import refused
from tests.made import make_module
from traube._core.config import read_yaml
from traube._core.errors import Changed, Unsafe
from traube._reports.languages import describe_count, fit_languages
from traube.models import ModelCard
from traube.models import card as cards_module
from traube.models._allowed import ARCHITECTURES
from traube.models._batching import reads_tokens
from traube.models.card import CATALOGUE, FACTS, GENERATED, catalogue
from traube.models.choosing import find_score, fits_memory, published_scores, sort_by_promise, sort_by_score
from traube.models.transformer import Transformer

TEXTS = ["the cat", "a dog a star", "soup", "bread bread the dog"]
GB = 10**9
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "pad_token_id": 0}
# Keys that published configurations have, and the native network's own lacks or leaves at its default
NOMIC = """
    activation_function attn_pdrop causal dense_seq_output embd_pdrop fused_bias_fc fused_dropout_add_ln
    layer_norm_epsilon max_trained_positions mlp_fc1_bias mlp_fc2_bias pad_vocab_size_multiple parallel_block prenorm
    qkv_proj_bias reorder_and_upcast_attn resid_pdrop rotary_emb_fraction rotary_emb_interleaved rotary_emb_scale_base
    rotary_scaling_factor scale_attn_by_inverse_layer_idx scale_attn_weights summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj use_flash_attn use_rms_norm use_xentropy
"""
GTE = "layer_norm_type logn_attention_clip1 logn_attention_scale pack_qkv unpad_inputs use_memory_efficient_attention"
EUROBERT = "bos_token clf_pooling eos_token mask_token pad_token"
MODERNBERT = """
    deterministic_flash_attn reference_compile repad_logits_with_grad sparse_pred_ignore_index sparse_prediction
"""
CODE = {"auto_map": {"AutoModel": "modeling.Model"}}
# Of each architecture: settings of the tiny network, keys that published configurations have besides, and modules.
NORMALIZED = [("Normalize",)]
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any], str, list[tuple[Any, ...]]]] = {
    "bert": (SIZES, {"gradient_checkpointing": False, "id2label": {"0": "LABEL_0"}}, "cls", NORMALIZED),
    "labse": (SIZES, {"directionality": "bidi", "pooler_type": "first_token_transform"}, "cls", [("Dense", 32, 32), *NORMALIZED]),
    "electra": ({**SIZES, "embedding_size": 32}, {"summary_type": "first", "summary_use_proj": True}, "mean", NORMALIZED),
    "mpnet": (SIZES, {"relative_attention_num_buckets": 32}, "mean", NORMALIZED),
    "roberta": (SIZES, {"classifier_dropout": None, "position_embedding_type": "absolute"}, "cls", NORMALIZED),
    "xlm-roberta": (SIZES, {"output_past": True, "adapters": {"config_map": {}}}, "mean", NORMALIZED),
    "modernbert": (
        {**SIZES, "cls_token_id": 2, "sep_token_id": 3},
        dict.fromkeys(MODERNBERT.split(), False),
        "cls",
        NORMALIZED,
    ),
    "nomic_bert": (SIZES, {**CODE, **dict.fromkeys(NOMIC.split(), False)}, "mean", NORMALIZED),
    "gte": (SIZES, {**CODE, **dict.fromkeys(GTE.split(), False)}, "cls", NORMALIZED),
    "gemma3_text": (
        {**SIZES, "use_bidirectional_attention": True, "query_pre_attn_scalar": 16},
        {"_sliding_window_pattern": 6, "attn_logit_softcapping": None, "use_cache": True},
        "mean",
        [("Dense", 32, 64), ("Dense", 64, 32), *NORMALIZED],
    ),
    "eurobert": (SIZES, {**CODE, **dict.fromkeys(EUROBERT.split(), "<|a|>")}, "lasttoken", NORMALIZED),
    "qwen2": (SIZES, {"max_window_layers": 21, "use_sliding_window": False}, "mean", NORMALIZED),
    "qwen3": (SIZES, {"max_window_layers": 28, "rope_scaling": None}, "lasttoken", NORMALIZED),
    "mistral": (SIZES, {"sliding_window": 4096}, "lasttoken", NORMALIZED),
    "t5": (T5, {"feed_forward_proj": "relu", "task_specific_params": {"summarization": {}}}, "mean", [("Dense", 32, 16), *NORMALIZED]),
}  # fmt: skip


def model(folder: Path, **card: Any) -> Transformer:
    return Transformer(ModelCard.model_validate({"name": "tiny", "model": str(folder), **card}), "cpu")


def make_tiny(shape: str, tiny_bert: Path, folder: Path) -> Path:
    """Make a network of few weights in the layout in which models of its architecture are published."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoConfig, AutoModel, AutoTokenizer, T5EncoderModel

    settings, _, pooling, after = SHAPES[shape]
    architecture = {"labse": "bert"}.get(shape, shape)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture, vocab_size=len(tokenizer), **settings)
    network = T5EncoderModel(config) if shape == "t5" else AutoModel.from_config(config)
    network.save_pretrained(folder / "body")
    tokenizer.save_pretrained(folder / "body")
    modules = [make_module("Transformer", str(folder / "body")), make_module("Pooling", 32, pooling_mode=pooling)]
    modules += [make_module(*module) for module in after]
    prompts = {"clustering": "the "}
    SentenceTransformer(modules=modules, device="cpu", prompts=prompts).save(
        str(folder / "model"), create_model_card=False
    )
    return folder / "model"


def publish(folder: Path, more: Mapping[str, Any]) -> None:
    """Write a folder's settings as published ones are: of older versions, with keys that are not needed."""
    modules = json.loads((folder / "modules.json").read_text())
    for entry in modules:
        entry["type"] = f"sentence_transformers.models.{entry['type'].rpartition('.')[2]}"
    (folder / "modules.json").write_text(json.dumps(modules))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**more, **config, "transformers_version": "4.40.0"}))


def test_each_architecture_of_the_catalog_has_a_tiny_network_here() -> None:
    listed = {card.architecture for card in catalogue().values() if card.architecture}
    assert listed == {*SHAPES} - {"labse"} | {"static"}
    assert listed - {"static"} <= ARCHITECTURES


@pytest.mark.parametrize("shape", SHAPES)
def test_a_published_layout_loads_and_gives_the_librarys_vectors(shape: str, tiny_bert: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = make_tiny(shape, tiny_bert, tmp_path)
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, prompt_name="clustering")
    publish(folder, SHAPES[shape][1])
    assert np.allclose(model(folder).encode(TEXTS), expected, rtol=0, atol=1e-6)
    assert reads_tokens(model(folder).network)


@pytest.mark.parametrize("key", ["embeddings", "embedding.weight"])
def test_vectors_of_tokens_load_as_their_libraries_write_them(key: str, tiny_bert: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    place = "" if key == "embeddings" else "0_StaticEmbedding"
    (tmp_path / place).mkdir(exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert).backend_tokenizer
    tokenizer.save(str(tmp_path / place / "tokenizer.json"))
    vectors = torch.randn(tokenizer.get_vocab_size(), 8, generator=torch.Generator().manual_seed(0))
    save_file({key: vectors}, tmp_path / place / "model.safetensors")
    module = {"idx": 0, "name": "0", "path": place or ".", "type": "sentence_transformers.models.StaticEmbedding"}
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    (tmp_path / "config.json").write_text('{"model_type": "model2vec", "architectures": ["StaticModel"]}')
    found = model(tmp_path).encode(["soup"])
    assert np.allclose(found[0], vectors[tokenizer.token_to_id("soup")].numpy(), atol=1e-6)


@pytest.mark.parametrize("architecture", ["new", "xlm-roberta-flash", "voyage"])
def test_an_architecture_with_code_of_its_own_is_refused(architecture: str, tiny_bert: Path, tmp_path: Path) -> None:
    folder = make_tiny("bert", tiny_bert, tmp_path)
    publish(folder, {})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": architecture}))
    with refused(Unsafe, architecture):
        model(folder).encode(TEXTS)


def test_what_describes_a_model_changes_neither_its_settings_nor_its_fingerprint(tiny_bert: Path) -> None:
    entries, _ = read_yaml(CATALOGUE)
    for name, entry in entries.items():
        plain = ModelCard.model_validate({"name": name, **entry})
        assert catalogue()[name].model_dump(exclude={*FACTS}) == plain.model_dump(exclude={*FACTS})
    facts = {"parameters": 7, "vector_sizes": [32], "longest_input": 8, "license": "mit", "released": date(2024, 1, 2)}
    assert model(tiny_bert, **facts, megabytes=3, architecture="bert").fingerprint == model(tiny_bert).fingerprint
    assert model(tiny_bert, max_length=8).fingerprint != model(tiny_bert).fingerprint


def test_what_a_person_chooses_by_is_known_of_every_generated_entry() -> None:
    entries, _ = read_yaml(GENERATED)
    cards = [catalogue()[name] for name in entries["models"]]
    assert len(cards) + len(read_yaml(CATALOGUE)[0]) == len(catalogue())  # no name is given twice
    assert len({card.model for card in cards}) == len(cards) >= 60
    for card in cards:
        assert card.parameters and card.vector_sizes and card.released and card.languages, card.name
        assert card.vector_sizes == tuple(sorted(card.vector_sizes)) and card.max_length is None, card.name
        assert (card.template is None) == (card.instruction is None) and not (card.prompt and card.template), card.name
        assert card.template is None or {*re.findall(r"{(\w+)}", card.template)} == {"instruction", "text"}
    left_out = re.findall(r"^#   (\S+/\S+): ", GENERATED.read_text(encoding="utf-8"), re.MULTILINE)
    assert "mongodb/voyage-4-nano" in left_out and not {*left_out} & {card.model for card in catalogue().values()}


def test_a_name_of_both_halves_or_of_none_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, name in (("about: {}\nmodels: {bow: {}}", "bow"), ("about: {bwo: {}}\nmodels: {}", "bwo")):
        (tmp_path / "made.yaml").write_text(text)
        monkeypatch.setattr(cards_module, "GENERATED", tmp_path / "made.yaml")
        with refused(Changed, name, "make catalogue"):
            catalogue.__wrapped__()


def test_published_scores_are_of_models_in_the_catalog_and_order_them() -> None:
    assert {name for name, _ in published_scores()} <= catalogue().keys()
    assert all(0 < score < 100 for score in published_scores().values())
    small, large = catalogue()["multilingual_e5_small"], catalogue()["multilingual_e5_large"]
    unscored = ModelCard(name="mine")
    assert sort_by_score([unscored, small, large], ["de"]) == [large, small, unscored]
    assert sort_by_score([large, small, unscored], ["fr"]) == [small, large, unscored]  # none is known: by size
    assert find_score(small, ["de", "fr"]) is None and find_score(small, []) is None
    old, new = catalogue()["labse"], catalogue()["qwen3_embedding_0.6b"]
    assert sort_by_promise([unscored, old, new], ["fr"]) == [new, old, unscored]
    assert sort_by_promise([new, old], ["de"]) == [old, new]  # its German scores are not complete


def test_three_models_are_suggested_that_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {}
    for free in (8, 400):
        memory = SimpleNamespace(available=free * GB)
        monkeypatch.setattr("psutil.virtual_memory", lambda memory=memory: memory)
        fit = fit_languages(["de"], ["minilm"])
        names[free] = [card.name for card in fit.suggestions]
        assert all(fits_memory(card, free * GB) for card in fit.suggestions)
        assert f"and {len(fit.left_out) - 3} more (`traube models --language de`)" in fit.suggested
    assert names[400][0] == "e5_mistral_7b_instruct" and len(names[400]) == 3
    assert names[8] == ["mxbai_embed_de_large_v1", "gte_multilingual_base", "multilingual_e5_base"]
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=GB))
    fit = fit_languages(["de"], ["minilm"])
    assert not fit.suggestions and not fit.command("traube run")
    assert fit.suggested.startswith(f"{len(fit.left_out)} that need more memory than this machine has free (`traube")
    assert not fits_memory(ModelCard(name="mine"), 400 * GB)  # nobody knows how large it is


def test_counts_have_three_digits() -> None:
    assert [describe_count(n) for n in (None, 22_713_216, 560_000_000, 7_111_000_000)] == ["", "22.7M", "560M", "7.1B"]


def meta(**changed: Any) -> SimpleNamespace:
    about = {
        "name": "somebody/Some-Model",
        "loader": json.loads,
        "loader_kwargs": {},
        "languages": ["eng-Latn"],
        "memory_usage_mb": 449,
        "max_tokens": 514.0,
        "embed_dim": 384,
        "n_parameters": 1000,
        "license": "mit",
        "release_date": "2024-02-08",
        "revision": "f" * 40,
    }
    return SimpleNamespace(**{**about, **changed})


def test_the_script_writes_what_mteb_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "iso_639_1_to_3.json").write_text('{"en": "eng", "de": "deu"}')
    monkeypatch.setattr(script, "files", lambda _: tmp_path)
    listed = script.Listed("somebody/Some-Model", "bert")
    entry = script.describe(listed, meta(loader_kwargs={"model_prompts": {"Clustering": "clustering: "}}))
    assert listed.name == "some_model" and (entry["megabytes"], entry["longest_input"]) == (471, 512)
    assert entry["prompt"] == "clustering: " and "template" not in entry
    assert entry["languages"] == ["en"] and "prompt" not in script.describe(listed, meta())
    spoken = ["deu-Latn", "nob-Latn", "xyz-Latn", "python-Code"]
    assert script.describe(listed, meta(languages=spoken))["languages"] == ["de", "no", "xyz"]
    assert script.read_languages([f"{a}{b}x-Latn" for a in "abcdefgh" for b in "abcdefgh"]) == ["mul"]
    assert (
        script.find_template(meta(loader_kwargs={"instruction_template": "Do {instruction}: "}))
        == "Do {instruction}: {text}"
    )
    assert "longest_input" not in script.describe(listed, meta(max_tokens=float("inf")))


@pytest.mark.parametrize(
    ("listed", "fault"),
    [
        (("mongodb/voyage-4-nano", "bert"), "listed and left out"),
        (("somebody/Some-Model", "new"), "new is refused"),
        (("somebody/minilm", "bert"), "minilm: named twice"),
        (("somebody/Some-Model", "bert"), "mteb loads code from its repository"),
        (("somebody/Some-Model", "bert", "", "", (), (), None, None, True), None),
    ],
)
def test_the_script_stops_at_what_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, listed: tuple[Any, ...], fault: str | None
) -> None:
    model = script.Listed(*listed)
    monkeypatch.setattr(script, "LISTED", (model,))
    known = {name: meta(loader_kwargs={"trust_remote_code": True}) for name in (*script.LEFT_OUT, model.model)}
    if fault is None:
        script.check({model.name: {}}, {"minilm": {}}, known)
        return
    with pytest.raises(SystemExit, match=fault):
        script.check({model.name: {}}, {"minilm": {}}, known)


def test_the_script_takes_scores_of_the_catalogs_revision_and_of_all_tasks_of_a_language(tmp_path: Path) -> None:
    german, english = script.TASKS["de"], script.TASKS["en"]
    rows = [("a", "old", task, 0.2, "1.1.0") for task in german] + [
        ("a", "new", task, 0.4, "1.10.0") for task in german
    ]
    rows += [("a", "new", english[0], 0.5, None), *(("b", "one", task, 0.3, "1.9.0") for task in german[:3])]
    keys = ("model", "model_revision", "task", "v_measure", "mteb_version")
    with gzip.open(tmp_path / "results.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)

    def written(revision: str | None) -> dict[tuple[str, str], str]:
        revisions = {"first": revision, "second": None}
        ids = {"first": "a", "second": "b"}
        script.write_scores(tmp_path / "scores.csv", tmp_path / "results.gz", ids, revisions)
        lines = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()[1:]
        return {(model, language): score for model, language, score, *_ in (line.split(",") for line in lines)}

    assert written("old")["first", "de"] == "20.00"
    assert written(None)["first", "de"] == "40.00"  # the newest version of mteb: 1.10 comes after 1.9
    assert written(None)["first", "en"] == "50.00"
    assert ("second", "de") not in written(None)  # one task is missing
    assert written(None)["gbert_large", "de"] == "32.34"  # of the paper's own table
