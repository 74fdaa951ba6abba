"""Folders of `--name-with` that somebody else made: each is refused in a line, or names clusters within the limits."""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.test_hostile_folders import causal, edited, outcome
from traube._grouping.naming import Topic, name_topics
from traube.models import causal as causal_models
from traube.models.causal import CausalModel
from traube.papers.giccs.likelihood import likelihoods

TOPIC = {0: Topic(["cat", "dog"], ["the cat a dog " * 40] * 3)}
Attack = Callable[[Path], object]
# Settings of a generation: none of them makes an answer longer than was requested, or takes more than one beam.
GENERATION = (
    *("max_new_tokens", "max_length", "min_length", "min_new_tokens", "num_beams", "num_return_sequences", "max_time"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "repetition_penalty", "stop_strings", "custom_generate"),
    *("cache_implementation", "prompt_lookup_num_tokens", "assistant_early_exit", "suppress_tokens", "guidance_scale"),
)
SIZES = ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "n_inner", "attn_pdrop", "layer_norm_epsilon")
TOKENS = ("model_max_length", "max_length", "stride", "pad_to_multiple_of", "extra_ids", "eos_token", "never_split")
HUGE = (2**62, -1, float("nan"), [10**6] * 1_000, "x" * 10_000)
DEEP = b"[" * 100_000 + b"]" * 100_000
FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json")


def content(name: str, held: bytes) -> Attack:
    return lambda folder: (folder / name).write_bytes(held)


def setting(name: str, key: str, value: Any) -> Attack:
    return lambda folder: edited(name, **{key: value})(folder, folder)


def tokens(**parts: Any) -> Attack:
    """Let the steps of tokenizer.json count, of which BERT's own class takes the words alone."""

    def spoil(folder: Path) -> None:
        edited("tokenizer.json", **parts)(folder, folder)
        edited("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder, folder)

    return spoil


def matrix(edit: Callable[[torch.Tensor], torch.Tensor]) -> Attack:
    def spoil(folder: Path) -> None:
        held = load_file(folder / "model.safetensors")
        name = max(held, key=lambda name: held[name].ndim)
        made = {key: value.clone() for key, value in {**held, name: edit(held[name])}.items()}
        (folder / "model.safetensors").unlink()
        save_file(made, folder / "model.safetensors", {"format": "pt"})

    return spoil


def replace(content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": "a"}, "content": content}


def attacks() -> Iterator[tuple[str, Attack]]:
    for name, keys in (("generation_config.json", GENERATION), ("config.json", (*GENERATION, *SIZES))):
        for i, key in enumerate(keys):
            value = HUGE[i % len(HUGE)]  # each setting meets one of them
            yield f"{name}: {key}: {str(value)[:10]}", setting(name, key, value)
    for key, value in product(TOKENS, HUGE[:2]):
        yield f"tokenizer_config.json: {key}: {str(value)[:10]}", setting("tokenizer_config.json", key, value)
    for name in FILES:
        for held in (DEEP, b"", b"[]", b"null", b"\xff\xfe\0", b'{"a": 1, "a": 2}'):
            yield f"{name}: {held[:10]!r}", content(name, held)
    yield "a made-up token", setting("tokenizer_config.json", "added_tokens_decoder", {f"{10**12}": {"content": "x"}})
    yield (
        "rotations",
        setting("config.json", "rope_parameters", {"rope_type": "yarn", "rope_theta": 1, "factor": 1e300}),
    )
    yield "a longer answer", tokens(decoder={"type": "Sequence", "decoders": [replace("aa")] * 40})
    yield "a longer prompt", tokens(normalizer=replace("a" * 100))
    yield "a template of 2 MiB", content("chat_template.jinja", b"x" * 2**21)
    yield "a template that is a pipe", lambda folder: os.mkfifo(folder / "chat_template.jinja")
    yield "a template that is a device", lambda folder: (folder / "chat_template.jinja").symlink_to("/dev/zero")
    yield "an unknown form", content("chat_template.jinja", b"{{ raise_exception(1) }}" * 1_000)
    for dtype in (torch.int64, torch.bool, torch.complex64, torch.float64):
        yield f"weights of {dtype}", matrix(lambda value, dtype=dtype: value.to(dtype))
    for value in ("nan", "inf", "1e38"):
        yield f"weights of {value}", matrix(lambda held, value=value: torch.full_like(held, float(value)))


def answer(folder: Path) -> str:
    model = CausalModel.load(str(folder), local=True)
    names, note = name_topics(TOPIC, model)
    assert "\n" not in note
    likelihoods(model, "the cat", ["a dog", "the soup"])
    reply, count = model.reply("the cat", 4)
    assert count <= model.longest + 4 and len(reply) < 1_000
    return names.get(0, "")


@pytest.mark.slow
def test_no_language_model_answers_without_an_end(tiny_bert: Path, tmp_path: Path) -> None:
    sound = causal(tiny_bert, tmp_path / "sound")
    name = answer(sound)
    assert name
    let_through = []
    for what, attack in attacks():
        folder = Path(shutil.copytree(sound, tmp_path / "case"))
        attack(folder)
        found, error = outcome(lambda folder=folder: answer(folder))
        assert "\n" not in error and len(error) < 2_000, what
        let_through += [what] if not error else []
        is_other = any(word in what for word in ("eos_token_id", "tokenizer_config", "longer", "weights"))
        assert error or is_other or found == name, what
        shutil.rmtree(folder)
    assert {"an unknown form", f"generation_config.json: max_new_tokens: {str(2**62)[:10]}"} <= set(let_through)
    assert not {"a template of 2 MiB", "weights of nan", "rotations", "a longer answer"} & set(let_through)


def test_a_prompt_is_cut_for_any_model(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may say that it takes a billion tokens, and a tokenizer make many of a text."""
    model = CausalModel.load(str(causal(tiny_bert, tmp_path / "model")), local=True)
    assert model.longest == 64  # as its configuration says
    monkeypatch.setattr(model.model.config, "n_positions", 10**9)
    assert model.longest == causal_models.LONGEST
    monkeypatch.setattr(causal_models, "LONGEST", 16)
    assert model.reply("the cat " * 1_000, 4)[1] <= 16
    _, error = outcome(lambda: likelihoods(model, "the cat " * 1_000, ["a dog"]))
    assert "it takes 16 at most" in error
    assert likelihoods(model, "the cat", ["a dog"])
