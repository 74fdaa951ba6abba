"""Pins: what is served outlives the folder it came from, and cleaning."""

import shutil
from pathlib import Path

import pytest

from traube._core import paths
from traube._storage import CheckpointRow, open_storage
from traube.models import ModelCard, checkpoint_exchange, load_model, model_of
from traube.models.checkpoint_exchange import exchange_checkpoints
from traube.models.pins import locate_pinned, pin


def test_a_champions_checkpoint_survives_cleaning_and_another_one_goes(
    tiny_bert: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_exchange, "SETTLED", -1.0)
    storage = open_storage(home)
    for name in ("served", "other"):
        folder = shutil.copytree(tiny_bert, paths.checkpoints() / name)
        (folder / "README.md").write_text(name)
    exchange_checkpoints(storage, paths.checkpoints())
    rows = {row.name: row for row in storage.read_rows(CheckpointRow)}
    model = load_model("served")
    pin("words", model.card, model.fingerprint, [])
    storage.remove(rows.values())
    for folder in (paths.checkpoints(), home / "weights"):
        shutil.rmtree(folder)
    for _ in range(2):  # marks, then deletes
        storage.clean(seconds=0)
    assert model_of(locate_pinned(model.card, model.fingerprint)).fingerprint == model.fingerprint
    weights = rows["served"].files["model.safetensors"]
    assert storage.blobs.exists(weights) and not storage.blobs.exists(rows["other"].files["README.md"])


def test_what_is_no_checkpoint_is_served_as_it_is(home: Path) -> None:
    card = load_model("bow").card
    assert pin("words", card, "fingerprint", ["cell"]) == card == locate_pinned(card, "fingerprint")


def test_a_folder_that_a_card_names_is_pinned_like_a_checkpoint(tiny_bert: Path, home: Path, tmp_path: Path) -> None:
    """Its path would say nothing on another node."""
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")
    (folder / "README.md").write_text("not opened, and not pinned")
    model = model_of(ModelCard(name="mine", model=str(folder)))
    pinned = pin("words", model.card, model.fingerprint, [])
    assert pinned.model == str(home / "weights" / model.fingerprint)
    shutil.rmtree(folder)
    assert model_of(pinned).fingerprint == model.fingerprint
    assert not (home / "weights" / model.fingerprint / "README.md").exists()


def test_a_model_of_the_hub_keeps_its_id(home: Path) -> None:
    card = ModelCard(name="small", model="intfloat/multilingual-e5-small")
    assert pin("words", card, "fingerprint", []) == card


def test_pinned_weights_are_on_the_disk_once(tiny_bert: Path) -> None:
    """Their copy for this node is the blobs' own files; the checkpoint's folder, which people change, is not."""
    card = ModelCard(name="mine", kind="transformer", model=str(tiny_bert))
    pin("words", card, "0123456789abcdef", ["cell"])
    pinned = pin("others", card, "0123456789abcdef", ["cell"])  # stores the same bytes again
    weights = Path(pinned.model or "") / "model.safetensors"
    blobs = {path.stat().st_ino for path in (paths.home() / "blobs").rglob("*") if path.is_file()}
    assert weights.stat().st_ino in blobs
    assert (tiny_bert / "model.safetensors").stat().st_ino not in blobs
