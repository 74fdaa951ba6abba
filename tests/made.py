"""Made for tests: scores as the store wants them, and cells."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, cells
from traube.benchmark.record import record
from traube.foundation import paths
from traube.methods import parse_method
from traube.metrics import GROUPS
from traube.models import Model, load_model
from traube.models.similarity import CONFIG, FOLDER, WEIGHTS, SimilarityConfig, make_network
from traube.store import Store
from traube.tasks.best_worst import ITEM, Tuple
from traube.tasks.splitting import generator
from traube.tasks.task import Task


def with_replicates(scores: pd.DataFrame, spread: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Scores with replicates that vary by `spread` about the value; by default they say that the texts do not matter."""
    rng = np.random.default_rng(seed)
    made = [value + spread * rng.normal(size=GROUPS) for value in scores["value"]]
    return scores.assign(replicates=pd.Series(made, index=scores.index, dtype=object))


def save_done(store: Store, cell: Cell) -> None:
    """Store a cell as it is when it is done, with a score of one half."""
    scores = pd.DataFrame({"split": ["all"], "level": "area", "metric": "v_measure/noise_as_cluster", "value": 0.5})
    store.save_scores(cell.task, cell.cell_id, with_replicates(scores))
    store.save_cell(record(cell, "done"))


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


def simulate_judgements(
    truth: dict[str, float], tuples: Iterable[Tuple], annotators: int, noise: float
) -> pd.DataFrame:
    """Judgements of tuples: annotator, item_1 ... item_m, best, worst.

    An annotator sees each item's true value plus normal noise of a standard deviation, drawn anew for each judgement, and
    names the largest and the smallest.
    """
    rng = generator(f"simulated {annotators} {noise}")
    rows = []
    for annotator in range(1, annotators + 1):
        for one in tuples:
            seen = np.array([truth[item] for item in one]) + rng.normal(0, noise, len(one))
            rows.append((f"simulated_{annotator}", *one, one[int(seen.argmax())], one[int(seen.argmin())]))
    names = [f"{ITEM}{i}" for i in range(1, len(rows[0]) - 2)]
    return pd.DataFrame(rows, columns=["annotator", *names, "best", "worst"])


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
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def peer(folder: Path, texts: list[str]) -> np.ndarray:
    """What sentence-transformers makes of texts, in fp32, in one batch and by one thread as Traube does."""
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
