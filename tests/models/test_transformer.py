"""Sentence-transformers models: the same vectors as the original library's, faster, and never code
or pickles from a folder.
"""

import json
import logging
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.errors import check_names, refused
from tests.waiting import wait_for
from traube._core.errors import Corrupt, Failed, Invalid, TooFew, TooLarge, Unavailable, Unknown
from traube.models import ModelCard, _batching, card_errors, load_model, model_cards, to_model
from traube.models._batching import Block, Sent, cut_blocks, make_block, reads_tokens
from traube.models.transformer import Transformer

TEXTS = [
    "A cat sleeps on the warm windowsill.",
    "Stars are born in clouds of gas.",
    "soup",
    "The keeper saved a penalty in the last minute, and the crowd in the stadium would not stop singing. " * 20,
    "Größenwahn, naïve café, 日本語 🙂",
    " ",
    "soup",
]
WORDS = ["the cat", "a dog a star", "soup", "bread bread bread the dog", "star", "the the a a cat cat"] * 3


def tiny(folder: Path, device: str = "cpu", **card: object) -> Transformer:
    return Transformer(ModelCard.model_validate({"name": "tiny", "model": str(folder), **card}), device)


def deviation(a: np.ndarray, b: np.ndarray) -> float:
    """Largest 1 - cosine of rows."""
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a.astype(np.float64), b.astype(np.float64)))
    return float(1 - (a * b).sum(axis=1).min())


@pytest.fixture(scope="module")
def vectors(minilm: Transformer) -> np.ndarray:
    return minilm.encode(TEXTS)


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """The tiny encoder's folder, to be damaged."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


# vectors


def test_minilm_gives_the_vectors_of_sentence_transformers(minilm: Transformer, vectors: np.ndarray) -> None:
    from sentence_transformers import SentenceTransformer

    original = SentenceTransformer(str(minilm.folder), device="cpu").encode(TEXTS)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - original).max() < 1e-5


def test_vectors_do_not_depend_on_the_order_or_company_of_the_texts(minilm: Transformer, vectors: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(len(TEXTS))
    assert np.abs(minilm.encode([TEXTS[i] for i in order]) - vectors[order]).max() < 1e-6
    assert np.abs(minilm.encode([TEXTS[0]]) - vectors[:1]).max() < 1e-6


def test_equal_texts_have_equal_vectors_and_batches_cover_every_text_once(tiny_bert: Path) -> None:
    texts = WORDS * 20
    batches = list(tiny(tiny_bert).encode_batches(texts))
    assert len(batches) > 1
    assert sorted(np.concatenate([positions for positions, _ in batches])) == list(range(len(texts)))
    found = tiny(tiny_bert).encode(texts).reshape(20, len(WORDS), -1)
    assert np.abs(found - found[0]).max() < 1e-6


def test_vectors_do_not_depend_on_the_number_of_cores(minilm: Transformer) -> None:
    """Products of few rows are summed in another order where cores share them."""
    words = ("sum", "mean", "max", "min", "norm", "rank", "sort", "mode", "size")
    texts = [f"Return the {word} of an array along an axis." for word in words]
    threads, found = torch.get_num_threads(), {}
    try:
        for number in (1, 4):
            torch.set_num_threads(number)
            found[number] = minilm.encode(texts)
            assert torch.get_num_threads() == number  # what follows has all cores again
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(found[1], found[4])


@pytest.mark.parametrize("number", [1, 3, 1_000])
def test_shares_encoded_one_by_one_give_the_vectors_of_all_at_once(tiny_bert: Path, number: int) -> None:
    texts = WORDS * 20
    model = tiny(tiny_bert)
    shares = model.shares(texts, number, "cpu")
    assert (len(shares) == 1) == (number == 1)
    found = np.concatenate([model.encode([texts[i] for i in share]) for share in shares])
    np.testing.assert_array_equal(found, model.encode(texts)[np.concatenate(shares)])


def test_each_text_is_tokenized_once_and_the_next_block_while_one_is_computed(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_batching, "TEXTS_A_BLOCK", 40)
    model, texts = tiny(tiny_bert), [f"{text} soup" for text in WORDS * 10]
    expected = tiny(tiny_bert).network.encode(texts)
    body, seen = model.network[0], []
    preprocess = body.preprocess

    def note(self: object, texts: list[str], **more: object) -> object:
        seen.append(list(texts))
        return preprocess(texts, **more)

    monkeypatch.setattr(type(body), "preprocess", note)
    batches = model.encode_batches(texts)
    first = next(batches)
    wait_for(lambda: len(seen) == 2, "the block that comes next")  # and no other
    found = np.zeros((len(texts), expected.shape[1]), dtype=np.float32)
    for positions, block in [first, *batches]:
        found[positions] = block
    assert sorted(text for some in seen for text in some) == sorted(texts)
    assert np.abs(found - expected).max() < 1e-6


def test_blocks_hold_each_text_once_and_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batching, "TEXTS_A_BLOCK", 50)
    monkeypatch.setattr(_batching, "CHARACTERS_A_BLOCK", 1_000)
    texts = ["x" * (7 * i % 400) for i in range(300)]
    blocks = list(cut_blocks(texts, None))
    assert sorted(np.concatenate(blocks)) == list(range(300))
    assert all(len(block) <= 50 for block in blocks)
    assert all(sum(len(texts[i]) for i in block) <= 1_000 for block in blocks)
    assert len(list(cut_blocks(["x" * 5_000] * 6, None))) == 6  # one text at least
    assert len(list(cut_blocks(["x" * 5_000] * 6, 10))) == 1  # of which 10 tokens are read
    assert list(cut_blocks([], 10)) == []


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_the_tokenizers_own(tiny_bert: Path, side: str) -> None:
    """The features of a batch are those that sentence-transformers makes, but for what is left out of them."""
    network = tiny(tiny_bert).network
    network.tokenizer.padding_side = side
    assert reads_tokens(network)
    block = make_block(network, WORDS, np.arange(len(WORDS)), "the ")
    assert block.tokens is not None
    features, expected = block.tokens.pad(), network.preprocess(block.texts, prompt="the ")
    assert features.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(features[name], value) if isinstance(value, torch.Tensor) else features[name] == value
    widest = features["input_ids"].shape[1]
    assert block.lengths.max() == widest > block.lengths.min()  # there is padding


def test_a_class_of_somebodys_own_encodes_itself(tiny_bert: Path) -> None:
    from sentence_transformers import SentenceTransformer

    class Doubled(SentenceTransformer):
        def encode(self, *args: object, **options: object) -> np.ndarray:
            return 2 * super().encode(*args, **options)

    network = Doubled(modules=list(tiny(tiny_bert).network), device="cpu")
    assert not reads_tokens(network)
    found, plain = to_model(network).encode(WORDS), tiny(tiny_bert).encode(WORDS)
    assert np.abs(found - 2 * plain).max() < 1e-5


def test_bf16_is_close_to_fp32(minilm: Transformer, vectors: np.ndarray) -> None:
    bf16 = Transformer(minilm.card.model_copy(update={"precision": "bf16"}), "cpu").encode(TEXTS)
    assert bf16.dtype == np.float32
    assert 0 < deviation(bf16, vectors) < 1e-3


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_plain_encoder_gets_pooling(tiny_bert: Path, pooling: str) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(tiny_bert)(WORDS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(tiny_bert).eval()(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    expected = {
        "mean": (states * mask).sum(1) / mask.sum(1),
        "cls": states[:, 0],
        "max": states.masked_fill(mask == 0, -torch.inf).amax(1),
    }[pooling]
    found = tiny(tiny_bert, pooling=pooling).encode(WORDS)
    assert np.abs(found - expected.numpy()).max() < 1e-5


@pytest.fixture
def pretrained(copy: Path) -> Path:
    """The tiny encoder with the head of its pretraining, and without a pooler."""
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig.from_pretrained(copy)).save_pretrained(copy)
    return copy


def test_weights_that_a_folder_lacks_and_nothing_uses_are_the_same_each_time(pretrained: Path) -> None:
    """So that a training gives the same checkpoint again."""
    one, other = (tiny(pretrained).network.state_dict() for _ in range(2))
    assert [name for name in one if not one[name].equal(other[name])] == []


@pytest.mark.slow
def test_transformers_reports_nothing_to_the_user(pretrained: Path) -> None:
    card = f"m.ModelCard(name='a', model={str(pretrained)!r})"
    encode = f"from traube import models as m; m.model_of({card}).encode(['a cat'])"
    said = subprocess.run([sys.executable, "-c", encode], capture_output=True, text=True, check=True)
    assert said.stdout + said.stderr == ""


def test_what_lies_beyond_max_length_is_not_read(tiny_bert: Path) -> None:
    texts = ["the cat soup", "the cat star star star"]
    a, b = tiny(tiny_bert, max_length=4).encode(texts)  # two words between two special tokens
    assert np.abs(a - b).max() < 1e-6
    a, b = tiny(tiny_bert).encode(texts)
    assert np.abs(a - b).max() > 1e-3


def test_nothing_to_encode_is_refused(tiny_bert: Path) -> None:
    with refused(TooFew, "tiny"):
        tiny(tiny_bert).encode([])


# fingerprints


def test_everything_that_changes_vectors_changes_the_fingerprint(tiny_bert: Path, copy: Path) -> None:
    change_weights(copy, "embeddings.word_embeddings.weight", lambda tensor: tensor + 1e-3)
    settings = ({"max_length": 8}, {"prompt": "query "}, {"precision": "bf16"}, {"pooling": "cls"})
    models = [tiny(tiny_bert), tiny(copy), *(tiny(tiny_bert, **setting) for setting in settings)]
    assert len({model.fingerprint for model in models}) == len(models)


def test_a_fingerprint_does_not_depend_on_the_name_the_place_or_the_readme(tiny_bert: Path, copy: Path) -> None:
    (copy / "README.md").write_text("# Tiny")
    moved = Transformer(ModelCard(name="other", model=str(copy), description="moved"), "cpu")
    assert moved.fingerprint == tiny(tiny_bert).fingerprint


def test_automatic_precision_is_measured_once_and_counts_as_what_it_turned_out_to_be(
    tiny_bert: Path, home: Path
) -> None:
    chosen = tiny(tiny_bert, precision="auto")
    assert chosen.fingerprint == tiny(tiny_bert, precision=chosen.precision).fingerprint
    (path,) = home.glob("precision.json")
    known = json.loads(path.read_text())
    other = {"fp32": "bf16", "bf16": "fp32"}[chosen.precision]
    path.write_text(json.dumps(dict.fromkeys(known, other)))
    assert tiny(tiny_bert, precision="auto").precision == other
    path.write_text("{")
    assert tiny(tiny_bert, precision="auto").precision in ("fp32", "bf16")
    assert json.loads(path.read_text()).keys() == known.keys()


# folders that cannot be used


def change_weights(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, name: change(weights[name])}, path, {"format": "pt"})


def test_weights_that_give_no_numbers_are_refused_with_the_text(copy: Path) -> None:
    change_weights(copy, "encoder.layer.0.output.dense.weight", lambda tensor: tensor * torch.nan)
    with refused(Failed, "tiny", "NaN"):
        tiny(copy).encode(WORDS)


def test_a_wrong_checksum_is_one_clear_error(minilm: Transformer) -> None:
    card = minilm.card.model_copy(update={"sha256": "0" * 64})
    with refused(Corrupt, "model.safetensors"):
        _ = Transformer(card, "cpu").fingerprint


def test_a_length_beyond_the_models_positions_is_refused(tiny_bert: Path) -> None:
    with refused(Invalid, "tiny", "max_length", 65, 64):
        tiny(tiny_bert, max_length=65).encode(["the cat"])


# out of memory


class Tight(Transformer):
    """Has room for three texts at a time, as if a GPU's memory were that small."""

    room = 3

    def _forward(self, batch: Block) -> Sent:
        if len(batch.texts) > self.room:
            raise torch.OutOfMemoryError
        return super()._forward(batch)


def test_a_batch_that_does_not_fit_is_halved_and_every_vector_still_comes(
    tiny_bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = Tight(tiny(tiny_bert).card, "cpu").encode(WORDS)
    assert np.abs(found - tiny(tiny_bert).encode(WORDS)).max() < 1e-6
    messages = [record.getMessage() for record in caplog.records]
    assert messages and all(message.startswith("tiny: out of memory on cpu") for message in messages)
    assert len(messages) <= 4  # what has been learned is kept for the batches that follow


def test_a_single_text_that_does_not_fit_is_one_clear_error(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tight, "room", 0)
    with refused(TooLarge, "tiny", 8, "max_length"):
        Tight(tiny(tiny_bert).card, "cpu").encode(WORDS)


# cards and names


def card(cards: Path, text: str, name: str = "mine.yaml") -> Path:
    (cards / name).write_text(text)
    return cards / name


def test_a_card_makes_a_model_of_a_folder(cards: Path, tiny_bert: Path) -> None:
    card(cards, f"model: {tiny_bert}\nprompt: 'query '\nmax_length: 8\n")
    mine = load_model("mine", "cpu")
    assert np.abs(mine.encode(["cat"]) - tiny(tiny_bert, prompt="query ").encode(["cat"])).max() < 1e-6


@pytest.mark.parametrize("place", ["./model", "model", "~/model"])
def test_a_folder_may_be_named_from_the_card_or_from_home(
    cards: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", str(cards))
    (cards / "model").symlink_to(tiny_bert)
    card(cards, f"model: {place}\n")
    assert load_model("mine", "cpu").fingerprint == tiny(tiny_bert).fingerprint


def test_a_folder_that_is_not_there_is_unavailable(cards: Path) -> None:
    card(cards, "model: ./gone\n")
    with refused(Unavailable, cards / "gone", "mine"):
        _ = load_model("mine").fingerprint


def test_a_card_may_not_take_the_name_of_a_model_of_the_catalogue(cards: Path) -> None:
    path = card(cards, "model: ./x", "minilm.yaml")
    (error,) = card_errors().values()
    assert check_names(str(error), path, "minilm")
    assert load_model("minilm").name == "minilm"  # a stray card does not stop the benchmark


def test_an_unknown_model_names_the_near_ones() -> None:
    with refused(Unknown, "minlm", "minilm_32"):
        load_model("minlm")


def test_the_catalogue_is_sound() -> None:
    known = model_cards()
    assert {"bow", "tfidf", "lsa", "minilm", "gbert_base", "sentence_t5_xxl"} <= known.keys()
    assert all(c.model or c.package for c in known.values() if c.kind in ("transformer", "packaged"))


def test_a_model_of_the_hub_that_is_not_here_is_unavailable_without_asking_the_network(
    cards: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub.constants

    def forbidden(*_: object) -> None:
        raise AssertionError("the network was requested")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    card(cards, "model: nobody/no-such-model\n")
    with refused(Unavailable, "traube run"):
        _ = load_model("mine").fingerprint
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    mine = load_model("mine")
    assert isinstance(mine, Transformer)
    with refused(Unavailable, "mine"):
        mine.fetch()


def test_damaged_revisions_are_one_clear_error(cards: Path, home: Path) -> None:
    card(cards, "model: nobody/no-such-model\n")
    (home / "revisions.json").write_text('{"nobody/')
    with refused(Corrupt, home / "revisions.json"):
        _ = load_model("mine").fingerprint


# on a GPU


@pytest.fixture
def cuda(minilm: Transformer) -> Callable[..., Transformer]:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return lambda **card: Transformer(minilm.card.model_copy(update=card), "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 1e-3)])
def test_a_gpu_agrees_with_the_cpu(
    cuda: Callable[..., Transformer], vectors: np.ndarray, precision: str, tolerance: float
) -> None:
    assert deviation(cuda(precision=precision).encode(TEXTS), vectors) < tolerance


@pytest.mark.gpu
def test_a_full_gpu_is_given_smaller_batches(
    cuda: Callable[..., Transformer], vectors: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    model = cuda()
    model.encode(TEXTS)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    ballast = torch.empty(free - 400 * 2**20, dtype=torch.uint8, device="cuda")
    try:
        with caplog.at_level(logging.WARNING):
            found = model.encode(TEXTS * 300)
    finally:
        del ballast
        torch.cuda.empty_cache()
    assert "out of memory on cuda" in caplog.text
    assert deviation(found, np.tile(vectors, (300, 1))) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_how_fast_a_gpu_encodes(
    cuda: Callable[..., Transformer], precision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model, texts = cuda(precision=precision), [f"{text} {i}" for i in range(4000) for text in TEXTS]
    model.encode(texts[:2000])
    began = time.perf_counter()
    model.encode(texts)
    seconds = time.perf_counter() - began
    tokens = make_block(model.network, texts, np.arange(len(texts)), model.prompt).lengths.sum()
    with capsys.disabled():
        print(f"\nminilm {precision} on {torch.cuda.get_device_name()}: {tokens / seconds:,.0f} tokens/s")  # noqa: T201
