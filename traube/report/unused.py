"""What lies in a home and is used by nothing any more, and its removal; `traube clean`.

Listed are vectors and matrices of models that are gone or were changed, reductions that no cell
asked for needs, files of cells without a record, damaged ones, files that a crash left half
written, and trainings that nobody went on with. Sound cells that are stored are never listed,
unless outdated ones are asked for. Removing is safe while runs are at work: what is young or
locked is left alone.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from traube.benchmark.current import current_cells
from traube.benchmark.params import Params
from traube.benchmark.plan import Cell, Request, plan, wanted_models
from traube.comparison.regressions import remembered_cells
from traube.engine.cluster import reduction_path
from traube.engine.pair_cells import pair_cells
from traube.engine.workbench import Workbench
from traube.foundation import paths, share
from traube.foundation.errors import TraubeError
from traube.foundation.files import remove as remove_file
from traube.foundation.hashing import digest
from traube.methods import Method
from traube.models import Model, cache_key, fingerprint_on, load_model, model_cards
from traube.models.card import Precision
from traube.store import REDUCTIONS, Store
from traube.store.pairs import PairStore

HOUR = 3600.0
YOUNG = HOUR  # seconds; somebody may be about to use it
ABANDONED = 7 * 24 * HOUR  # a training that was stopped goes on where it was: it is given a week
UNREAD = 7 * 24 * HOUR  # each publication touches the scores of pages that it reads
OUTDATED = "of a cell that does not count today"
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}(\.\w+)?")  # see `atomic`
_WORK = re.compile(r"(\..+)\.[0-9a-f]{16}")  # see `Trainer.fit`


@dataclass(frozen=True)
class Unused:
    """A file or folder that may go.

    Attributes
    ----------
    size : bytes
    why : in words
    lock : held by whoever works with it
    own : removed on this machine only: others may have it sound
    """

    path: Path
    size: int
    why: str
    lock: Path | None = None
    own: bool = False


def unused(home: Path, params: Params, outdated: bool = False) -> list[Unused]:
    """What may be removed below a home and from `checkpoints/`.

    Parameters
    ----------
    outdated : also the cells that do not count today; those that the last nights remember stay,
        for their comparison
    """
    bench = Workbench.at(home)
    cells = current_cells(bench.store, params.protocols, own_choice=True)
    todo = plan(Request(params.tasks, wanted_models(params), params.protocol, params.chosen()), bench.store)
    missing = [cell for by_task in todo.missing.values() for group in by_task.values() for cell in group]
    awaited = {cell.cell_id for cell in missing}
    entries = [
        *_half_written(home),
        *_damaged(bench.store),
        *_without_record(bench.store, awaited),
        *_costs(bench.store, awaited | {cell.fingerprint for cell in missing}),
        *_vectors(bench, params),
        *_matrices(bench),
        *_reductions(bench, [*_of_records(cells, params), *map(_of_cell, missing)]),
        *_entries(bench.store.folder.glob("pages/[!.]*.parquet"), "scores of pages in no table for a week", UNREAD),
        *_trainings(paths.checkpoints()),
        *_entries(bench.store.folder.glob("trainings/*"), "of a training that was stopped over a week ago", ABANDONED),
        *_entries(_pair_tables(bench, recorded=False), "of a cell that has no record"),
        *(_outdated(bench, cells) if outdated else ()),
        *(_entries(_pair_tables(bench, recorded=True), OUTDATED) if outdated else ()),
    ]
    # a cell's record before its tables: without it, it is none
    return sorted(
        {entry.path: entry for entry in entries}.values(), key=lambda e: (e.path.suffix != ".json", str(e.path))
    )


def remove(entries: Iterable[Unused]) -> list[Unused]:
    """Remove what is listed, but for what was written or locked since. Returns what is gone."""
    return [entry for entry in entries if _remove(entry)]


def _remove(entry: Unused) -> bool:
    limit = ABANDONED if _WORK.fullmatch(entry.path.name) else YOUNG
    lock = FileLock(entry.lock) if entry.lock else None
    try:
        if lock:
            lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        if _age(entry.path) < limit:
            return False
        if entry.path.is_dir():
            shutil.rmtree(entry.path)
        elif entry.own:
            entry.path.unlink()
        else:
            remove_file(entry.path)
    except FileNotFoundError:
        return False
    finally:
        if lock:
            lock.release()
    return True


def _entries(candidates: Iterable[Path], why: str, older_than: float = YOUNG, lock: bool = False) -> Iterator[Unused]:
    """Those that are old enough and not locked."""
    for path in candidates:
        place = path.with_name(f"{path.name}.lock") if lock else None
        if path.exists() and _age(path) >= older_than and not (place and _is_held(place)):
            yield Unused(path, _size(path), why, place)


def _is_held(lock: Path) -> bool:
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def _files(path: Path) -> list[Path]:
    return [path, *path.rglob("*")] if path.is_dir() else [path]


def _age(path: Path) -> float:
    """Seconds since it, or anything in it, was written."""
    return time.time() - max(file.lstat().st_mtime for file in _files(path))


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in _files(path) if not file.is_dir())


# what there is


def _half_written(home: Path) -> Iterator[Unused]:
    files = (path for path in home.rglob(".*") if _TEMPORARY.fullmatch(path.name) and path.is_file())
    return _entries(files, "left half written")


def _damaged(store: Store) -> Iterator[Unused]:
    files = (file for files in store.damaged().values() for file in files)
    return (replace(entry, own=True) for entry in _entries(files, "damaged: no result uses it"))


def _without_record(store: Store, missing: set[str]) -> Iterator[Unused]:
    """Tables and histories of cells that neither count nor are missing: a run that was stopped scores
    what it had clustered.
    """
    results = store.folder / "results"
    kinds = ("results/*/*.assignments.parquet", "results/*/*.scores.parquet", "histories/*/*", "representations/*/*")
    files = (
        path
        for kind in kinds
        for path in store.folder.glob(kind)
        if not path.name.startswith(".")
        and (cell_id := path.name.split(".")[0]) not in missing
        and not (results / path.parent.name / f"{cell_id}.json").exists()
    )
    return _entries(files, "of a cell that has no record")


def _costs(store: Store, missing: set[str]) -> Iterator[Unused]:
    """What was measured of cells and models (by id and fingerprint) that are neither stored nor
    missing, and of reductions that are gone.
    """
    cells = store.cells()
    measured = {*cells["cell_id"], *cells["fingerprint"], *missing}
    files = (
        path
        for path in store.folder.glob("costs/*/[!.]*.json")
        if not (share.is_there(store.reduction(path.stem)) if path.parent.name == REDUCTIONS else path.stem in measured)
    )
    return _entries(files, "seconds and memory of what is gone")


def _vectors(bench: Workbench, params: Params) -> Iterator[Unused]:
    """Shelves of the embedding cache that no model of today reads."""
    precisions = [None, *dict.fromkeys(p.precision for p in params.protocols.values() if p.precision)]
    used, unknown = set[str](), set[str]()
    for name in model_cards():
        for precision in precisions:
            model = _model(name, precision)
            if model is None:
                unknown.add(name)  # its weights may come back
            else:
                used.add(cache_key(model))
    cells = bench.store.cells()
    for row in cells[cells["model"].isin(unknown)].itertuples(index=False):
        used.add(digest([row.fingerprint, row.numerics.get("model", {})]))
    folders = (path for path in bench.cache.folder.glob("*") if path.is_dir() and path.name not in used)
    return _entries(folders, "vectors of a model that is gone, or was another then", lock=True)


def _model(name: str, precision: Precision | None = None) -> Model | None:
    try:
        model = load_model(name, precision=precision)
        _ = model.fingerprint
    except TraubeError:
        return None
    return model


def _matrices(bench: Workbench) -> Iterator[Unused]:
    """Matrices of corpus-bound models on other data, of other settings or other libraries."""
    models = [model.encoder for name in model_cards() if (model := _model(name)) and model.corpus_bound]
    files = []
    for folder in bench.store.folder.glob("matrices/*"):
        manifest = bench.store.manifest(folder.name)
        if manifest is None:
            continue  # it is being read
        used = {f"{fingerprint_on(m, manifest.corpus_version)}-{digest(dict(m.numerics))}" for m in models}
        files += [path for path in folder.glob("[!.]*.np[yz]") if path.stem not in used]
    return _entries(files, "vectors of a model on other data, or of other settings")


def _reductions(bench: Workbench, needed: Iterable["_Reduced"]) -> Iterator[Unused]:
    """Reductions that neither a cell that counts nor one that is missing needs."""
    texts = cache(partial(_text_ids, bench))
    used = {path for need in set(needed) for path in _paths(bench.store, texts, need)}
    files = (path for path in bench.store.folder.glob("reductions/[!.]*.npy") if path not in used)
    return _entries(files, "a reduction that no cell needs")


@dataclass(frozen=True)
class _Reduced:
    """What reductions are made of: those of all splits of a task."""

    task: str
    split_set: str
    fingerprint: str
    numerics: tuple[tuple[str, str], ...]
    method: Method
    seed: int | None


def _of_cell(cell: Cell) -> _Reduced:
    return _Reduced(cell.task, cell.split_set, cell.fingerprint, cell.model_numerics, cell.method, cell.seed)


def _of_records(cells: pd.DataFrame, params: Params) -> Iterator[_Reduced]:
    for row in cells[cells["reducer"] != "none"].itertuples(index=False):
        protocol = params.protocols.get(row.protocol)
        method = Method(row.reducer, row.clusterer, row.params["reducer_params"], row.params["clusterer_params"])
        seed = None if pd.isna(row.seed) else int(row.seed)
        split_set = protocol.split_set if protocol else "default"
        yield _Reduced(row.task, split_set, row.fingerprint, tuple(row.numerics["model"].items()), method, seed)


def _paths(store: Store, texts: Callable[[str, str], list[NDArray[np.object_]]], need: _Reduced) -> Iterator[Path]:
    if need.method.reducer == "none":
        return
    for ids in texts(need.task, need.split_set):
        yield reduction_path(store, need.fingerprint, dict(need.numerics), need.method, need.seed, ids)


def _text_ids(bench: Workbench, task_name: str, split_set: str) -> list[NDArray[np.object_]]:
    """The texts of each test split of a stored task; none if it is being read."""
    try:
        task = bench.task(task_name)
    except TraubeError:
        return []
    ids = task.corpus["text_id"].to_numpy(dtype=object)
    return [ids[split.rows] for split in task.test_splits(split_set)]


def _trainings(folder: Path) -> Iterator[Unused]:
    """Work folders of trainings that were stopped, and that nobody went on with for a week."""
    for path in folder.glob(".*"):
        match = _WORK.fullmatch(path.name)
        if match and path.is_dir():
            lock = path.with_name(f"{match[1]}.lock")
            if _age(path) >= ABANDONED and not _is_held(lock):
                yield Unused(path, _size(path), "of a training that was stopped over a week ago", lock)


def _outdated(bench: Workbench, cells: pd.DataFrame) -> Iterator[Unused]:
    """The files of the cells that do not count today; the record first: a cell without it is none."""
    kept = {*cells["cell_id"], *remembered_cells(bench.store)}
    stored = bench.store.cells()
    for task, cell_id in stored.loc[~stored["cell_id"].isin(kept), ["task", "cell_id"]].itertuples(index=False):
        yield from _entries(bench.store.files(task, cell_id), OUTDATED)


def _pair_tables(bench: Workbench, recorded: bool) -> Iterator[Path]:
    """The files of the cells of pair tasks that have no record; or of those that have one and do
    not count today.
    """
    store = PairStore.of(bench.store)
    for folder in (store.folder / "results").glob("*"):
        counting = _counting_pairs(store, folder.name) if recorded else set()
        for path in folder.glob("[!.]*.*"):
            record = path.with_suffix(".json")
            if record.exists() == recorded and path.stem not in counting:
                yield path


def _counting_pairs(store: PairStore, name: str) -> set[str]:
    """The ids of a pair task's cells under today's data, models and libraries."""
    try:
        task = store.task(name)
    except TraubeError:
        return set()
    if task is None:
        return set()
    models = [model for model in map(_model, model_cards()) if model]
    parts = task.pairs["part"].unique()
    return {cell.cell_id for model in models for part in parts for cell in pair_cells(task, model, part=part)}
