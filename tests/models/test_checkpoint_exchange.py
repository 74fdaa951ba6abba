"""Checkpoints of nodes that share a storage: fetched whole or not at all, and nothing of one's own is lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import refused
from traube._core import paths
from traube._core.errors import Corrupt
from traube._storage import CheckpointRow, Storage
from traube._storage.blobs import hash_content
from traube.models.checkpoint_exchange import exchange_checkpoints, exchange_with_nodes

Exchange = Callable[..., dict[str, bytes]]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "shared")


@pytest.fixture
def exchange(storage: Storage, tmp_path: Path) -> Exchange:
    """Let nodes exchange, one after the other; returns the weights that the last one has."""

    def run(*nodes: str) -> dict[str, bytes]:
        for node in nodes:
            exchange_checkpoints(storage, tmp_path / node)
        folders = (path for path in (tmp_path / nodes[-1]).iterdir() if path.is_dir())
        return {folder.name: (folder / "model.safetensors").read_bytes() for folder in folders}

    return run


def write(folder: Path, weights: bytes) -> Path:
    """A checkpoint that nobody writes to any more."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": b"{}", "model.safetensors": weights}.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1e9, 1e9 + len(weights)))
    return folder


def test_a_checkpoint_is_fetched_whole(exchange: Exchange, tmp_path: Path) -> None:
    mine = write(tmp_path / "one" / "mine", b"weights")
    (mine / "1_Pooling").mkdir()
    (mine / "1_Pooling" / "config.json").write_bytes(b"{}")
    os.utime(mine / "1_Pooling" / "config.json", (1e9, 1e9))
    write(tmp_path / "one" / "unfinished", b"weights")
    (tmp_path / "one" / "unfinished" / "config.json.part").write_bytes(b"")
    write(tmp_path / "one" / "young", b"weights")
    os.utime(tmp_path / "one" / "young" / "config.json")
    assert exchange("one", "two") == {"mine": b"weights"}
    assert (tmp_path / "two" / "mine" / "1_Pooling" / "config.json").read_bytes() == b"{}"


def test_one_that_is_trained_again_replaces_the_other(exchange: Exchange, storage: Storage, tmp_path: Path) -> None:
    write(tmp_path / "one" / "mine", b"weights")
    exchange("one", "two")
    write(tmp_path / "one" / "mine", b"better weights")
    assert exchange("one", "two") == {"mine": b"better weights"}
    assert len(storage.read_rows(CheckpointRow)) == 1
    write(tmp_path / "two" / "mine", b"weights")  # as it was at first
    assert exchange("two", "one") == {"mine": b"weights"}
    before = storage.read_rows(CheckpointRow)
    assert storage.rebuild() == []
    assert storage.read_rows(CheckpointRow) == before


def test_two_of_one_name_are_both_kept(exchange: Exchange, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "one" / "mine", b"weights")
    exchange("one")
    mine = write(tmp_path / "two" / "mine", b"three days of training")
    assert exchange("two", "two") == {"mine": b"three days of training"}
    said = f"{mine}: another node has stored other files under this name"
    assert capsys.readouterr().err.count(said) == 1
    # one that is trained again where it came from does not replace it either
    write(tmp_path / "one" / "mine", b"better weights")
    assert exchange("one", "two") == {"mine": b"three days of training"}
    # and with a name of its own all have both
    mine.rename(tmp_path / "two" / "ours")
    both = {"mine": b"better weights", "ours": b"three days of training"}
    assert exchange("two") == exchange("one") == both


def test_one_that_was_changed_on_both_sides_stays_as_it_is(exchange: Exchange, tmp_path: Path) -> None:
    write(tmp_path / "one" / "mine", b"weights")
    exchange("one", "two")
    for node in ("one", "two"):
        write(tmp_path / node / "mine", f"of node {node}".encode())
    assert exchange("one", "two", "one") == {"mine": b"of node one"}
    assert exchange("two") == {"mine": b"of node two"}


def test_one_that_was_removed_stays_so_until_it_changes(exchange: Exchange, storage: Storage, tmp_path: Path) -> None:
    write(tmp_path / "one" / "mine", b"weights")
    exchange("one", "two")
    shutil.rmtree(tmp_path / "two" / "mine")
    assert exchange("two") == {}
    assert exchange("one") == {"mine": b"weights"}
    storage.remove(storage.read_rows(CheckpointRow))  # the storage has lost it
    assert exchange("one", "two", "three") == {"mine": b"weights"}
    write(tmp_path / "one" / "mine", b"better weights")
    assert exchange("one", "two") == {"mine": b"better weights"}


def test_a_corrupt_file_is_not_fetched(
    exchange: Exchange, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "one" / "mine", b"weights")
    exchange("one")
    storage.get_path(hash_content(b"weights")).write_bytes(b"weighty")
    assert exchange("two") == {}
    assert "checkpoint mine: not fetched: " in capsys.readouterr().err
    assert storage.verify() and storage.read_rows(CheckpointRow) == []
    assert exchange("one", "two") == {"mine": b"weights"}


@pytest.mark.parametrize(
    "name", ["/tmp/keys", "../../keys", "a/../../../keys", ".hidden/keys", "a\\keys", "a\nkeys", "config.json/x"]
)
def test_no_file_is_written_outside_of_a_checkpoint(
    name: str, exchange: Exchange, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage.save(CheckpointRow(name="bad", content="0", provenance={}), {"config.json": b"{}", name: b"ssh-ed25519"})
    assert exchange("one") == {}
    assert "'bad'" in capsys.readouterr().err
    storage.save(CheckpointRow(name="../bad", content="0", provenance={}), {"config.json": b"{}"})
    with refused(Corrupt, "../bad"):
        exchange("one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "shared"]
    assert not list(tmp_path.glob("**/*keys")) and not Path("/tmp/keys").exists()


@pytest.mark.cluster
def test_nodes_exchange_where_they_share_a_database(
    bucket: str, database: str, machine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine("one") / "checkpoints" / "alone", b"weights")
    exchange_with_nodes()
    assert not (paths.home() / "catalog.db").exists()  # nothing is shared yet, so nothing is copied
    monkeypatch.setenv("TRAUBE_DATABASE", database)
    monkeypatch.setenv("TRAUBE_BLOBS", bucket)
    exchange_with_nodes()
    two = machine("two")
    exchange_with_nodes()
    assert (two / "checkpoints" / "alone" / "model.safetensors").read_bytes() == b"weights"
