"""Files of a foreign folder: links that leave it are refused wherever it is opened, and links that stay are followed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.errors import refused
from tests.made import save_similarity
from tests.models.test_hostile_folders import SOUND, causal, outcome, vectors
from traube._core import paths
from traube._core.errors import Inaccessible, Missing, TooLarge, Unsafe
from traube._storage import open_storage
from traube.models import ModelCard, checkpoint_exchange, checkpoints, load_model, packaged, weights
from traube.models._model_files import ModelFile
from traube.models.causal import CausalModel
from traube.models.pins import pin
from traube.models.similarity import CONFIG, FOLDER, WEIGHTS, TrainedSimilarity
from traube.models.vetting import VettedFolder

REVISION, BLOB = "1" * 40, "2" * 64
SECRET = "a secret of this machine"


def link_to(target: Path) -> Callable[[Path], None]:
    """Have a file's content lie elsewhere, and a link in the file's place."""

    def spoil(path: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        path.symlink_to(os.path.relpath(target, path.parent))

    return spoil


@pytest.mark.parametrize("kind", SOUND)
def test_each_file_may_be_a_link_into_the_folder_alone(tiny_bert: Path, tmp_path: Path, kind: str) -> None:
    sound = SOUND[kind](tiny_bert, tmp_path / "sound")
    expected = vectors(sound)
    for name in [path.relative_to(sound) for path in VettedFolder.at(sound).files]:
        for place in ("inside", "outside"):
            folder = Path(shutil.copytree(sound, tmp_path / "case" / "model"))
            target = folder / "kept" / "file" if place == "inside" else tmp_path / "case" / "file"
            link_to(target)(folder / name)
            found, error = outcome(lambda folder=folder: vectors(folder))
            assert np.array_equal(found, expected) if place == "inside" else "leads out of model/" in error, name
            shutil.rmtree(tmp_path / "case")


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder's link": lambda path: path.symlink_to("/etc"),
    "itself": lambda path: path.symlink_to(path),
    "nothing": lambda path: path.symlink_to("gone"),
    "open files": lambda path: path.symlink_to("/proc/self/environ"),
}


@pytest.mark.parametrize("what", SPECIAL)
def test_what_is_no_plain_file_of_the_folder_is_never_opened(tmp_path: Path, what: str) -> None:
    SPECIAL[what](tmp_path / "config.json")
    for read in (ModelFile.locate, ModelFile.read, ModelFile.parse):
        kind = {"a pipe": Inaccessible, "itself": Inaccessible, "nothing": Missing}.get(what, Unsafe)
        with refused(kind, tmp_path / "config.json"):
            read(ModelFile(tmp_path, "config.json"))


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[1]")
    file = ModelFile(tmp_path, "config.json")
    assert file.read(3) == b"[1]" and file.parse(3) == [1]
    with refused(TooLarge, file.path):
        file.read(2)


def test_a_folder_that_is_itself_a_link_is_what_a_person_names(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(tiny_bert)
    assert np.array_equal(vectors(tmp_path / "mine"), vectors(tiny_bert))


# the hub's cache


def snapshot(cache: Path, name: str = "models--org--model", revision: str = REVISION) -> tuple[Path, Path]:
    """Make a snapshot with one file, as a link to a blob; return both."""
    folder, blob = cache / name / "snapshots" / revision, cache / name / "blobs" / BLOB
    folder.mkdir(parents=True)
    blob.parent.mkdir()
    blob.write_text("{}")
    (folder / "config.json").symlink_to(f"../../blobs/{BLOB}")
    return folder, blob


def test_a_snapshot_of_the_hub_links_to_its_own_blobs(tmp_path: Path) -> None:
    folder, blob = snapshot(tmp_path)
    assert ModelFile(folder, "config.json").locate() == blob
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").symlink_to(f"../../../blobs/{BLOB}")
    assert ModelFile(folder, "1_Pooling/config.json").locate() == blob
    assert ModelFile(folder / "1_Pooling", "config.json").locate() == blob  # a card may name a module's folder


def other_blob(folder: Path, blob: Path) -> None:
    blob.rename(blob.with_name("secret"))
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("../../blobs/secret")


def linked_blob(folder: Path, blob: Path) -> None:
    blob.unlink()
    blob.symlink_to("/etc/passwd")


def linked_blobs(folder: Path, blob: Path) -> None:
    blob.parent.rename(folder.parents[3] / "elsewhere")
    blob.parent.symlink_to(folder.parents[3] / "elsewhere")


def other_repository(folder: Path, blob: Path) -> None:
    snapshot(folder.parents[2], "models--org--other")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(f"../../../models--org--other/blobs/{BLOB}")


@pytest.mark.parametrize("spoil", [other_blob, linked_blob, linked_blobs, other_repository])
def test_a_snapshot_links_to_nothing_else(tmp_path: Path, spoil: Callable[[Path, Path], None]) -> None:
    folder, blob = snapshot(tmp_path / "hub")
    spoil(folder, blob)
    with refused(Unsafe, folder / "config.json"):
        ModelFile(folder, "config.json").read()


@pytest.mark.parametrize("layout", [{"name": "data--org--model"}, {"revision": "main"}])
def test_what_only_looks_like_the_hubs_cache_is_none(tmp_path: Path, layout: dict[str, str]) -> None:
    folder, _ = snapshot(tmp_path, **layout)
    with refused(Unsafe, folder / "config.json"):
        ModelFile(folder, "config.json").read()


# whatever opens a folder


def pairwise(tiny_bert: Path, name: str = "pairs") -> Path:
    folder = shutil.copytree(tiny_bert, paths.checkpoints() / name)
    return save_similarity(folder, network="qs3m", query="none")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_similarity_may_link_into_its_checkpoint(tiny_bert: Path, tmp_path: Path, home: Path, name: str) -> None:
    folder = pairwise(tiny_bert)
    X = np.eye(3, 32, dtype=np.float32)
    expected = TrainedSimilarity.at(folder).distances(X)
    link_to(folder / "kept")(folder / FOLDER / name)
    assert np.array_equal(TrainedSimilarity.at(folder).distances(X), expected)
    assert checkpoints.check(folder).kind == "pairwise"
    link_to(tmp_path / "outside")(folder / "kept")
    card = ModelCard(name="pairs", kind="pairwise", model=str(folder))
    for load in (lambda: TrainedSimilarity.at(folder), lambda: pin("key", card, "fingerprint", [])):
        assert "pairs/" in outcome(load)[1]
    assert "pairs/" in outcome(lambda: checkpoints.check(folder))[1]


def test_a_checkpoint_leads_into_no_other_one_and_is_one_by_a_link(tiny_bert: Path, home: Path) -> None:
    first, second = pairwise(tiny_bert, "first"), pairwise(tiny_bert, "second")
    (first.parent / "third").symlink_to(first.name)
    assert checkpoints.check(first.parent / "third").name == "third"
    (second / "config.json").unlink()
    (second / "config.json").symlink_to("../first/config.json")
    assert "leads out of second/" in outcome(lambda: checkpoints.make_card(second))[1]


def test_what_is_pinned_served_and_shared_holds_no_file_of_the_machine(
    tiny_bert: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary that no library opened was stored as a blob, and went into what is served."""
    monkeypatch.setattr(checkpoint_exchange, "SETTLED", -1.0)
    (tmp_path / "secret").write_text(f'{{"task": "{SECRET}"}}')
    for name in ("dict.txt", "spiece.model", "checkpoint.json"):
        folder = Path(shutil.copytree(tiny_bert, paths.checkpoints() / f"case_{name}"))
        model = load_model(folder.name)
        assert model.fingerprint
        (folder / name).symlink_to(tmp_path / "secret")
        with refused(Unsafe):
            pin("key", checkpoints.make_card(folder), "fingerprint", [])
        if name != "checkpoint.json":  # which a model is not loaded from
            with refused(Unsafe):
                pin("key", model.card, model.fingerprint, [])
    checkpoint_exchange.exchange_checkpoints(open_storage(home), paths.checkpoints())
    for path in home.rglob("*"):
        assert path.is_symlink() or path.is_dir() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "model.safetensors"])
def test_a_language_models_files_are_its_folders(tiny_bert: Path, tmp_path: Path, name: str) -> None:
    folder = causal(tiny_bert, tmp_path / "model")
    (folder / "chat_template.jinja").write_text("<|im_start|>")
    link_to(folder / "kept")(folder / name)
    assert CausalModel.load(str(folder), local=True).talk != "{}"
    link_to(tmp_path / "outside")(folder / "kept")
    assert "leads out of model/" in outcome(lambda: CausalModel.load(str(folder), local=True))[1]


def test_a_package_may_be_installed_as_links(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As uv does if requested; a package is code that a person chose to install."""
    package, cache = tmp_path / "site" / "carrier", tmp_path / "cache" / "model"
    shutil.copytree(tiny_bert, cache)
    (package / "model").mkdir(parents=True)
    for path in cache.iterdir():
        (package / "model" / path.name).symlink_to(path)

    def find(_name: str) -> Any:
        return type("Spec", (), {"submodule_search_locations": [str(package)]})

    monkeypatch.setattr(packaged, "find_spec", find)
    card = ModelCard(name="case", kind="packaged", package="carrier")
    assert weights.locate(card) == cache
    weights.check_folder(weights.locate(card), card)
