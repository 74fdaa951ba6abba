"""Made for tests: scores as the storage wants them, and cells."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube._core import paths
from traube._core.hashing import digest
from traube._pipeline.cell import Cell
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import make_scores, record
from traube._pipeline.request import Request
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.survey import plan_stored
from traube._pipeline.workbench import Workbench
from traube._storage import CellRow, Storage
from traube._storage.blobs import FolderBlobs
from traube.components import parse_method
from traube.metrics import GROUPS, SCORING_VERSION
from traube.models import Model, load_model
from traube.models.similarity import CONFIG, FOLDER, WEIGHTS, SimilarityConfig, make_network
from traube.tasks import get_source
from traube.tasks.stored import complete_task, save_corpus, save_rows
from traube.tasks.task import Task, index_texts


def store_task(storage: Storage, task: Task) -> None:
    """Store a task as a run does that has read and checked it."""
    save_corpus(storage, task.name, task.corpus, task.corpus[["text_id"]], "raw")
    save_rows(storage, task.card, task.splits)
    complete_task(storage, task.card)


def ingest(storage: Storage, name: str) -> None:
    """Read the raw data of a task into a storage, as a run does."""
    source = get_source(name)
    corpus, records = index_texts(source.read())
    save_corpus(storage, name, corpus, records, source.raw_version())
    save_rows(storage, source.card, source.draw(records))
    complete_task(storage, source.card)


def chance_of_today() -> random.Random:
    """Return random numbers that are others every day: campaigns try other moments. The output names the seed."""
    seed = f"{date.today():%Y%m%d}"
    sys.stderr.write(f"random seed {seed}\n")
    return random.Random(seed)


def with_replicates(scores: pd.DataFrame, spread: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Scores with replicates that vary by `spread` about the value; by default they say that the texts do not matter."""
    rng = np.random.default_rng(seed)
    made = [value + spread * rng.normal(size=GROUPS) for value in scores["value"]]
    return scores.assign(replicates=pd.Series(made, index=scores.index, dtype=object))


def page_data(page: str) -> Any:
    """Return the data that a page's scripts read; for a page of figures, traces and layout of each."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    return json.loads(data[1])


def tips_of(page: str) -> list[str]:
    """Return what pointing at the texts of a page's figures shows."""
    return [tip for figure in page_data(page) for trace in figure["traces"] for tip in trace["hovertext"]]


def save_scored(
    storage: Storage,
    row: CellRow,
    scores: pd.DataFrame,
    assignments: pd.DataFrame | None = None,
    histories: Mapping[str, Any] | None = None,
) -> None:
    """Store a cell that is done, with scores of any splits (split, level, metric, value, replicates)."""
    known = storage.read_splits(row.data_version, row.split_set)
    named = scores[["split", "level"]].drop_duplicates()
    if not set(named.itertuples(index=False, name=None)) <= set(zip(known["name"], known["level"], strict=True)):
        row = replace(row, split_set=digest(named.to_numpy().tolist()))
        splits = named.assign(split_set=row.split_set, item=0, text_id="", label="a", query_id=None, part="test")
        versions = {"data_version": row.data_version}
        storage.save_task(row.split_set, "clustering", {}, versions, {}, splits)
        known = storage.read_splits(row.data_version, row.split_set)
    storage.save_cell(row, assignments, make_scores(scores, known), histories=histories)


def damage_blob(storage: Storage, blob: str) -> None:
    """Flip a bit in the middle of a blob."""
    assert isinstance(storage.blobs, FolderBlobs)
    path = storage.blobs.get_path(blob)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def kill_while_writing(database: Path, statement: str) -> None:
    """Kill a process amid a transaction, so that its journal has to be rolled back."""
    code = (
        "import os, sqlite3, sys; database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size = 1')\n"  # pages are written before the transaction ends
        "database.execute('BEGIN'); database.execute(sys.argv[2]); database.execute('CREATE TABLE half (content)')\n"
        "database.executemany('INSERT INTO half VALUES (?)', [('x' * 5000,)] * 50); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(database), statement], check=False)
    assert database.with_name(f"{database.name}-journal").exists()


def save_done(storage: Storage, cell: Cell, assignments: pd.DataFrame | None = None) -> None:
    """Store a cell as it is when it is done, with a score of one half."""
    scores = pd.DataFrame({"split": ["all"], "level": "area", "metric": "v_measure/noise_as_cluster", "value": 0.5})
    save_scored(storage, record(cell, "done"), with_replicates(scores), assignments)


def is_finished(cell: Cell, storage: Storage) -> bool:
    """Return whether a cell needs no work."""
    return cell.cell_id in storage.find_finished(cell.task, SCORING_VERSION)


def run_missing(workbench: Workbench, request: Request) -> list[Cell]:
    """Compute what a request lacks of stored tasks, as a run does; require that nothing failed, and return what is scored."""
    scored = []
    for name in request.models:
        model = load_model(name, precision=request.protocol.precision)
        plan = plan_stored(request, model, workbench.storage)
        assert not [encoded for encoded in encode(plan, workbench) if encoded.blocking]
        clustered = [event.result().cell for event in cluster(plan, workbench)]
        scored += [event.result().cell for event in score(plan.after(clustered), workbench)]
    return scored


_OWN = Protocol(reducers=("none",), clusterers=("kmeans",))


def cells_of(task: Task, *methods: str, model: Model | None = None, seeds: Sequence[int] = (1,)) -> list[Cell]:
    """The cells of a task by some methods, by default with bag of words and one seed."""
    return cells(task, model or load_model("bow"), _OWN, methods=[parse_method(m) for m in methods], seeds=seeds)


def save_similarity(model: Path, **settings: Any) -> Path:
    """Put a similarity with random weights into a model's folder, and make it a trained similarity. Returns the folder."""
    import torch
    from safetensors.torch import save_file

    config = SimilarityConfig.model_validate({"network": "qss", "query": "text", "dimensions": 32, **settings})
    (model / FOLDER).mkdir()
    (model / FOLDER / CONFIG).write_text(config.model_dump_json())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(make_network(config).state_dict(), model / FOLDER / WEIGHTS)
    return model


def make_module(kind: str, *arguments: Any, **settings: Any) -> Any:
    """A module of a SentenceTransformer, such as its pooling. They take seconds to import, so tests do when they run."""
    from sentence_transformers.sentence_transformer import modules

    return getattr(modules, kind)(*arguments, **settings)


def copy_project(folder: Path, without: tuple[str, ...]) -> dict[str, str]:
    """Copy the project's files, as git knows them, but for those whose paths begin so; the environment to run it in."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=paths.PROJECT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if not name.startswith(without) and (paths.PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(paths.PROJECT / name, folder / name)
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("TRAUBE_", "DAGSTER_HOME", "MLFLOW_"))}
    return {**ours, "PYTHONPATH": str(folder), "TRAUBE_WORKERS": "1"}


class Mark:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def peer(folder: Path, texts: list[str]) -> np.ndarray:
    """Encode texts by sentence-transformers, in fp32, in one batch and by one thread as Traube does."""
    import torch
    from sentence_transformers import SentenceTransformer

    network = SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32}
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums over several have another order, on some processors
    try:
        return network.encode(texts, batch_size=len(texts))
    finally:
        torch.set_num_threads(threads)


THINGS = {
    "food": ["bread dough loaf", "soup spoon broth", "cheese milk rind"],
    "sport": ["goal keeper match", "racket net serve", "lane swim stroke"],
    "space": ["moon orbit crater", "star light giant", "comet tail ice"],
    "music": ["violin bow string", "drum stick beat", "choir voice hymn"],
}


def make_nested_texts(each: int = 10) -> list[str]:
    """Four things of three kinds each, some texts of each kind."""
    random = np.random.default_rng(0)
    kinds = [(thing, words.split()) for thing, own in THINGS.items() for words in own]
    return [" ".join([thing, *random.choice(words, 3), f"n{i}"]) for i in range(each) for thing, words in kinds]
