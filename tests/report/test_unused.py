"""What `traube clean` removes: what is used never, what is unused always, and nothing is computed anew afterwards."""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

from traube.benchmark.params import Params, Protocol
from traube.benchmark.plan import Cell, Request, missing_cells, plan
from traube.benchmark.record import Recorder
from traube.comparison.regressions import present, snapshot
from traube.engine.cluster import cluster
from traube.engine.score import score
from traube.engine.workbench import Workbench
from traube.foundation import paths, settings, share
from traube.models import cache_key, load_model
from traube.report.tables import leaderboard
from traube.report.unused import ABANDONED, Unused, remove, unused
from traube.tasks import get_source
from traube.tasks.task import index_texts

PROTOCOL = Protocol(reducers=("none", "pca"), clusterers=("kmeans",), seeds=(1,))
PARAMS = Params(protocol="own", tasks=("tickets",), models=("bow",), protocols={"own": PROTOCOL})
DAY = 24 * 3600.0


def age(folder: Path, seconds: float = DAY) -> None:
    """Everything below a folder was written that long ago."""
    then = time.time() - seconds
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)


def compute(bench: Workbench, asked: list[Cell]) -> None:
    """Cluster and score cells, as a run does."""
    task, model, recorder = bench.task("tickets"), load_model("bow"), Recorder(bench.store)
    for result in cluster(task, bench.vectors(task, model), asked, bench.store, bench.executor):
        assert result.assignments is not None
        recorder.clustered(result.cell, result.assignments, result.seconds, result.cost)
        scores = score(task, result.assignments.assign(cell_id=result.cell.cell_id), bench.executor)
        recorder.scored(result.cell, scores, result.seconds)


@pytest.fixture
def bench(home: Path, cards: Path, topics: pd.DataFrame) -> Workbench:
    """A home in which the whole benchmark is computed, a day ago."""
    bench = Workbench.at(home)
    topics.to_csv(cards / "tickets.csv", index=False)
    (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: text\nlabels: topic\n")
    source = get_source("tickets")
    corpus, records = index_texts(source.read())
    bench.store.save_corpus("tickets", corpus, records, source.raw_version())
    bench.store.complete(source.card, bench.store.save_splits(source.card, source.draw(records)))
    compute(bench, missing_cells("tickets", load_model("bow"), request(), bench.store))
    age(home)
    return bench


def request() -> Request:
    return Request(PARAMS.tasks, PARAMS.models, PARAMS.protocol, PROTOCOL)


def names(found: list[Unused]) -> set[str]:
    return {entry.path.name for entry in found}


def put(path: Path, seconds: float = DAY) -> Path:
    """A file of that age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789")
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_what_is_damaged_here_is_removed_here_only(
    bench: Workbench, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.SHARE, str(tmp_path / "mounted"))
    scores = next(bench.store.folder.glob("results/tickets/*.scores.parquet"))
    sound = scores.read_bytes()
    orphan = put(scores.with_name("gone.scores.parquet"))
    orphan.write_bytes(sound)
    age(orphan.parent)
    shared = share.of_home()
    assert shared is not None
    shared.look()
    assert {path.relative_to(home).as_posix() for path in (scores, orphan)} <= shared.theirs.keys()
    # a block of the disk goes bad: time and size are as they were
    state = scores.stat()
    scores.write_bytes(sound[:40] + bytes([sound[40] ^ 255]) + sound[41:])
    os.utime(scores, ns=(state.st_atime_ns, state.st_mtime_ns))
    gone = remove(unused(home, PARAMS))
    assert {scores, orphan} <= {entry.path for entry in gone}
    assert not scores.exists()
    # it is fetched again; what is of no use is gone for all
    shared.look()
    assert scores.read_bytes() == sound
    assert not orphan.exists() and not any("gone." in name for name in shared.remote.versions("store"))


def test_what_is_used_is_never_listed(bench: Workbench, home: Path) -> None:
    shelf = bench.cache.shelf(cache_key(load_model("minilm")))
    shelf.append(["a text"], np.ones((1, 4), dtype=np.float32))
    age(home)
    assert list(home.glob("store/matrices/tickets/*")) and list(home.glob("store/reductions/*"))
    assert list(home.glob("store/costs/tickets/*")) and list(home.glob("store/costs/_reductions/*"))
    assert unused(home, PARAMS) == []


def test_what_is_unused_is_listed_with_its_size_and_removed(bench: Workbench, home: Path) -> None:
    store = home / "store"
    made = {
        put(store / "reductions" / "0123456789abcdef.npy"),
        put(store / "matrices" / "tickets" / "f-1.npz"),
        put(store / "costs" / "tickets" / "0123456789abcdef.json"),
        put(store / "costs" / "_reductions" / "fedcba9876543210.json"),
        put(store / "results" / "tickets" / "0123456789abcdef.assignments.parquet"),
        put(store / "results" / "tickets" / f".x.json.{'0' * 32}.json"),
        put(home / "embeddings" / "0123456789abcdef" / "vectors.f32").parent,
    }
    age(home)
    found = unused(home, PARAMS)
    assert {entry.path for entry in found} == made
    assert {entry.size for entry in found} == {10}
    assert all(entry.why for entry in found)
    assert {entry.path for entry in remove(found)} == made
    assert not any(path.exists() for path in made)


def test_after_cleaning_nothing_is_missing_and_no_number_is_another(bench: Workbench, home: Path) -> None:
    before = leaderboard(bench.store, protocols=PARAMS.protocols)
    put(home / "store" / "reductions" / "0123456789abcdef.npy")
    assert remove(unused(home, PARAMS, outdated=True))
    assert plan(request(), bench.store).count == 0
    pd.testing.assert_frame_equal(leaderboard(bench.store, protocols=PARAMS.protocols), before)


def test_what_is_young_or_locked_is_left_alone(bench: Workbench, home: Path) -> None:
    put(home / "store" / "reductions" / "0123456789abcdef.npy", seconds=60)
    shelf = put(home / "embeddings" / "0123456789abcdef" / "vectors.f32").parent
    age(shelf)
    with FileLock(f"{shelf}.lock"):
        assert unused(home, PARAMS) == []
    found = unused(home, PARAMS)
    assert names(found) == {shelf.name}
    with FileLock(f"{shelf}.lock"):
        assert remove(found) == []
    put(shelf / "index", seconds=0)  # written to since it was listed
    assert remove(found) == [] and shelf.exists()


def test_clusters_that_wait_for_their_scores_stay(bench: Workbench, home: Path) -> None:
    record = next(home.glob("store/results/tickets/*.json"))
    record.unlink()
    assert unused(home, PARAMS) == []
    assert plan(request(), bench.store).count == 1


def test_reductions_of_missing_cells_stay(bench: Workbench, home: Path) -> None:
    for path in home.glob("store/results/tickets/*"):
        path.unlink()
    assert unused(home, PARAMS) == []


def test_a_training_is_abandoned_after_a_week(bench: Workbench, home: Path) -> None:
    work = paths.checkpoints() / ".wwm__tickets__bow.0123456789abcdef"
    put(work / "curve.json")
    age(work)
    assert unused(home, PARAMS) == []
    age(work, ABANDONED + DAY)
    with FileLock(work.with_name(".wwm__tickets__bow.lock")):
        assert unused(home, PARAMS) == []
    found = unused(home, PARAMS)
    assert names(found) == {work.name}
    assert names(remove(found)) == {work.name} and not work.exists()


def test_outdated_cells_go_only_if_they_are_asked_for_and_no_night_remembers_them(bench: Workbench, home: Path) -> None:
    narrow = PARAMS.model_copy(
        update={"protocols": {"own": PROTOCOL.model_copy(update={"parameters": {"kmeans": {"n_init": 3}}})}}
    )
    snapshot(bench.store, present(bench.store, PARAMS.protocols), "2026-01-01")
    # what was kept of a training goes with its cell, and without one
    of_training = [put(path) for path in bench.store.files("tickets", bench.store.cells()["cell_id"].iloc[0])[3:]]
    alone = [put(path) for path in bench.store.files("tickets", "0" * 16)[3:]]
    assert {entry.path for entry in unused(home, PARAMS)} == set(alone)
    remove(unused(home, PARAMS))
    assert not any(entry.path.parent.name == "tickets" for entry in unused(home, narrow))
    assert not any("results" in entry.path.parts for entry in unused(home, narrow, outdated=True))
    (home / "store" / "tables" / "nights" / "2026-01-01.parquet").unlink()
    found = [entry for entry in unused(home, narrow, outdated=True) if "results" in entry.path.parts]
    assert len(found) == 6 and [entry.path.suffix for entry in found[:2]] == [".json", ".json"]
    remove(unused(home, narrow, outdated=True))
    assert bench.store.cells().empty and not any(path.exists() for path in of_training)
