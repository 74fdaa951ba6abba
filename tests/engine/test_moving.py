"""A home that is copied into a share: what is said to be compared was compared."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from traube.engine.moving import copy_home
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_parquet
from traube.foundation.remote import remote_at
from traube.models import EmbeddingCache

Become = Callable[[str], Path]


@pytest.fixture(params=["s3", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("bucket") if request.param == "s3" else tmp_path / "mounted")


@pytest.fixture
def home(machine: Become) -> Path:
    """One with a file of every kind that is copied."""
    folder = machine("own")
    write_parquet(folder / "store/tasks/words/corpus.parquet", pd.DataFrame({"text": ["a", "b"]}))
    EmbeddingCache(folder / "embeddings").shelf("f1").append(["a", "b"], np.ones((2, 4), np.float32))
    (folder / "checkpoints/mine").mkdir(parents=True)
    for name, content in {"config.json": b"{}", "model.safetensors": b"weights"}.items():
        (folder / "checkpoints/mine" / name).write_bytes(content)
        os.utime(folder / "checkpoints/mine" / name, (1e9, 1e9))
    (folder / "mlartifacts/1").mkdir(parents=True)
    (folder / "mlartifacts/1/plot.svg").write_text("<svg/>")
    return folder


def copied(home: Path, url: str) -> dict[str, tuple[int, int]]:
    return {moved.kind: (moved.files, moved.new) for moved in copy_home(home, url)}


def test_a_copy_is_made_once(home: Path, url: str) -> None:
    first = copied(home, url)
    assert first == {kind: (files, files) for kind, (files, _) in first.items()}
    assert all(files for files, _ in first.values())
    assert copied(home, url) == {kind: (files, 0) for kind, (files, _) in first.items()}


@pytest.mark.parametrize("ends", [".npy", "model.safetensors", "plot.svg"])
def test_a_copy_that_is_wrong_is_told_and_made_again_once_it_is_removed(home: Path, url: str, ends: str) -> None:
    first, remote = copied(home, url), remote_at(url)
    (name,) = (name for name in remote.versions() if name.endswith(ends))
    sound = remote.read(name)
    remote.write(name, b"rubbish")
    with pytest.raises(TraubeError, match=rf"{ends}: (differs|damaged).*; remove"):
        copied(home, url)
    assert remote.read(name) == b"rubbish"
    remote.remove(name)
    assert copied(home, url).keys() == first.keys()
    assert remote.read(name) == sound


def test_a_checkpoint_whose_name_another_one_has_is_not_said_to_be_copied(home: Path, url: str) -> None:
    copied(home, url)
    listed = remote_at(url).read("checkpoints/mine.json")
    (home / "checkpoints/mine/model.safetensors").write_bytes(b"of another")
    for known in home.glob("checkpoints-*.json"):
        known.unlink()
    with pytest.raises(TraubeError, match=r"mine\.json: is not of .*: rename"):
        copied(home, url)
    assert remote_at(url).read("checkpoints/mine.json") == listed
