"""Folders that try to run code or to pass other weights off: nothing runs, whatever reads them.

Each folder would create a file whose name begins with MARK. Nothing is patched here: the folders are
read by what users call, and the marks are looked for.
"""

import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.errors import refused
from tests.made import Mark, make_module, peer
from traube._core import paths
from traube._core.errors import Conflict, Malformed, TraubeError, Unsafe
from traube._core.hashing import file_sha256
from traube.models import ModelCard, checkpoints, load_model
from traube.models import _allowed as allowed
from traube.models.causal import CausalModel
from traube.models.language import load_language_model
from traube.models.transformer import Transformer as Model
from traube.models.vetting import VettedFolder, no_pickles

TEXTS = ["the cat", "a dog a star", "soup"]
Attack = Callable[[Path, Path], object]  # spoils a folder; what it would run creates the second path


def test_the_pickles_of_these_tests_do_run_code(tmp_path: Path) -> None:
    torch.save({"x": Mark(tmp_path / "mark")}, tmp_path / "x.bin")
    torch.load(tmp_path / "x.bin", weights_only=False)
    assert (tmp_path / "mark").exists()


# the folders


def path_in(folder: Path, name: str) -> Path:
    """Return the path of a file, in a folder that is there."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return folder / name


def edited(name: str, **values: Any) -> Attack:
    """Add keys to a JSON file, which need not be there."""

    def spoil(folder: Path, _mark: Path) -> None:
        path = path_in(folder, name)
        held = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**held, **values}))

    return spoil


def pickled(name: str, *, instead: bool) -> Attack:
    """Put a pickle beside the weights, or in their place."""

    def spoil(folder: Path, mark: Path) -> None:
        path = path_in(folder, name)
        with path.open("wb") as file:
            torch.save({"x": Mark(mark)}, file)
        if instead:
            (path.parent / "model.safetensors").unlink(missing_ok=True)

    return spoil


def indexed(name: str, file: str) -> Attack:
    """An index that names a pickle."""

    def spoil(folder: Path, mark: Path) -> None:
        pickled(str(Path(name).parent / file), instead=True)(folder, mark)
        (folder / name).write_text(json.dumps({"metadata": {}, "weight_map": {"x": file}}))

    return spoil


def coded(name: str) -> Attack:
    """A module of Python."""
    return lambda folder, mark: path_in(folder, name).write_text(f"open({str(mark)!r}, 'w')\n")


def both(*attacks: Attack) -> Attack:
    def spoil(folder: Path, mark: Path) -> None:
        for attack in attacks:
            attack(folder, mark)

    return spoil


def change_module(**values: str) -> Attack:
    """Give the first module another class (`type`) or place (`path`)."""

    def spoil(folder: Path, _mark: Path) -> None:
        modules = json.loads((folder / "modules.json").read_text())
        modules[0].update(values)
        (folder / "modules.json").write_text(json.dumps(modules))

    return spoil


def routed(tiny_bert: Path, folder: Path) -> Path:
    """A router with one route, to an encoder with pooling."""
    child = folder / "0_Router" / "query_0_Transformer"
    shutil.copytree(tiny_bert, child)
    pooling = folder / "0_Router" / "query_1_Pooling"
    pooling.mkdir()
    (pooling / "config.json").write_text('{"embedding_dimension": 32, "pooling_mode": "mean"}')
    settings = {
        "types": {
            "query_0_Transformer": "sentence_transformers.base.modules.transformer.Transformer",
            "query_1_Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        },
        "structure": {"query": ["query_0_Transformer", "query_1_Pooling"]},
        "parameters": {"default_route": "query", "allow_empty_key": True},
    }
    (folder / "0_Router" / "router_config.json").write_text(json.dumps(settings))
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "0_Router", "type": "sentence_transformers.models.Router"}])
    )
    return folder


def with_modules(tiny_bert: Path, folder: Path) -> Path:
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(1)
    body, pooling = make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32)
    modules = [body, pooling, make_module("Dense", 32, 16), make_module("LayerNorm", 16), make_module("Normalize")]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


def static(tiny_bert: Path, folder: Path) -> Path:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    torch.manual_seed(1)
    module = make_module("StaticEmbedding", AutoTokenizer.from_pretrained(tiny_bert), embedding_dim=8)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder), create_model_card=False)
    return folder


def plain(tiny_bert: Path, folder: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, folder))


SOUND: dict[str, Callable[[Path, Path], Path]] = {
    "plain": plain,
    "modules": with_modules,
    "router": routed,
    "static": static,
}
# where a network lies in each, and its weights' other places
NETWORKS = {"plain": "", "modules": "", "router": "0_Router/query_0_Transformer/", "static": ""}
PICKLES = (
    *("pytorch_model.bin", "model.bin", "adapter_model.bin", "model.pt", "model.pth", "model.ckpt", "weights.dat"),
    *("vocab.pkl", "training_args.bin", "optimizer.pt", ".metadata", "model.safetensors.pkl", "tokenizer.pickle"),
)
UNSAFE: dict[str, Any] = {
    "use_safetensors": False,
    "weights_only": False,
    "trust_remote_code": True,
    "gguf_file": "x.gguf",
    "subfolder": "other",
    "variant": "x",
    "state_dict": {},
    "adapter_kwargs": {"subfolder": "x"},
    "revision": "x",
    "attn_implementation": "somebody/kernel",
    "quantization_config": {"quant_method": "bitsandbytes"},
    "local_files_only": False,
    "config": "other",
    "device_map": {"": "disk"},
    "kernel_config": {"x": "y"},
}
ARGUMENTS = (
    *("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs"),
    "processing_kwargs",
)
SETTINGS: dict[str, Any] = {
    "tokenizer_name_or_path": "other",
    "backend": "onnx",
    "query_expansion": {},
    "transformer_task": "retrieval",
    "modality_config": {"text": {"method": "save_pretrained", "method_output_name": "x"}},
}
CONFIG: dict[str, Any] = {
    "transformers_weights": "adapter_model.bin",
    "auto_map": {"AutoModel": "code.Model"},
    "quantization_config": {"quant_method": "awq"},
    "attn_implementation": "somebody/kernel",
    "_attn_implementation": "flash_attention_3",
    "_attn_implementation_internal": "somebody/kernel",
    "experts_implementation": "somebody/kernel",
    "fusion_config": {"patch": {}},
    "use_kernels": True,
    "distributed_config": {"tp_plan": "auto"},
    "per_layer_config": {"0": {"transformers_weights": "adapter_model.bin"}},
    "text_config": {"model_type": "bert", "transformers_weights": "adapter_model.bin"},
    "rope_parameters": {"rope_type": "default", "transformers_weights": "x"},
    "rope_scaling": {"full_attention": {"rope_type": "default", "x": "y"}},
    "hidden_act": "../code",
    "tokenizer_class": "CodeTokenizer",
    "dtype": "load",
    "torch_dtype": "hub",
    "architectures": ["../../code.Model"],
    "custom_pipelines": {"x": {"impl": "code.Pipeline"}},
    "gguf_file": "x",
    "model_type": "timm_wrapper",
    "extra_files": ["adapter_model.bin"],
    "layer_types": [[[["x"]]]],
    "peft_config": {"base_model_name_or_path": "x"},
}
TOKENIZER: dict[str, Any] = {
    "auto_map": {"AutoTokenizer": ["code.Tokenizer", None]},
    "tokenizer_class": "CodeTokenizer",
    "sp_model_kwargs": {"model_file": "/etc/passwd"},
    "added_tokens_decoder": {"0": {"content": "[PAD]", "auto_map": "x"}},
    "processor_class": "CodeProcessor",
    "mecab_kwargs": {"mecab_option": "-d /tmp"},
    "backend": "code",
    "extra_special_tokens": {"__class__": {"content": "x", "lstrip": False, "__type": "Code"}},
}
CLASSES = (
    *("sentence_transformers.sparse_encoder.modules.MLMTransformer", "sentence_transformers.models.CLIPModel"),
    *("sentence_transformers.models.WordEmbeddings", "sentence_transformers.models.BoW", "os.system", "builtins.exec"),
    *("sentence_transformers.util.http_get", "sentence_transformers.cross_encoder.modules.LogitScore"),
    *("sentence_transformers.models.Transformer ", "sentence_transformers.models.transformer", "code.Model"),
    *("sentence_transformers.models..Transformer", "torch.hub.load", "sentence_transformers.models.Asym", ""),
    *("sentence_transformers.multi_vector_encoder.modules.MultiVectorMask", "somebody/repo--code.Model"),
)
ACTIVATIONS = ("os.system", "torch.load", "torch.hub.load", "torch.nn.modules.activation.Tanh.__class__", "code.Tanh")


def attacks(kind: str) -> Iterator[tuple[str, Attack]]:
    """Each attack on a kind of folder, with a name."""
    yield from attacks_on_layout(kind)
    if kind != "static":
        yield from attacks_on_settings(NETWORKS[kind])
        yield from attacks_on_modules(kind)


def attacks_on_layout(kind: str) -> Iterator[tuple[str, Attack]]:
    """Pickles, indexes and code beside or instead of weights, and classes and paths in modules.json."""
    at = NETWORKS[kind]
    others = {"modules": ("1_Pooling/", "2_Dense/", "3_LayerNorm/"), "router": ("0_Router/", at)}
    for there in ("", *others.get(kind, ())):
        for name, instead in product(PICKLES, (True, False)):
            yield f"{there}{name} {'for' if instead else 'beside'} weights", pickled(f"{there}{name}", instead=instead)
        for index in ("pytorch_model.bin.index.json", "model.safetensors.index.json"):
            yield f"{there}{index}", indexed(f"{there}{index}", "weights.dat")
        for name in ("modeling.py", "__init__.py", "code.py", "custom_generate/generate.py"):
            yield f"{there}{name}", coded(f"{there}{name}")
    for kind_of_class in CLASSES if kind != "plain" else ():
        yield f"modules.json: {kind_of_class}", both(change_module(type=kind_of_class), coded("code.py"))
    for path in ("..", "/etc", "a/../..", "0_Router/../..", "./x", "x\\..", ".\n") if kind != "plain" else ():
        yield f"modules.json: path {path}", change_module(path=path)


def attacks_on_settings(at: str) -> Iterator[tuple[str, Attack]]:
    """Settings of a network and its tokenizer, in a folder, that would load pickles or code."""
    pickle_here = pickled(f"{at}pytorch_model.bin", instead=False)
    other_weights = pickled(f"{at}adapter_model.bin", instead=False)
    for name, argument in product(allowed.TRANSFORMER_SETTINGS[:2], ARGUMENTS):
        for key, value in UNSAFE.items() if name == allowed.TRANSFORMER_SETTINGS[0] else [*UNSAFE.items()][:3]:
            yield f"{name}: {argument}: {key}", both(pickle_here, edited(f"{at}{name}", **{argument: {key: value}}))
    for key, value in SETTINGS.items():
        yield f"settings: {key}", edited(f"{at}sentence_bert_config.json", **{key: value})
    code = coded(f"{at}code.py")
    for key, value in CONFIG.items():
        yield f"config.json: {key}", both(other_weights, code, edited(f"{at}config.json", **{key: value}))
    for key, value in TOKENIZER.items():
        yield f"tokenizer_config.json: {key}", both(code, edited(f"{at}tokenizer_config.json", **{key: value}))
    for name in ("adapter_config.json", "processor_config.json", "preprocessor_config.json", "video.json"):
        yield name, both(code, edited(f"{at}{name}", auto_map={"AutoProcessor": "code.P"}))
    yield "tokenizer.json: key", edited(f"{at}tokenizer.json", code="x")
    yield "tokenizer.json: deep key", edited(f"{at}tokenizer.json", normalizer={"type": "Sequence", "code": "x"})
    yield "special_tokens_map.json", edited(f"{at}special_tokens_map.json", code={"content": "x"})
    yield "generation_config.json", edited(f"{at}generation_config.json", custom_generate="code.py")
    yield "twice", lambda folder, _: (folder / at / "config.json").write_text(twice(folder / at / "config.json"))


def attacks_on_modules(kind: str) -> Iterator[tuple[str, Attack]]:
    """Settings of the modules around a network."""
    if kind == "modules":
        for name in ACTIVATIONS:
            yield f"activation {name}", both(edited("2_Dense/config.json", activation_function=name), coded("code.py"))
        yield "package", edited("config_sentence_transformers.json", requirements={"code": "x"})
        yield "pooling", edited("1_Pooling/config.json", pooling_mode="x", code="y")
    if kind == "router":
        settings = "0_Router/router_config.json"
        for name in CLASSES:
            yield f"router: {name}", edited(settings, types={"query_0_Transformer": name, "query_1_Pooling": name})
        for place in ("", ".", "./", "query_0_Transformer/"):
            types = {place: "sentence_transformers.models.Transformer"}
            yield f"router: a module at {place!r}", edited(settings, types=types)
        yield "router: up", edited(settings, types={"../..": "sentence_transformers.models.Transformer"})
        yield "router: mappings", edited(settings, parameters={"route_mappings": {"(" * 999: "query"}})
        yield "router: key", edited(settings, code="x")


def is_never_opened(kind: str, name: str) -> bool:
    """Return whether an attack adds only files that no list has, where no weights are looked for."""
    without_weights = {"modules": ("1_Pooling/",), "router": ("0_Router/", "")}.get(kind, ())
    place = name.split(" ")[0].rpartition("/")[0]
    return (
        "beside weights" in name
        or name.endswith((".py", "processor_config.json", "video.json", ": auto_map", ": processor_class"))
        or ((" for weights" in name or "index.json" in name) and f"{place}/".lstrip("/") in without_weights)
    )


def twice(path: Path) -> str:
    """A key twice: readers differ in which they take."""
    return path.read_text().rstrip().removesuffix("}") + ', "model_type": "timm_wrapper"}'


def model(folder: Path) -> Model:
    return Model(ModelCard(name="case", model=str(folder)), "cpu")


def vectors(folder: Path) -> np.ndarray:
    return model(folder).encode(TEXTS)


def outcome(load: Callable[[], Any]) -> tuple[Any, str]:
    """Return what is loaded, and the error; any other error than one for users fails the test."""
    try:
        return load(), ""
    except TraubeError as error:
        return None, str(error)


# what becomes of them


def mark_slow(kind: str) -> Any:
    """Mark the kinds of folders that have many places to attack."""
    return pytest.param(kind, marks=pytest.mark.slow) if kind in ("modules", "router") else kind


@pytest.mark.parametrize("kind", [mark_slow(kind) for kind in SOUND])
def test_no_folder_runs_code_and_each_is_refused_in_a_line_or_gives_the_vectors_of_its_safetensors(
    tiny_bert: Path, tmp_path: Path, kind: str
) -> None:
    sound = SOUND[kind](tiny_bert, tmp_path / "sound")
    expected = vectors(sound)
    for name, attack in attacks(kind):
        folder = Path(shutil.copytree(sound, tmp_path / "spoilt" / "case"))
        attack(folder, tmp_path / "MARK")
        found, error = outcome(lambda folder=folder: vectors(folder))
        assert error or np.array_equal(found, expected), name
        assert "\n" not in error and (not error or str(folder) in error), name
        assert bool(error) != is_never_opened(kind, name), name
        assert not list(tmp_path.glob("MARK*")), name
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", SOUND)
def test_what_is_let_through_gives_sentence_transformers_vectors(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    folder = SOUND[kind](tiny_bert, tmp_path / "sound")
    assert np.array_equal(vectors(folder), peer(folder, TEXTS))


@pytest.mark.parametrize("kind", SOUND)
def test_the_tensors_in_memory_are_those_of_the_hashed_files(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    """A pickle beside them, of the same names and other values, changes neither vectors nor fingerprint."""
    folder = SOUND[kind](tiny_bert, tmp_path / "sound")
    before = model(folder)
    hashed = [path for path in VettedFolder.at(folder).files if path.suffix == ".safetensors"]
    kept = {value.numpy().tobytes() for path in hashed for value in load_file(path).values()}
    loaded = {name: value.numpy().tobytes() for name, value in before.network.state_dict().items()}
    assert loaded and all(value in kept for value in loaded.values())
    expected = before.encode(TEXTS)
    for path in hashed:
        torch.save({k: v + 1 for k, v in load_file(path).items()}, path.with_name("pytorch_model.bin"))
    after = model(folder)
    assert after.fingerprint == before.fingerprint and np.array_equal(after.encode(TEXTS), expected)
    weights = load_file(hashed[0])
    save_file({name: value + 1 for name, value in weights.items()}, hashed[0], {"format": "pt"})
    assert model(folder).fingerprint != before.fingerprint


@pytest.mark.parametrize("kind", ["plain", "modules", "router"])
def test_a_checkpoint_is_judged_by_its_lists(tiny_bert: Path, tmp_path: Path, home: Path, kind: str) -> None:
    """Try what `doctor`, the sensor and `models` call: every third attack, as a checkpoint."""
    sound = SOUND[kind](tiny_bert, tmp_path / "sound")
    folder = paths.checkpoints() / "case"
    for name, attack in list(attacks(kind))[::3]:
        shutil.copytree(sound, folder)
        attack(folder, tmp_path / "MARK")
        faults = checkpoints.errors()
        assert all("\n" not in str(error) for error in faults.values()), name
        assert not list(tmp_path.glob("MARK*")), name
        shutil.rmtree(folder)


def test_a_folder_in_the_layout_of_the_hub(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are links to blobs elsewhere; an index and pickles lie among them."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    storage = tmp_path / "hub" / "models--org--encoder"
    commit = "0" * 40
    snapshot = storage / "snapshots" / commit
    (storage / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in tiny_bert.iterdir():
        blob = storage / "blobs" / file_sha256(path)
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(blob)
    (storage / "refs").mkdir()
    (storage / "refs" / "main").write_text(commit)
    card = ModelCard(name="case", model="org/encoder", revision=commit)
    expected = Model(card, "cpu").encode(TEXTS)
    assert np.array_equal(expected, vectors(tiny_bert))
    pickled("pytorch_model.bin", instead=False)(snapshot, tmp_path / "MARK")
    assert np.array_equal(Model(card, "cpu").encode(TEXTS), expected)
    indexed("pytorch_model.bin.index.json", "weights.dat")(snapshot, tmp_path / "MARK")  # takes the weights away
    edited("sentence_bert_config.json", model_args={"use_safetensors": False})(snapshot, tmp_path / "MARK")
    with refused(Unsafe, "case"):
        Model(card, "cpu").encode(TEXTS)
    assert not list(tmp_path.glob("MARK*"))


# language models


def causal(tiny_bert: Path, folder: Path) -> Path:
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=8, n_layer=1, n_head=1)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_no_language_model_runs_code(tiny_bert: Path, tmp_path: Path) -> None:
    """Try what `--name-with` and `traube multiple-choice` load."""
    sound = causal(tiny_bert, tmp_path / "sound")
    CausalModel.load(str(sound), local=True)
    refused: list[str] = []
    cases = [case for case in attacks("plain") if "sentence_" not in case[0]]
    for name, attack in cases:
        folder = Path(shutil.copytree(sound, tmp_path / "spoilt"))
        attack(folder, tmp_path / "MARK")
        _, error = outcome(lambda folder=folder: CausalModel.load(str(folder), local=True))
        refused += [name] if error else []
        assert "\n" not in error and (not error or str(folder) in error), name
        assert not list(tmp_path.glob("MARK*")), name
        shutil.rmtree(folder)
    assert {f"config.json: {key}" for key in CONFIG} - {"config.json: auto_map"} <= set(refused)


TENSOR = "transformer.h.0.attn.c_attn.weight"
BROKEN_WEIGHTS: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]] = {
    "none": lambda weights: {},
    "renamed": lambda weights: {f"net.{name}": value for name, value in weights.items()},
    "one is gone": lambda weights: {name: value for name, value in weights.items() if name != TENSOR},
    "one more": lambda weights: {**weights, "transformer.h.7.x": torch.zeros(1)},
    "reshaped": lambda weights: {**weights, TENSOR: torch.zeros(3, 3)},
}
BROKEN_FILES: dict[str, Callable[[Path], object]] = {
    "torn": lambda folder: os.truncate(folder / "model.safetensors", 200),
    "empty": lambda folder: os.truncate(folder / "model.safetensors", 0),
    "config": lambda folder: (folder / "config.json").write_text("{"),
    "vocabulary": lambda folder: (folder / "tokenizer.json").unlink(),
}


@pytest.mark.parametrize("fault", [*BROKEN_WEIGHTS, *BROKEN_FILES])
def test_a_broken_language_model_names_no_groups_from_random_weights(
    tiny_bert: Path, tmp_path: Path, fault: str
) -> None:
    folder = causal(tiny_bert, tmp_path / "model")
    weights = folder / "model.safetensors"
    if fault in BROKEN_WEIGHTS:
        save_file(BROKEN_WEIGHTS[fault](load_file(weights)), weights, {"format": "pt"})
    else:
        BROKEN_FILES[fault](folder)
    _, error = outcome(lambda: CausalModel.load(str(folder), local=True))
    assert "\n" not in error and str(folder) in error


def test_a_template_of_a_language_model_is_never_run(tiny_bert: Path, tmp_path: Path) -> None:
    """A template is a program; its marks say which of the known forms a model was made for."""
    folder = causal(tiny_bert, tmp_path / "model")
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}<|im_start|>{% endfor %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(endless)
    model = CausalModel.load(str(folder), local=True)
    assert model.talk.startswith("<|im_start|>user\n{}")
    assert model.tokenizer.chat_template is None
    model.reply("the cat", 2)


def test_a_masked_language_model_with_its_head_is_loaded_and_without_it_only_to_be_trained(
    tiny_bert: Path, masked_model: Path
) -> None:
    from transformers import BertForMaskedLM

    tokenizer, network = load_language_model(masked_model, "masked")
    assert isinstance(network, BertForMaskedLM) and tokenizer.mask_token == "[MASK]"
    with refused(Malformed, "cls.predictions"):
        load_language_model(tiny_bert, "masked")
    assert isinstance(load_language_model(tiny_bert, "new")[1], BertForMaskedLM)


# the lists


@pytest.mark.parametrize("name", sorted(allowed.ARCHITECTURES))
def test_the_configuration_that_an_architecture_writes_of_itself_is_let_through(tmp_path: Path, name: str) -> None:
    from transformers import AutoConfig

    made = AutoConfig.for_model(name)
    path = tmp_path / "config.json"
    path.write_text(made.to_json_string(use_diff=False))
    (tmp_path / "vocab.txt").write_text("a\n")
    save_file({}, tmp_path / "model.safetensors")
    written = VettedFolder.at(tmp_path).contents["config.json"]
    assert isinstance(written, bytes)
    path.write_bytes(written)
    assert AutoConfig.from_pretrained(tmp_path).to_diff_dict() == made.to_diff_dict()


def test_every_class_on_the_list_is_one_of_the_library() -> None:
    from importlib import import_module

    for name, module in allowed.MODULES.items():
        assert issubclass(getattr(import_module(f"sentence_transformers.{module}"), name), torch.nn.Module)


def test_a_copy_holds_nothing_but_what_is_listed(tiny_bert: Path, tmp_path: Path) -> None:
    folder = with_modules(tiny_bert, tmp_path / "model")
    for name in ("pytorch_model.bin", "code.py", "README.md", "1_Pooling/x.pt", "more.safetensors", "onnx/config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    with VettedFolder.at(folder).copy() as copy:
        names = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if not path.is_dir()}
    assert names == {
        *("modules.json", "config_sentence_transformers.json", "config.json", "sentence_bert_config.json"),
        *("tokenizer.json", "tokenizer_config.json", "model.safetensors", "1_Pooling/config.json"),
        *("2_Dense/config.json", "2_Dense/model.safetensors", "3_LayerNorm/config.json"),
        *("3_LayerNorm/model.safetensors", "4_Normalize/config.json"),
    }


# defense in depth


def test_nothing_is_unpickled_while_a_folder_loads_and_everything_again_afterwards(tmp_path: Path) -> None:
    data = pickle.dumps([1])
    (tmp_path / "x.pkl").write_bytes(data)
    torch.save([1], tmp_path / "x.pt")
    loads: dict[str, Callable[[], Any]] = {
        "loads": lambda: pickle.loads(data),
        "load": lambda: pickle.load((tmp_path / "x.pkl").open("rb")),
        "Unpickler": lambda: pickle.Unpickler((tmp_path / "x.pkl").open("rb")).load(),
        "torch": lambda: torch.load(tmp_path / "x.pt"),
    }
    originals = (pickle.loads, pickle.load, pickle.Unpickler, torch.load)
    with no_pickles(), no_pickles():
        for load in loads.values():
            with refused(Unsafe):
                load()
    assert (pickle.loads, pickle.load, pickle.Unpickler, torch.load) == originals
    assert all(load() == [1] for load in loads.values())


def test_other_threads_go_on_unpickling_and_new_ones_do_not(tmp_path: Path) -> None:
    data = pickle.dumps([1])
    begin, found = threading.Event(), []

    def older() -> None:
        begin.wait(120)
        found.append(pickle.loads(data))

    def newer() -> None:
        try:
            found.append(pickle.loads(data))
        except TraubeError as error:
            found.append(error)

    thread = threading.Thread(target=older)
    thread.start()
    with no_pickles():
        begin.set()
        thread.join()
        later = threading.Thread(target=newer)
        later.start()
        later.join()
    assert found[0] == [1] and isinstance(found[1], TraubeError)


def test_a_card_that_names_a_folder_elsewhere(tiny_bert: Path, tmp_path: Path, home: Path) -> None:
    folder = with_modules(tiny_bert, tmp_path / "elsewhere")
    both(
        change_module(type="sentence_transformers.sparse_encoder.modules.MLMTransformer"),
        pickled("pytorch_model.bin", instead=False),
        edited("sentence_bert_config.json", model_args={"use_safetensors": False, "weights_only": False}),
    )(folder, tmp_path / "MARK")
    paths.cards().mkdir(parents=True, exist_ok=True)
    (paths.cards() / "theirs.yaml").write_text(f"name: theirs\nmodel: {folder}\n")
    with refused(Unsafe, "theirs"):
        load_model("theirs").encode(TEXTS)
    assert not list(tmp_path.glob("MARK*"))


# what a tester found


def test_two_modules_never_share_a_file(tiny_bert: Path, tmp_path: Path) -> None:
    """Each has its own list: a Dense where a network lies would name any class as its activation."""
    folder = plain(tiny_bert, tmp_path / "model")
    edited("config.json", activation_function="torch.testing.TestCase")(folder, tmp_path)
    kinds = ("Dense", "Transformer")
    entries = [
        {"idx": i, "name": str(i), "path": "", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    with refused(Conflict, "config.json"):
        vectors(folder)


def test_weights_that_are_overwritten_later_change_nothing_in_memory(tiny_bert: Path, tmp_path: Path) -> None:
    folder = plain(tiny_bert, tmp_path / "model")
    loaded = model(folder)
    before = loaded.encode(TEXTS)
    path = folder / "model.safetensors"
    with path.open("r+b") as file:  # in place, as a training might
        file.seek(path.stat().st_size // 2)
        file.write(bytes(path.stat().st_size // 2))
    assert np.array_equal(loaded.encode(TEXTS), before)


FIRST, SECOND = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
PANICS: dict[str, Any] = {
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA/w=="}},
    "template": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [SECOND],
            "pair": [FIRST, SECOND],
            "special_tokens": {},
        }
    },
    "growth": {"normalizer": {"type": "Sequence", "normalizers": [DOUBLED] * 34}},
}


@pytest.mark.parametrize("name", PANICS)
@pytest.mark.parametrize("kind", ["plain", "static"])
def test_a_tokenizer_that_panics_or_grows_is_one_line(
    tiny_bert: Path, tmp_path: Path, home: Path, kind: str, name: str
) -> None:
    folder = SOUND[kind](tiny_bert, paths.checkpoints() / "case")
    edited("tokenizer.json", **PANICS[name])(folder, tmp_path)
    edited("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder, tmp_path)
    _, error = outcome(lambda: vectors(folder))
    assert error and "\n" not in error and "traube-model-" not in error
    checkpoints.errors()  # one bad folder does not keep the others from being judged


@pytest.mark.parametrize("spoilt", [{"chunk_size_feed_forward": 7}, {"vocab_size": 5}])
def test_a_configuration_with_which_texts_fail_is_one_line(
    tiny_bert: Path, tmp_path: Path, spoilt: dict[str, int]
) -> None:
    folder = plain(tiny_bert, tmp_path / "model")
    edited("config.json", **spoilt)(folder, tmp_path)
    _, error = outcome(lambda: vectors(folder))
    assert error and "\n" not in error


def test_a_vocabulary_that_draws_lots_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = plain(tiny_bert, tmp_path / "model")
    held = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**held, "model": {**held["model"], "dropout": 0.5}}))
    with refused(Unsafe, "case"):
        vectors(folder)


def test_a_language_models_fingerprint_is_of_its_settings_and_vocabulary_too(tiny_bert: Path, tmp_path: Path) -> None:
    folder = causal(tiny_bert, tmp_path / "model")
    before = CausalModel.load(str(folder), local=True).fingerprint
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert CausalModel.load(str(tmp_path / "elsewhere"), local=True).fingerprint == before
    edited("config.json", activation_function="relu")(folder, tmp_path)
    assert CausalModel.load(str(folder), local=True).fingerprint != before


# Settings as they stand in well-known models (keys alone; the networks are tiny).
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "LaBSE": ("tokenizer_config.json", {"full_tokenizer_file": None, "init_inputs": [], "do_basic_tokenize": True}),
    "nomic": ("config.json", {"auto_map": {"AutoModel": "code.Model"}, "qkv_proj_bias": False, "use_flash_attn": True}),
    "bloom": ("config.json", {"attention_softmax_in_fp32": True, "seq_length": 64, "skip_bias_add": True}),
    "SmolLM2": (
        "config.json",
        {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"a": 1}},
    ),
    "old BERT": (
        "config.json",
        {"directionality": "bidi", "pooler_type": "first_token_transform", "adapters": {"a": {}}},
    ),
    "exported": ("config.json", {"quantization_config": None, "text_config": None, "eos_token_ids": 0}),
    "Qwen": ("tokenizer_config.json", {"sp_model_kwargs": None, "chat_template": "{{ x }}", "errors": "replace"}),
    "e5": ("sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False, "model_args": {}}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_well_known_models_say_is_let_through(tiny_bert: Path, tmp_path: Path, name: str) -> None:
    folder = with_modules(tiny_bert, tmp_path / "model")
    file, values = PUBLISHED[name]
    edited(file, **values)(folder, tmp_path)
    assert vectors(folder).shape == (3, 16)


def test_a_static_model_in_the_folder_itself_may_say_so_with_a_dot(tiny_bert: Path, tmp_path: Path) -> None:
    folder = static(tiny_bert, tmp_path / "model")
    expected = vectors(folder)
    change_module(path=".")(folder, tmp_path)
    assert np.array_equal(vectors(folder), expected)
