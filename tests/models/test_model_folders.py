"""A matrix of model folders: each gives the vectors of `SentenceTransformer.encode` bit for bit, or
is refused with the reason.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.errors import Refusal, refused
from tests.made import make_module, peer
from traube._core import paths
from traube._core.errors import Changed, Malformed, Missing, Unsafe
from traube.models import ModelCard, checkpoints
from traube.models._model_files import ModelFile
from traube.models.transformer import Transformer as Model
from traube.models.vetting import VettedFolder
from traube.models.weights import FILTER

TEXTS = ["the cat", "a dog a star", "soup", "bread bread bread the dog", "star", "the the a a cat cat"]
PROMPT = "query the "
POOLINGS = ("mean", "cls", "lasttoken", "weightedmean")
WAYS = ((PROMPT, False), (PROMPT, True), (None, True))
# any two settings meet in some quick case, and a prompt that is left out of the pooling meets every pooling
QUICK = [
    (pooling, *WAYS[(i + j) % 3], (None, 8)[(i + j) % 2], rest)
    for (i, pooling), (j, rest) in product(enumerate(POOLINGS), enumerate(("plain", "dense", "normalized")))
]
# of the others, any pooling, way and cut together: what comes after them never sees which these were
RESTS = ("plain", "dense", "normalized")
OTHERS = [
    (pooling, *way, cut, RESTS[(i + j + (cut is None)) % 3])
    for (i, pooling), (j, way), cut in product(enumerate(POOLINGS), enumerate(WAYS), (None, 8))
]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS if case not in QUICK)]


def model(folder: Path, **card: Any) -> Model:
    return Model(ModelCard.model_validate({"name": "case", "model": str(folder), **card}), "cpu")


def saved(folder: Path, modules: list[Any], prompt: str | None = None, truncate_dim: int | None = None) -> Path:
    from sentence_transformers import SentenceTransformer

    prompts = {"prompts": {"cluster": prompt}, "default_prompt_name": "cluster"} if prompt else {}
    network = SentenceTransformer(modules=modules, device="cpu", truncate_dim=truncate_dim, **prompts)
    network.save(str(folder), create_model_card=False)
    return folder


def after(kind: str, dimensions: int) -> list[Any]:
    torch.manual_seed(1)
    modules = {"plain": [], "dense": [("Dense", dimensions, 16)], "normalized": [("Normalize",)]}[kind]
    return [make_module(*module) for module in modules]


def make_encoder(tiny_bert: Path, **pooling: Any) -> list[Any]:
    """An encoder and its pooling."""
    return [make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32, **pooling)]


@pytest.mark.parametrize(("pooling", "prompt", "include", "cut", "rest"), CASES)
def test_a_folder_gives_sentence_transformers_vectors(
    tiny_bert: Path, tmp_path: Path, pooling: str, prompt: str | None, include: bool, cut: int | None, rest: str
) -> None:
    modules = [*make_encoder(tiny_bert, pooling_mode=pooling, include_prompt=include), *after(rest, 32)]
    folder = saved(tmp_path / "model", modules, prompt, cut)
    found = model(folder).encode(TEXTS)
    assert found.shape[1] == (cut or (16 if rest == "dense" else 32))
    assert np.array_equal(found, peer(folder, TEXTS))


def test_the_matrix_can_fail(tiny_bert: Path, tmp_path: Path) -> None:
    """The settings that the matrix varies do change vectors, so equality is no matter of course."""
    found = set()
    for i, (prompt, include, cut) in enumerate(
        [(None, True, None), (PROMPT, True, None), (PROMPT, False, None), (None, True, 8)]
    ):
        folder = saved(tmp_path / str(i), make_encoder(tiny_bert, include_prompt=include), prompt, cut)
        found.add(model(folder).encode(TEXTS).tobytes())
    assert len(found) == 4


def old_layout(tiny_bert: Path, folder: Path) -> Path:
    """As sentence-transformers before version 2 saved it: every module in a folder of its own."""
    shutil.copytree(tiny_bert, folder / "0_Transformer")
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 32, "do_lower_case": false}'
    )
    (folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{path[2:]}"}
        for i, path in enumerate(("0_Transformer", "1_Pooling"))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def tiny_t5(tiny_bert: Path, folder: Path) -> Path:
    from transformers import AutoTokenizer, T5Config, T5EncoderModel

    torch.manual_seed(0)
    size = len(AutoTokenizer.from_pretrained(tiny_bert))
    config = T5Config(vocab_size=size, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, pad_token_id=0)
    T5EncoderModel(config).save_pretrained(folder / "body")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder / "body")
    ends = [make_module("Dense", 32, 16, bias=False), make_module("Normalize")]
    return saved(folder / "model", [*make_encoder(folder / "body"), *ends], PROMPT)


def static(tiny_bert: Path, folder: Path) -> Path:
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    module = make_module("StaticEmbedding", AutoTokenizer.from_pretrained(tiny_bert), embedding_dim=24)
    return saved(folder, [module], PROMPT, 8)


def causal(tiny_bert: Path, folder: Path) -> Path:
    """A plain decoder: sentence-transformers takes its last token."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


OTHERS: dict[str, Callable[[Path, Path], Path]] = {
    "old layout": old_layout,
    "T5": tiny_t5,
    "static": static,
    "plain": lambda bert, folder: Path(shutil.copytree(bert, folder)),
    "causal": causal,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_of_folders_too(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    folder = OTHERS[kind](tiny_bert, tmp_path / "made")
    assert np.array_equal(model(folder).encode(TEXTS), peer(folder, TEXTS))


def test_a_causal_model_is_pooled_by_its_last_token_unless_a_card_says_otherwise(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = causal(tiny_bert, tmp_path / "model")
    last, mean = model(folder), model(folder, pooling="mean")
    assert np.array_equal(last.encode(TEXTS), model(folder, pooling="lasttoken").encode(TEXTS))
    assert not np.allclose(last.encode(TEXTS), mean.encode(TEXTS))
    assert last.fingerprint != mean.fingerprint


def test_a_static_model_is_a_checkpoint_like_any_other(tiny_bert: Path, home: Path) -> None:
    static(tiny_bert, checkpoints.paths.checkpoints() / "static")
    assert checkpoints.check(checkpoints.paths.checkpoints() / "static").name == "static"
    assert not checkpoints.errors()


def test_a_card_may_say_another_prompt_or_none(tiny_bert: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", make_encoder(tiny_bert), PROMPT)
    without = saved(tmp_path / "without", make_encoder(tiny_bert))
    assert np.array_equal(model(folder, prompt="").encode(TEXTS), peer(without, TEXTS))
    assert model(folder, prompt="").fingerprint != model(folder).fingerprint
    assert np.array_equal(model(without, prompt=PROMPT).encode(TEXTS), peer(folder, TEXTS))


@pytest.mark.parametrize("kind", ["SparseEncoder", "CrossEncoder"])
def test_what_gives_no_dense_vector_of_a_text_is_refused(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path / "model", make_encoder(tiny_bert))
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": kind}))
    with refused(Malformed, kind):
        model(folder).encode(TEXTS)


# fingerprints


def nested(tiny_bert: Path, folder: Path) -> Path:
    """The old layout with a plain list of words in the subfolder: no tokenizer.json."""
    made = old_layout(tiny_bert, folder)
    inside = made / "0_Transformer"
    words = json.loads((inside / "tokenizer.json").read_text())["model"]["vocab"]
    (inside / "vocab.txt").write_text("\n".join(sorted(words, key=words.get)) + "\n")
    (inside / "tokenizer.json").unlink()
    return made


def test_a_vocabulary_in_a_subfolder_is_part_of_the_fingerprint(tiny_bert: Path, tmp_path: Path) -> None:
    one, other = nested(tiny_bert, tmp_path / "one"), nested(tiny_bert, tmp_path / "other")
    assert model(one).fingerprint == model(other).fingerprint
    path = other / "0_Transformer" / "vocab.txt"
    words = path.read_text().split()
    path.write_text("\n".join([*words[:5], *reversed(words[5:])]) + "\n")
    assert not np.array_equal(model(one).encode(TEXTS), model(other).encode(TEXTS))
    assert model(one).fingerprint != model(other).fingerprint


def files_of(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in VettedFolder.at(folder).files)


def test_documents_and_what_is_never_opened_are_not_part_of_it(tiny_bert: Path, tmp_path: Path) -> None:
    folder = old_layout(tiny_bert, tmp_path / "model")
    before = list(files_of(folder))
    documents = ("README.md", "LICENSE", "checkpoint.json", "train.py")
    for name in (*documents, "onnx/model.onnx", "pytorch_model.bin.bak", ".cache/x.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    assert list(files_of(folder)) == before
    (folder / "0_Transformer" / "bpe.codes").write_text("x")
    assert "0_Transformer/bpe.codes" in files_of(folder)


def test_the_hub_downloads_what_is_hashed() -> None:
    """One list: huggingface_hub's own filter agrees with ours."""
    from huggingface_hub.utils import filter_repo_objects

    settings = ["config.json", "2_Dense/config.json"]
    vocabularies = ["0_Transformer/vocab.txt", "spiece.model", "tokenizer.model", "x/y/merges.txt"]
    names = [*settings, "1_Dense/model.safetensors", *vocabularies]
    pickles = ["pytorch_model.bin", "pytorch_model.bin.index.json", "weights.dat"]
    formats = ["onnx/model.onnx", "onnx/config.json", "tf_model.h5"]
    others = ["README.md", "modeling.py", ".gitattributes", "chat_template.jinja"]
    assert list(filter_repo_objects([*names, *pickles, *formats, *others], **FILTER)) == names


def test_a_folder_without_a_vocabulary_where_it_is_looked_for_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = old_layout(tiny_bert, tmp_path / "old")
    (folder / "0_Transformer" / "tokenizer.json").rename(folder / "tokenizer.json")  # tokenizer_config.json stays
    with refused(Missing, "0_Transformer/tokenizer.json"):
        model(folder).encode(TEXTS)


def test_an_empty_vocabulary_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = nested(tiny_bert, tmp_path / "model")
    (folder / "0_Transformer" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    with refused(Malformed, "case"):
        model(folder).encode(TEXTS)


def test_weights_that_are_overwritten_between_hashing_and_loading_are_noticed(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    chosen = model(folder)
    before = chosen.fingerprint
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with refused(Changed, "case"):
        chosen.encode(TEXTS)
    assert model(folder).fingerprint != before
    assert len(model(folder).encode(TEXTS)) == len(TEXTS)


def test_weights_that_are_linked_between_hashing_and_loading_are_the_same(tiny_bert: Path, tmp_path: Path) -> None:
    """As uv does, which installs a model's package into another environment."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    chosen = model(folder)
    before = chosen.fingerprint
    (tmp_path / "other.safetensors").hardlink_to(folder / "model.safetensors")
    assert len(chosen.encode(TEXTS)) == len(TEXTS)
    assert model(folder).fingerprint == before


def test_a_folder_that_was_sound_is_refused_once_it_is_not(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    assert model(folder).folder == folder
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text("[]")
    with refused(Malformed, "config.json"):
        _ = model(folder).folder
    (folder / "config.json").write_text(config)
    assert model(folder).folder == folder


def nan_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"][0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def cut_off(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        (nan_weights, (Malformed, "model.safetensors", "embeddings.LayerNorm.bias")),
        (cut_off, (Malformed, "model.safetensors")),
        (lambda folder: (folder / "config.json").write_text("{"), (Malformed, "config.json")),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), (Unsafe, "model")),
    ],
)
def test_a_checkpoint_that_cannot_be_evaluated_is_refused_before_it_is(
    tiny_bert: Path, tmp_path: Path, spoil: Callable[[Path], object], refusal: Refusal
) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    spoil(folder)
    with refused(*refusal) as error:
        checkpoints.check(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_checkpoint_is_looked_at_once_and_its_contents_are_read_once(
    is_broken: bool, tiny_bert: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(tiny_bert, paths.checkpoints() / "own")
    if is_broken:
        (folder / "config.json").write_text("{}")
    looks, reads = [], Counter[str]()
    at, read = VettedFolder.at, ModelFile.read
    monkeypatch.setattr(VettedFolder, "at", lambda *a, **k: looks.append(a) or at(*a, **k))
    monkeypatch.setattr(ModelFile, "read", lambda file, *most: reads.update([file.name]) or read(file, *most))
    if is_broken:
        with refused(Unsafe, "model_type"):
            checkpoints.check(folder)
    else:
        checkpoints.check(folder)
        assert reads["tokenizer.json"] == reads["config.json"] == 1
        (folder / "config.json").touch()  # another stamp: it is looked at again
        checkpoints.check(folder)
        assert reads["config.json"] == 2
    assert len(looks) == 1 + (not is_broken)
