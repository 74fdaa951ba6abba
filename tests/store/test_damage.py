"""Whatever happens to a file of a home, nobody reads other rows from it than were written; and what is damaged is made again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal
from scipy import sparse

from traube.benchmark.params import Protocol
from traube.benchmark.plan import Request, missing_cells, plan
from traube.benchmark.record import Recorder
from traube.engine.cluster import cluster
from traube.engine.score import score_stored
from traube.engine.workbench import Workbench
from traube.foundation import seals
from traube.foundation.errors import TraubeError
from traube.foundation.seals import check
from traube.models import load_model, vectors
from traube.models.vectors import stored_matrix
from traube.store import Store, cells, scores
from traube.tasks import get_source
from traube.tasks.task import index_texts

PROTOCOL = Protocol(reducers=("none", "pca"), clusterers=("kmeans",), seeds=(1,))
REQUEST = Request(["tickets", "topics"], ["bow", "lsa"], "own", PROTOCOL)
KINDS = {
    "record": "store/results/tickets/*.json",
    "scores": "store/results/tickets/*.scores.parquet",
    "assignments": "store/results/tickets/*.assignments.parquet",
    "manifest": "store/tasks/tickets/manifest.json",
    "corpus": "store/tasks/tickets/corpus.parquet",
    "splits": "store/tasks/tickets/splits.parquet",
    "records": "store/tasks/tickets/records.parquet",
    "dense matrix": "store/matrices/tickets/*.npy",
    "sparse matrix": "store/matrices/tickets/*.npz",
    "reduction": "store/reductions/*.npy",
}
CASES = 30  # of each kind


def flipped(content: bytearray, rng: np.random.Generator) -> None:
    for position in rng.integers(0, len(content), rng.integers(1, 65)):
        content[position] ^= int(rng.integers(1, 256))


def flipped_once(content: bytearray, rng: np.random.Generator) -> None:
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))


def overwritten(content: bytearray, rng: np.random.Generator) -> None:
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 513))
    content[start : start + length] = rng.bytes(len(content[start : start + length]))


def zeroed(content: bytearray, rng: np.random.Generator) -> None:
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 513))
    content[start : start + length] = bytes(len(content[start : start + length]))


def cut(content: bytearray, rng: np.random.Generator) -> None:
    del content[rng.integers(len(content)) :]


def cut_a_little(content: bytearray, rng: np.random.Generator) -> None:
    del content[-int(rng.integers(1, 65)) :]


def emptied(content: bytearray, _: np.random.Generator) -> None:
    content.clear()


DAMAGES = (flipped, flipped_once, overwritten, zeroed, cut, cut_a_little, emptied)


def damage(path: Path, rng: np.random.Generator) -> bytes:
    """Damage a file in one of many ways; its content before."""
    before = path.read_bytes()
    content = bytearray(before)
    while bytes(content) == before:
        DAMAGES[rng.integers(len(DAMAGES))](content, rng)
    rewrite(path, bytes(content))
    return before


def rewrite(path: Path, content: bytes) -> None:
    """Write a file, at a time of its own however fast the test is."""
    later = path.stat().st_mtime_ns + 10**9
    path.write_bytes(content)
    os.utime(path, ns=(later, later))


def a_new_process() -> None:
    """Forget what this process has read."""
    cells._known.clear()
    vectors._open.cache_clear()
    seals._check_once.cache_clear()


@pytest.fixture(autouse=True)
def _forgetful(cards: Path, topics: pd.DataFrame) -> Iterator[None]:
    """Two tasks, and a process that has read nothing."""
    for name, rows in {"tickets": topics[:24], "topics": topics[24:]}.items():
        rows.to_csv(cards / f"{name}.csv", index=False)
        (cards / f"{name}.yaml").write_text(f"file: {name}.csv\ntext: text\nlabels: topic\n")
    a_new_process()
    yield
    a_new_process()


def evaluate(home: Path) -> None:
    """Make what is missing, as a run does."""
    a_new_process()
    bench = Workbench.at(home)
    for name in plan(REQUEST, bench.store).unread:
        source = get_source(name)
        corpus, records = index_texts(source.read())
        bench.store.save_corpus(name, corpus, records, source.raw_version())
        bench.store.complete(source.card, bench.store.save_splits(source.card, source.draw(records)))
    for model_name, by_task in plan(REQUEST, bench.store).missing.items():
        model = load_model(model_name)
        for name in by_task:
            missing = missing_cells(name, model, REQUEST, bench.store)
            task, recorder = bench.task(name), Recorder(bench.store)
            unclustered = [c for c in missing if not bench.store.sound_assignments(name, c.cell_id)]
            for result in cluster(task, bench.vectors(task, model), unclustered, bench.store, bench.executor):
                assert result.assignments is not None, result.reason
                recorder.clustered(result.cell, result.assignments, result.seconds)
            score_stored(task, missing, recorder, bench.executor)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, made: dict[str, Any], _forgetful: None) -> Path:
    """A home with two evaluated tasks, made once; each test leaves it as it was."""
    if not made:
        made["home"] = tmp_path_factory.mktemp("evaluated")
        evaluate(made["home"])
        made["numbers"] = numbers(Store(made["home"] / "store"))
        assert len(made["numbers"]) == 8
    home: Path = made["home"]
    return home


def numbers(store: Store) -> dict[str, pd.DataFrame]:
    """The scores of each cell that is there, with replicates."""
    rows = store.scores(store.cells(), replicates=True)
    rows["replicates"] = rows["replicates"].map(lambda values: None if values is None else tuple(values))
    return {str(cell): frame.reset_index(drop=True) for cell, frame in rows.groupby("cell_id")}


def contents(store: Store, path: Path) -> Any:
    """What a file is read for; an error, or None, if it is found to be damaged."""
    try:
        if path.suffix in (".npy", ".npz"):
            return stored_matrix(path)
        if "results" in path.parts:
            cell_id = path.name.split(".")[0]
            found = store.cells_by_id("tickets", [cell_id])
            return (store.assignments("tickets", cell_id)[0], found) if len(found) else None
        if not store.is_sound("tickets"):
            return None
        return store.manifest("tickets"), store.card("tickets"), store.corpus("tickets"), store.records("tickets")
    except TraubeError as error:
        return error


def assert_equal(found: Any, expected: Any) -> None:
    if sparse.issparse(expected):
        assert (found != expected).nnz == 0 and found.shape == expected.shape
    elif isinstance(expected, np.ndarray):
        assert_array_equal(found, expected)
    elif isinstance(expected, pd.DataFrame):
        assert_frame_equal(found, expected)
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_file_gives_other_rows(home: Path, made: dict[str, Any], kind: str) -> None:
    rng = np.random.default_rng(sorted(KINDS).index(kind))
    store, files = Store(home / "store"), sorted(home.glob(KINDS[kind]))
    noticed = 0
    for _ in range(CASES):
        path = files[rng.integers(len(files))]
        a_new_process()
        expected = contents(store, path)
        before = damage(path, rng)
        a_new_process()
        found = contents(store, path)
        if isinstance(found, TraubeError) or found is None:
            noticed += 1
            assert "\n" not in str(found)
        else:
            assert_equal(found, expected)  # white space of JSON, or the seal of what is whole
        if "results" in path.parts:
            present = numbers(store)
            assert len(present) >= 7, "one file takes no other cell's rows away"
            for cell, rows in present.items():
                assert_frame_equal(rows, made["numbers"][cell])
        rewrite(path, before)
    assert noticed > CASES * 0.8
    a_new_process()
    assert_equal(contents(store, path), expected)  # the sound file is not refused


@pytest.mark.parametrize("kind", [*KINDS, "scores gone"])
def test_what_is_damaged_is_missing_and_made_again(home: Path, made: dict[str, Any], kind: str) -> None:
    store, request = Store(home / "store"), REQUEST
    if kind == "scores gone":
        next(home.glob(KINDS["scores"])).unlink()
    else:
        path = sorted(home.glob(KINDS[kind]))[0]
        content = path.read_bytes()
        rewrite(path, content[: len(content) // 2] + b"damaged!" + content[len(content) // 2 + 8 :])
    a_new_process()
    if kind in ("dense matrix", "sparse matrix", "reduction"):  # nothing is missing; it matters once it is used again
        for path in home.glob("store/results/*/*"):
            path.unlink()
    found = plan(request, store)
    assert found.count or found.unread == ["tickets"]
    evaluate(home)
    a_new_process()
    again = numbers(store)
    assert again.keys() == made["numbers"].keys()
    for cell, rows in again.items():
        assert_frame_equal(rows, made["numbers"][cell])
    assert not plan(request, store).count and not plan(request, store).unread and not store.damaged()


def test_damaged_cells_are_told_by_task(home: Path) -> None:
    store = Store(home / "store")
    path = sorted(home.glob(KINDS["scores"]))[0]
    before = damage(path, np.random.default_rng(0))
    a_new_process()
    assert store.damaged() == {"tickets": [path]}
    rewrite(path, before)
    a_new_process()
    assert store.damaged() == {}


def test_every_file_of_a_store_is_sealed(home: Path) -> None:
    tables = [path for path in home.rglob("*") if path.suffix in (".parquet", ".npy", ".npz")]
    assert len(tables) > 20 and all(map(check, tables))


def test_any_program_reads_a_sealed_file(home: Path) -> None:
    """The seal is where no reader looks."""
    path = next(home.glob(KINDS["scores"]))
    assert len(pd.read_parquet(path)) == len(Store(home / "store").scores(Store(home / "store").cells())) // 8
    assert np.load(next(home.glob(KINDS["reduction"]))).ndim == 2
    assert sparse.load_npz(next(home.glob(KINDS["sparse matrix"]))).shape[0] == 24


@pytest.mark.parametrize("kind", ["scores", "assignments", "corpus", "reduction", "dense matrix", "sparse matrix"])
def test_files_of_before_have_no_seal_and_are_read_as_they_are(home: Path, kind: str) -> None:
    store, path = Store(home / "store"), sorted(home.glob(KINDS[kind]))[0]
    expected, content = contents(store, path), path.read_bytes()
    rewrite(path, without_seal(content))
    a_new_process()
    assert not check(path)
    assert_equal(contents(store, path), expected)
    rewrite(path, content)


def without_seal(content: bytes) -> bytes:
    start, end = content.index(b"<traube:"), content.index(b":sealed>") + len(b":sealed>")
    return content[:start] + content[end:]


def test_no_damaged_index_gives_other_rows(home: Path, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in ((cells, "FEW", 1), (scores, "FEW", 1), (cells, "PART", 2), (scores, "PART", 2)):
        monkeypatch.setattr(module, name, value)
    store, rng = Store(home / "store"), np.random.default_rng(7)
    for _ in range(CASES):
        a_new_process()
        numbers(store)  # writes what is not there
        files = sorted(home.glob("store/index/*/*/*.parquet"))
        damage(files[rng.integers(len(files))], rng)
        a_new_process()
        found = numbers(store)
        assert found.keys() == made["numbers"].keys()
        for cell, rows in found.items():
            assert_frame_equal(rows, made["numbers"][cell])
