"""Vectors and checkpoints that several machines share."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from traube.foundation import settings, share
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest
from traube.models import EmbeddingCache, checkpoints, shared_checkpoints
from traube.models.cache import Shelf

Become = Callable[[str], Path]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(settings.SHARE, str(tmp_path / "mounted"))
    return tmp_path / "mounted"


def vectors_of(texts: list[str]) -> np.ndarray:
    """What a model makes of texts, here their lengths and first letters, float32 [n, 2]."""
    return np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32)


def shelf(home: Path) -> Shelf:
    return EmbeddingCache(home / "embeddings").shelf("f1")


def test_what_one_machine_encodes_another_does_not(shared: Path, machine: Become) -> None:
    shelf(machine("first")).append(["a", "bb"], vectors_of(["a", "bb"]))
    second = shelf(machine("second"))
    assert second.rows(["bb", "a", "new"]).tolist() == [1, 0, -1]
    second.append(["new"], vectors_of(["new"]))
    first = shelf(machine("first"))
    rows = first.rows(["new", "a"])
    assert first.vectors()[rows].tolist() == vectors_of(["new", "a"]).tolist()


def test_vectors_of_before_are_handed_over_too(shared: Path, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shelf(machine("first"))
    with monkeypatch.context() as alone:
        alone.delenv(settings.SHARE)
        first.append(["a", "bb"], vectors_of(["a", "bb"]))
    assert not shared.exists()
    first.rows([])
    assert shelf(machine("second")).rows(["a", "bb"]).tolist() == [0, 1]
    # and are taken again by whoever has lost them
    machine("first")
    (first.folder / "index").write_bytes(b"")
    assert (first.rows(["a", "bb"]) >= 0).all()


def test_a_damaged_block_is_no_vector(shared: Path, machine: Become) -> None:
    shelf(machine("first")).append(["a"], vectors_of(["a"]))
    block = next((shared / "embeddings" / "f1").iterdir())
    block.write_bytes(block.read_bytes()[:-1] + b"x")
    with pytest.raises(TraubeError, match=r"\.npy: damaged"):
        shelf(machine("second")).rows(["a"])


@examples(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sets(st.sampled_from("abcdefgh"), min_size=1)), max_size=5))
def test_whatever_the_order_all_have_the_same(
    machine: Become,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    work: list[tuple[str, set[str]]],
) -> None:
    """Machines that encode what they lack end with the same vector for each text."""
    run = tmp_path_factory.mktemp("run")
    monkeypatch.setenv(settings.SHARE, str(run / "mounted"))
    for name, wanted in work:
        own = shelf(machine(f"{run.name}{name}"))
        absent = [text for text in sorted(wanted) if own.rows([text])[0] < 0]
        if absent:
            own.append(absent, vectors_of(absent))
    texts = sorted(set().union(*(wanted for _, wanted in work)))
    for name in {name for name, _ in work}:
        own = shelf(machine(f"{run.name}{name}"))
        rows = own.rows(texts)
        assert own.vectors()[rows].tolist() == vectors_of(texts).tolist()


def settled(folder: Path, weights: bytes) -> None:
    """A checkpoint that nobody writes to any more."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": b"{}", "model.safetensors": weights}.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1e9, 1e9 + len(weights)))


def test_a_checkpoint_is_taken_whole_or_not_at_all(
    shared: Path, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_checkpoints, "SECONDS", 0.0)
    first = machine("first") / "checkpoints"
    settled(first / "mine", b"weights")
    (first / "unfinished").mkdir()
    (first / "unfinished" / "config.json.part").write_bytes(b"")
    checkpoints.folders()
    second = machine("second") / "checkpoints"
    assert [folder.name for folder in checkpoints.folders()] == ["mine"]
    assert (second / "mine" / "model.safetensors").read_bytes() == b"weights"
    # trained anew: the others get the new one, and nothing of the old
    machine("first")
    settled(first / "mine", b"better weights")
    checkpoints.folders()
    machine("second")
    checkpoints.folders()
    assert (second / "mine" / "model.safetensors").read_bytes() == b"better weights"
    # what is not what its list says is not taken
    content = next((shared / "checkpoints" / "mine").glob("*/model.safetensors"))
    content.write_bytes(b"other weights!")
    third = machine("third") / "checkpoints"
    assert checkpoints.folders() == []
    assert [path.name for path in third.glob("*")] == []


def weights_in(checkpoints_: Path) -> dict[str, bytes]:
    return {folder.name: (folder / "model.safetensors").read_bytes() for folder in checkpoints_.glob("[!.]*")}


def test_two_checkpoints_of_one_name_are_both_kept(
    shared: Path, machine: Become, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shared_checkpoints, "SECONDS", 0.0)
    first = machine("first") / "checkpoints"
    settled(first / "mine", b"weights")
    checkpoints.folders()
    second = machine("second") / "checkpoints"
    settled(second / "mine", b"three days of training")
    for _ in range(2):
        checkpoints.folders()
        assert weights_in(second) == {"mine": b"three days of training"}
    assert f"{second / 'mine'}: another machine has shared other files under this name" in capsys.readouterr().err
    machine("first")
    checkpoints.folders()
    assert weights_in(first) == {"mine": b"weights"}
    # one that is trained anew where it came from does not replace it either
    settled(first / "mine", b"better weights")
    checkpoints.folders()
    machine("second")
    checkpoints.folders()
    assert weights_in(second) == {"mine": b"three days of training"}
    # and with a name of its own both have both
    (second / "mine").rename(second / "ours")
    checkpoints.folders()
    machine("first")
    checkpoints.folders()
    assert weights_in(first) == weights_in(second) == {"mine": b"better weights", "ours": b"three days of training"}


def test_both_changed_since_they_were_exchanged(shared: Path, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_checkpoints, "SECONDS", 0.0)
    homes = {name: machine(name) / "checkpoints" for name in ("first", "second")}
    machine("first")
    settled(homes["first"] / "mine", b"weights")
    for name in homes:
        machine(name)
        checkpoints.folders()
    for name in homes:
        settled(homes[name] / "mine", f"of the {name}".encode())
        machine(name)
        checkpoints.folders()
    machine("first")
    checkpoints.folders()
    assert {name: weights_in(folder)["mine"] for name, folder in homes.items()} == {
        "first": b"of the first",
        "second": b"of the second",
    }


def test_a_checkpoint_that_was_removed_stays_so_and_one_that_the_share_lost_is_handed_over_again(
    shared: Path, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_checkpoints, "SECONDS", 0.0)
    first = machine("first") / "checkpoints"
    settled(first / "mine", b"weights")
    checkpoints.folders()
    second = machine("second") / "checkpoints"
    checkpoints.folders()
    shutil.rmtree(second / "mine")
    shutil.rmtree(shared / "checkpoints")
    machine("first")
    checkpoints.folders()
    assert weights_in(first) == {"mine": b"weights"}
    assert [path.read_bytes() for path in shared.glob("checkpoints/mine/*/model.safetensors")] == [b"weights"]
    machine("second")
    checkpoints.folders()
    assert weights_in(second) == {}
    machine("third")
    assert [folder.name for folder in checkpoints.folders()] == ["mine"]


def hostile(shared: Path, name: str, file: str, content: bytes) -> None:
    """A checkpoint in a share, put there by somebody who makes up the names of its files."""
    files = {"config.json": sha256(b"{}").hexdigest(), file: sha256(content).hexdigest()}
    place = shared / "checkpoints" / name / digest(files)
    place.mkdir(parents=True)
    (place / "config.json").write_bytes(b"{}")
    there = Path(f"{place}/{file}")
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_bytes(content)
    (shared / "checkpoints" / f"{name}.json").write_text(json.dumps({"content": digest(files), "files": files}))


def test_a_share_writes_no_file_outside_of_a_checkpoint(
    shared: Path, tmp_path: Path, machine: Become, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shared_checkpoints, "SECONDS", 0.0)
    outside = tmp_path / "outside"
    names = (f"{outside}/keys", "../../keys", "a/../../../keys", ".hidden/keys", "a\\keys", "a\nkeys")
    for number, name in enumerate(names):
        hostile(shared, f"bad{number}", name, b"ssh-ed25519")
    hostile(shared, "good", "1_Pooling/config.json", b"{}")
    (shared / "checkpoints" / "listless.json").write_text(json.dumps({"content": "../..", "files": ["config.json"]}))
    nested = {name: sha256(b"{}").hexdigest() for name in ("config.json", "config.json/x")}
    (shared / "checkpoints" / "nested.json").write_text(json.dumps({"content": digest(nested), "files": nested}))
    home = machine("own")
    assert [folder.name for folder in checkpoints.folders()] == ["good"]
    assert (home / "checkpoints" / "good" / "1_Pooling" / "config.json").read_bytes() == b"{}"
    assert not outside.exists()
    assert list(home.rglob("keys")) == list(home.rglob("*\\keys")) == []
    assert capsys.readouterr().err.count("is no list of a checkpoint's files") == len(names) + 2


def test_checkpoints_are_only_shared_where_something_is(machine: Become) -> None:
    home = machine("alone")
    settled(home / "checkpoints" / "mine", b"weights")
    assert [folder.name for folder in checkpoints.folders()] == ["mine"]
    assert share.of_home() is None
    assert sorted(path.name for path in home.iterdir()) == ["checkpoints"]
