"""`traube cluster` and `traube run` group the same texts alike: one function clusters for both."""

import csv
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Traube
from tests.made import make_nested_texts
from traube._core import paths
from traube._pipeline.current import current_cells
from traube._pipeline.params import load_params
from traube._storage import open_storage
from traube.tasks import load_task


def cluster_command(traube: Traube, file: Path, *arguments: str) -> dict[str, int]:
    """The group of each text by `traube cluster`."""
    done = traube("cluster", str(file), *arguments, "--no-report")
    assert done.exit_code == 0, done.output
    with file.with_name(f"{file.name}.clusters.csv").open() as written:
        return {row["text"]: int(row["group"]) for row in csv.DictReader(written)}


def run_command(traube: Traube, file: Path, *arguments: str) -> dict[str, int]:
    """The cluster of each text by `traube run`."""
    done = traube("run", str(file), *arguments)
    assert done.exit_code == 0, done.output
    storage, task = open_storage(paths.home()), load_task(file.stem)
    (cell,) = current_cells(storage, load_params().protocols, own_choice=True)["cell_id"]
    (split,) = task.test_splits()
    clusters = storage.read_assignments(cell).set_index("item")["cluster"].reindex(split.items)
    return dict(zip(task.texts_at(split.rows), clusters.tolist(), strict=True))


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(  # of each kind of input one is quick
    ("model", "method", "params"),
    [
        ("tfidf", "none/kmeans", {"n_init": 2}),
        slow("tfidf", "none/kmeans", {"k": "auto"}),
        slow("lsa", "pca/agglomerative", {"linkage": "average"}),
        slow("lsa", "umap/hdbscan", {"min_cluster_size": 4}),
        slow("tfidf", "none/stable_kmeans", {"n_neighbors": 9}),
        slow("lsa", "none/stable_kmeans", {}),
        ("jaccard", "none/agglomerative_average", {}),
        ("bow", "none/gsdmm", {"most": 40}),
    ],
)
def test_the_same_texts_method_parameters_and_seed_give_the_same_labels(
    traube: Traube, tmp_path: Path, model: str, method: str, params: Mapping[str, Any]
) -> None:
    own = {"reducers": ["none"], "clusterers": ["kmeans"], "parameters": {method.partition("/")[2]: dict(params)}}
    own |= {"seeds": [7], "main_metric": "silhouette"}
    choice = {"protocol": "own", "tasks": ["pydocs_s2s"], "models": ["tfidf"], "protocols": {"own": own}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(choice))
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(make_nested_texts(4)))
    arguments = ["-m", model, "--method", method, "--seed", "7"]
    by_run = run_command(traube, file, *arguments)
    assert len(set(by_run.values())) > 1
    assert cluster_command(traube, file, *arguments) == by_run
