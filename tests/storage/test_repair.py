"""Whatever happens to a blob, nobody reads other rows from it than were written; and what is corrupt is made again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from tests.made import ingest, run_missing
from traube._pipeline.params import Protocol
from traube._pipeline.request import Request
from traube._pipeline.survey import plan
from traube._pipeline.workbench import Workbench
from traube._storage import ArtifactRow, CellRow, Storage, TaskRow, open_storage
from traube._storage.blobs import FolderBlobs

PROTOCOL = Protocol(reducers=("none", "pca"), clusterers=("kmeans",), seeds=(1,))
REQUEST = Request(["tickets", "topics"], ["bow", "lsa"], "own", PROTOCOL)


def artifact(kind: str) -> Callable[[Storage], str]:
    return lambda storage: str(storage.read_rows(ArtifactRow, kind=kind)[0].files["matrix"])


BLOBS: dict[str, Callable[[Storage], str]] = {
    "cell": lambda storage: str(storage.read_rows(CellRow, task="tickets")[0].blob),
    "corpus": lambda storage: str(storage.read_rows(TaskRow, name="tickets")[0].files["corpus"]),
    "splits": lambda storage: str(storage.read_rows(TaskRow, name="tickets")[0].files["splits"]),
    "records": lambda storage: str(storage.read_rows(TaskRow, name="tickets")[0].files["records"]),
    "task": lambda storage: str(storage.read_rows(TaskRow, name="tickets")[0].blob),
    "matrix": artifact("matrix"),
    "reduction": artifact("reduction"),
}


@pytest.fixture(autouse=True)
def _tasks(cards: Path, topics: pd.DataFrame) -> None:
    for name, rows in {"tickets": topics[:24], "topics": topics[24:]}.items():
        rows.to_csv(cards / f"{name}.csv", index=False)
        (cards / f"{name}.yaml").write_text(f"file: {name}.csv\ntext: text\nlabels: topic\n")


def evaluate(home: Path) -> None:
    """Make what is missing, as a run does."""
    bench = Workbench.at(home)
    for name in plan(REQUEST, bench.storage).unread:
        ingest(bench.storage, name)
    run_missing(bench, REQUEST)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, made: dict[str, Any], _tasks: None) -> Path:
    """A data directory with two evaluated tasks, made once; each test leaves it as it was."""
    if not made:
        made["home"] = tmp_path_factory.mktemp("evaluated")
        evaluate(made["home"])
        made["numbers"] = numbers(open_storage(made["home"]))
        assert len(made["numbers"]) == 8
    home: Path = made["home"]
    return home


def numbers(storage: Storage) -> dict[str, pd.DataFrame]:
    """The scores of each cell that is there, with replicates."""
    rows = storage.read_scores(storage.read_cells(), replicates=True)
    rows["replicates"] = rows["replicates"].map(lambda values: None if values is None else tuple(values))
    return {str(cell): frame.reset_index(drop=True) for cell, frame in rows.groupby("cell_id")}


@pytest.mark.parametrize(
    ("kind", "damage"), [*((kind, "flipped") for kind in BLOBS), ("cell", "cut"), ("matrix", "gone")]
)
def test_what_is_corrupt_is_named_and_made_again(home: Path, made: dict[str, Any], kind: str, damage: str) -> None:
    storage = open_storage(home)
    blobs = storage.blobs
    assert isinstance(blobs, FolderBlobs)
    blob = BLOBS[kind](storage)
    path = blobs.get_path(blob)
    content = path.read_bytes()
    match damage:
        case "flipped":
            path.write_bytes(content[:-9] + bytes([content[-9] ^ 4]) + content[-8:])
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "gone":
            path.unlink()
    (line,) = storage.verify()
    assert blob in line and "`traube run`" in line
    evaluate(home)
    again = numbers(storage)
    assert again.keys() == made["numbers"].keys()
    for cell, rows in again.items():
        assert_frame_equal(rows, made["numbers"][cell])
    assert not plan(REQUEST, storage).count and not plan(REQUEST, storage).unread
    assert storage.verify() == []
