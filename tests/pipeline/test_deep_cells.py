"""Cells whose clusterer trains an encoder: in this process, after the others, resumable, with their histories kept."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.errors import refused
from tests.made import cells_of, store_task
from traube._core.errors import Invalid
from traube._core.progress import SILENT, Progress
from traube._pipeline.cluster import REPRESENTATIONS, CellResult, cluster_cells
from traube._pipeline.embed import embed_task
from traube._pipeline.executors import Failure, ProcessExecutor
from traube._pipeline.params import Protocol, Sweep
from traube._pipeline.plan import cells
from traube._pipeline.request import Request
from traube._pipeline.run import cluster, score
from traube._pipeline.survey import plan_stored
from traube._pipeline.units import Training
from traube._pipeline.workbench import Workbench
from traube._reports.tables import leaderboard
from traube._storage import Storage, open_storage
from traube.components import parse_method
from traube.components.deep import DEEP
from traube.models import Vectors, load_model
from traube.models.transformer import Transformer
from traube.models.vectors import locate_matrix, open_matrix
from traube.tasks.task import Task, make_task

OWN = Protocol(reducers=("none",), clusterers=("kmeans",))
SHORT = {"aecl": {"epochs": 6, "stage_1": 2, "stage_2": 2, "batch": 8, "augmentation": "order"}}
Run = Callable[..., Iterator[CellResult]]
AECL, KMEANS = parse_method("none/aecl", SHORT), parse_method("none/kmeans")


@pytest.fixture
def pets() -> Task:
    texts = [f"{a} {word} {b}" for word in ("cat", "dog") for a in ("the", "a", "soup") for b in ("star", "bread")]
    return make_task(texts, [text.split()[1] for text in texts], name="pets")


@pytest.fixture
def run(pets: Task, base: Transformer, tmp_path: Path) -> Run:
    """Clusters the cells of a task in a storage."""
    vectors = embed_task(pets, base, Storage(tmp_path))[0]
    return partial(cluster_cells, vectors=vectors, executor=ProcessExecutor(), model=base)


def test_methods_follow_each_other_seed_by_seed(
    pets: Task, run: Run, base: Transformer, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = parse_method("none/aecl", {"aecl": {**SHORT["aecl"], "epochs": 5}})
    requested = cells(pets, base, OWN, methods=[AECL, other], seeds=[1, 2])
    trained = []
    monkeypatch.setattr(
        "traube._pipeline.deep._train",
        lambda request, *rest: trained.append(request.cell.seed) or Failure("failed", "no"),
    )
    assert len([*run(pets, cells=requested, storage=storage)]) == 4
    assert trained == [1, 1, 2, 2]


def test_they_come_last_with_clusters_and_a_history(pets: Task, run: Run, base: Transformer, storage: Storage) -> None:
    requested = cells(pets, base, OWN, methods=[AECL, KMEANS], seeds=[1])
    results = []
    for result in run(pets, cells=requested, storage=storage):
        if result.cell.method is AECL:
            assert (storage.folder / "trainings" / result.cell.cell_id).exists()  # nobody has stored the cell yet
        results.append(result)
    assert [result.cell.method.name for result in results] == ["none/kmeans", "none/aecl"]
    deep = results[1]
    assert deep.status == "done" and deep.assignments is not None
    assert deep.assignments["item"].tolist() == list(range(12))
    assert set(deep.assignments["cluster"]) <= {0, 1}
    assert not (storage.folder / "trainings" / deep.cell.cell_id).exists()
    assert deep.histories is not None and results[0].histories is None
    (history,) = deep.histories.values()
    assert len(history) == 6 and "acc" in history[-1]
    kept = locate_matrix(storage, REPRESENTATIONS, deep.cell.cell_id)
    assert kept is not None and open_matrix(kept).shape == (12, 128)  # of at most a thousand texts
    assert locate_matrix(storage, REPRESENTATIONS, results[0].cell.cell_id) is None


def test_for_one_cluster_nothing_is_trained(base: Transformer, tmp_path: Path) -> None:
    texts = ["the cat", "a dog"]
    trained = Training(DEEP["aecl"].with_values(**SHORT["aecl"]), texts, 1, 0, None).run(base, tmp_path, SILENT)
    assert trained.labels.tolist() == [0, 0]
    assert trained.history == [] and trained.representations is None


def test_a_sweep_that_was_stopped_goes_on_with_the_next_cell(pets: Task, base: Transformer, tmp_path: Path) -> None:
    bench = Workbench.at(tmp_path)
    store_task(bench.storage, pets)
    small = {"epochs": 1, "batch": 8, "frozen": True, "augmentation": "order"}
    protocol = Protocol(reducers=("none",), clusterers=("aecl",), parameters={"aecl": small}, seeds=(1, 2))
    sweep = Sweep(protocol="small", clusterer="aecl", values={"batch": (4, 8), "label_weight": (1.0,)})
    points = sweep.points("sizes", protocol)
    assert list(points) == ["sizes", "sizes.batch=4", "sizes.label_weight=1.0"]

    def filled(name: str, seeds: list[int]) -> int:
        request = Request(["pets"], ["tiny"], name, points[name], seeds=seeds)
        plan = plan_stored(request, base, bench.storage)
        clustered = [event.result().cell for event in cluster(plan, bench)]
        return len(list(score(plan.after(clustered), bench)))

    assert filled("sizes", [1]) == 1
    assert [filled(name, [1, 2]) for name in points] == [1, 2, 2]
    assert [filled(name, [1, 2]) for name in points] == [0, 0, 0]
    by_point = (
        bench.storage.read_cells("pets").groupby("protocol")["params"].first().map(lambda p: p["clusterer_params"])
    )
    assert {name: (p["batch"], p["label_weight"]) for name, p in by_point.items()} == {
        "sizes": (8, 5.0),
        "sizes.batch=4": (4, 5.0),
        "sizes.label_weight=1.0": (8, 1.0),
    }
    assert leaderboard(bench.storage, protocols=points).empty  # which compares methods, not a method with itself


def test_other_texts_are_made_as_the_recipe_says(base: Transformer, masked_model: Path, home: Path) -> None:
    masked_model = shutil.copytree(masked_model, home / "checkpoints" / "masked")
    texts = ["the cat the dog the soup the star the bread"] * 4
    for folder in (str(masked_model), "masked"):  # in checkpoints/, if it is not absolute
        many = DEEP["sccl"].with_values(augmentation=f"contextual:{folder}")
        few = DEEP["rstc"].with_values(augmentation=f"contextual:{folder}")
        changed = [
            sum(a != b for a, b in zip(texts[0].split(), other.split(), strict=True))
            for clusterer in (many, few)
            for other in clusterer.make_augmenter("pets", texts, base)(texts, 0)
        ]
        assert changed == [2] * 4 + [1] * 4  # a fifth of the words, and a tenth
    with refused(Invalid, "eda", "order"):
        DEEP["sccl"].with_values(augmentation="contextual:")


def test_one_that_was_stopped_goes_on_and_finds_the_same(
    pets: Task, run: Run, base: Transformer, storage: Storage, tmp_path: Path
) -> None:
    requested = cells(pets, base, OWN, methods=[AECL], seeds=[1])
    (unbroken,) = run(pets, cells=requested, storage=open_storage(tmp_path / "other"))
    steps: list[int] = []

    def stop(stage: str, amount: int) -> None:
        steps.append(amount)
        if len(steps) == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run(pets, cells=requested, storage=storage, progress=Progress(done=stop)))
    (resumed,) = run(pets, cells=requested, storage=storage)
    assert resumed.assignments.equals(unbroken.assignments)


def test_only_an_encoder_can_be_trained_and_on_texts_alone(tiny_task: Task, vectors: Vectors, storage: Storage) -> None:
    bow = load_model("bow")
    requested = cells_of(tiny_task, "none/aecl", "pca/aecl")
    found = cluster_cells(tiny_task, vectors, requested, storage, ProcessExecutor(), model=bow)
    assert {result.cell.method.name: (result.status, result.reason) for result in found} == {
        "none/aecl": ("unsupported", "aecl trains an encoder, and bow is none: use a sentence-transformers model"),
        "pca/aecl": ("unsupported", "aecl works on texts, and pca reduces vectors: use none/aecl"),
    }


def test_one_that_fails_or_collapses_stops_no_other(run: Run, pets: Task, base: Transformer, storage: Storage) -> None:
    same = parse_method("none/stcc", {"stcc": {"epochs": 1, "batch": 8, "codes": 1}})
    equal = make_task(["cat", "cat ", "cat  "], ["a", "a", "b"], name="equal")
    requested = cells(equal, base, OWN, methods=[same], seeds=[1])
    (collapsed,) = run(equal, cells=requested, storage=storage)
    assert collapsed.status == "done"
    assert collapsed.reason.endswith("all texts are in one cluster")
    too_hot = parse_method("none/aecl", {"aecl": {**SHORT["aecl"], "learning_rate": 1.0, "instance_weight": 1e6}})
    both = cells(pets, base, OWN, methods=[too_hot, AECL], seeds=[1])
    first, second = run(pets, cells=both, storage=storage)
    assert second.status == "done"
    if first.status == "failed":  # whether it overflows is up to the machine
        assert "the loss is" in first.reason
