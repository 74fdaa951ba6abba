"""plan() names the cells that are missing and nothing else."""

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import Refusal, check_names, refused
from tests.made import ingest, is_finished, save_done, store_task
from traube._core.errors import Missing, Unknown
from traube._core.measure import Cost
from traube._pipeline.cell import Cell
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.kinds.clustering import ClusteringCell, ClusteringKind
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan, cells
from traube._pipeline.record import record
from traube._pipeline.request import Request
from traube._pipeline.survey import plan, plan_stored
from traube._storage import Storage
from traube._storage.costs import save_cost
from traube.components import CLUSTERERS, Method, parse_method
from traube.models import load_model
from traube.tasks import load_task
from traube.tasks.stored import read_task
from traube.tasks.task import make_task

PROTOCOL = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative"), seeds=(1, 2))


@pytest.fixture
def tickets(cards: Path, storage: Storage) -> Callable[..., None]:
    """Writes the raw data of the task `tickets` and, as the graph would, reads it into the storage."""

    def write(*texts: str, read: bool = True) -> None:
        (cards / "tickets.csv").write_text("body,area\n" + "\n".join(texts) + "\n")
        (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: body\nlabels: area\n")
        if read:
            ingest(storage, "tickets")

    write("screen,hardware", "login,access", "mouse,hardware")
    return write


def request(
    *, models: Sequence[str] = ("bow",), tasks: Sequence[str] = ("tickets",), name: str = "own", **changes: object
) -> Request:
    return Request(tasks, models, name, PROTOCOL.model_copy(update=changes))


def missing(found: Plan) -> list[Cell]:
    return [cell for by_task in found.missing.values() for of_task in by_task.values() for cell in of_task]


def finish(found: Plan, storage: Storage, status: str = "done") -> None:
    for cell in missing(found):
        save_done(storage, cell) if status == "done" else storage.save_cell(record(cell, status))


def names(found: Plan) -> list[tuple[str, str, int | None]]:
    return sorted(((c.model, c.method.name, c.seed) for c in missing(found)), key=str)


ALL = [("bow", "none/agglomerative", None), ("bow", "none/kmeans", 1), ("bow", "none/kmeans", 2)]


@pytest.mark.usefixtures("tickets")
def test_everything_is_missing_at_first_and_nothing_once_it_is_stored(storage: Storage) -> None:
    first = plan(request(), storage)
    assert names(first) == ALL  # agglomerative draws no random numbers: its seeds are one cell
    assert (first.count, first.total, first.unread, first.unavailable) == (3, 3, [], {})
    finish(first, storage)
    second = plan(request(), storage)
    assert (second.missing, second.count, second.total) == ({}, 0, 3)


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize(
    ("changes", "added"),
    [
        pytest.param({"seeds": (1, 2, 3)}, [("bow", "none/kmeans", 3)], id="a seed, of seeded methods"),
        pytest.param(
            {"clusterers": ("kmeans", "agglomerative", "minibatch_kmeans")},
            [("bow", "none/minibatch_kmeans", 1), ("bow", "none/minibatch_kmeans", 2)],
            id="a method",
        ),
        pytest.param({"models": ("bow", "tfidf")}, [("tfidf", *rest) for _, *rest in ALL], id="a model"),
        pytest.param({"parameters": {"kmeans": {"n_init": 10}}}, ALL[1:], id="a parameter, of its method"),
        pytest.param({"parameters": {"kmeans": {"n_init": "auto"}}}, [], id="a parameter's default"),
        pytest.param({"name": "paper"}, ALL, id="a protocol"),
    ],
)
def test_what_is_new_in_a_request_adds_its_own_cells(
    storage: Storage, changes: dict[str, Any], added: list[tuple[str, str, int | None]]
) -> None:
    finish(plan(request(), storage), storage)
    assert names(plan(request(**changes), storage)) == added


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize("change", ["prompt: 'query '", "max_length: 8", "precision: bf16"])
def test_a_changed_model_is_a_new_one(storage: Storage, cards: Path, tiny_bert: Path, change: str) -> None:
    shutil.copytree(tiny_bert, cards / "tiny")
    (cards / "mine.yaml").write_text("model: ./tiny\n")
    finish(plan(request(models=["mine", "bow"]), storage), storage)
    (cards / "mine.yaml").write_text(f"model: ./tiny\n{change}\n")
    todo = plan(request(models=["mine", "bow"]), storage)
    assert names(todo) == [("mine", *rest) for _, *rest in ALL]
    (cell, *_) = todo.missing["mine"]["tickets"]
    assert record(cell, "done").precision == ("bf16" if "precision" in change else "fp32")
    (cards / "mine.yaml").write_text("model: ./tiny\ndescription: the same again\n")
    assert plan(request(models=["mine", "bow"]), storage).count == 0


def test_changed_data_is_read_and_then_its_cells_are_new(storage: Storage, tickets: Callable[..., None]) -> None:
    finish(plan(request(), storage), storage)
    changed = "screen,hardware", "login,access", "mouse,peripherals"
    tickets(*changed, read=False)
    found = plan(request(), storage)
    assert (found.unread, found.count) == (["tickets"], 0)
    tickets(*changed)
    assert names(plan(request(), storage)) == ALL
    tickets("screen,hardware", "login,access", "mouse,hardware")
    assert plan(request(), storage).count == 0  # back to what is stored


def test_a_task_that_was_never_read_is_unread(storage: Storage, cards: Path) -> None:
    (cards / "tickets.csv").write_text("body,area\nscreen,hardware\nlogin,access\n")
    (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: body\nlabels: area\n")
    assert plan(request(), storage).unread == ["tickets"]
    with refused(Missing, "tickets"):
        plan_stored(request(), load_model("bow"), storage)


@pytest.mark.usefixtures("tickets")
def test_failed_cells_are_tried_again_and_unsupported_ones_are_not(storage: Storage) -> None:
    finish(plan(request(), storage), storage, "failed")
    assert names(plan(request(), storage)) == ALL
    finish(plan(request(), storage), storage, "unsupported")
    assert plan(request(), storage).count == 0


@pytest.mark.usefixtures("tickets")
def test_a_new_scoring_version_scores_clusters_again(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(request(), storage)
    for cell in missing(first):
        frame = pd.DataFrame({"split": "all", "level": "area", "item": [0, 1, 2], "cluster": [0, 1, 0]})
        save_done(storage, cell, frame)
    monkeypatch.setattr(ClusteringKind, "scoring_version", "a later one")
    again = plan(request(), storage)
    assert {c.cell_id for c in missing(again)} == {c.cell_id for c in missing(first)}
    assert not again.to_cluster


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("traube._pipeline.kinds.clustering.CLUSTERING_VERSION", "a later one"),
        ("traube.components.registry.get_versions", lambda packages: dict.fromkeys(packages, "9.9")),
    ],
)
def test_a_new_version_of_clustering_or_of_all_libraries_makes_all_cells_new(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, place: str, value: object
) -> None:
    before = {c.cell_id for c in missing(plan(request(), storage))}
    monkeypatch.setattr(place, value)
    assert not before & {c.cell_id for c in missing(plan(request(), storage))}


@pytest.mark.usefixtures("tickets")
def test_a_new_version_of_a_component_makes_its_cells_new(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {c.cell_id for c in missing(plan(request(), storage))}
    monkeypatch.setitem(CLUSTERERS, "kmeans", dataclasses.replace(CLUSTERERS["kmeans"], version="2"))
    after = missing(plan(request(), storage))
    assert {c.method.clusterer for c in after if c.cell_id not in before} == {"kmeans"}
    assert {c.method.clusterer for c in after if c.cell_id in before} == {"agglomerative"}


def test_the_cards_number_of_clusters_is_part_of_a_cell(cards: Path, storage: Storage) -> None:
    """`clusters: 3` edited to 9 and run again computes again: nothing else says how many clusters there are."""
    (cards / "notes.csv").write_text("body\n" + "\n".join(f"note{i} topic{i % 3} more{i % 5}" for i in range(12)))
    found = []
    for k in (3, 9, 3):
        (cards / "notes.yaml").write_text(f"file: notes.csv\ntext: body\nclusters: {k}\n")
        task = load_task("notes")
        requested = cells(task, load_model("bow"), PROTOCOL, protocol_name="own")
        found.append({c.cell_id for c in requested})
        assert {c.clusters for c in requested} == {k}
        only = [c for c in requested if c.method.name == "none/kmeans"][:1]
        _, assignments = evaluate_cells(task, load_model("bow"), only)
        assert assignments["cluster"].nunique() == k
    assert found[0] == found[2]
    assert not found[0] & found[1]


@pytest.mark.usefixtures("tickets")
def test_what_is_named_twice_is_planned_once(storage: Storage) -> None:
    found = plan(request(seeds=(1, 2, 1), clusterers=("kmeans", "agglomerative", "kmeans")), storage)
    assert names(found) == ALL
    assert plan(request(models=("bow", "bow"), tasks=("tickets", "tickets")), storage).total == 3


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"models": ["bwo"]}, (Unknown, "bwo", "bow")),
        ({"tasks": ["tikcets"]}, (Unknown, "tikcets", "tickets", "tweet")),
        ({"clusterers": ("kmean",)}, (Unknown, "stable_kmeans")),
    ],
)
def test_what_does_not_exist_is_an_error_with_near_names(storage: Storage, changes: dict, refusal: Refusal) -> None:
    with refused(*refusal):
        plan(request(**changes), storage)


@pytest.mark.usefixtures("tickets")
def test_what_cannot_be_had_here_is_left_out_with_its_reason(storage: Storage, cards: Path) -> None:
    (cards / "far.yaml").write_text("model: ./far\n")
    (cards / "old.yaml").write_text("file: old.csv\ntext: body\n")
    found = plan(request(models=["bow", "far"], tasks=["tickets", "old"]), storage)
    assert names(found) == ALL
    assert found.unavailable.keys() == {"far", "old"}
    check_names(found.unavailable["far"], "'far'", cards / "far")
    check_names(found.unavailable["old"], cards / "old.yaml", "line 1: file: ", cards / "old.csv")


@pytest.mark.usefixtures("tickets")
def test_cells_of_a_task_at_hand_are_those_of_the_plan(storage: Storage) -> None:
    task = read_task(storage, "tickets")
    at_hand = cells(task, load_model("bow"), PROTOCOL, protocol_name="own")
    assert [c.cell_id for c in at_hand] == [c.cell_id for c in missing(plan(request(), storage))]
    only = cells(task, load_model("bow"), PROTOCOL, methods=[parse_method("pca/kmeans")], seeds=[7])
    assert [(c.method.name, c.seed) for c in only] == [("pca/kmeans", 7)]


FIELDS = {
    "task": ["tickets", "other"],
    "fingerprint": ["f1", "f2"],
    "method": [parse_method("none/kmeans"), parse_method("pca/kmeans"), parse_method("none/kmeans", {"kmeans": {"tol": 1}})],
    "seed": [None, 0, 1],
    "protocol": ["own", "paper"],
    "split_set": ["default", "small"],
    "data_version": ["d1", "d2"],
    "model_numerics": [(), (("torch", "1"),), (("torch", "2"),)],
    "clusters": [None, 3, 9],
}  # fmt: skip
CELLS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in FIELDS.items()})


@given(CELLS, CELLS)
@settings(max_examples=200)
def test_two_cells_share_an_id_only_if_they_would_give_the_same_number(first: dict, second: dict) -> None:
    a, b = (ClusteringCell(family="own", model="bow", **fields) for fields in (first, second))
    assert (a.cell_id == b.cell_id) == (first == second)


def test_a_cell_without_its_record_is_not_stored(storage: Storage) -> None:
    cell = ClusteringCell("t", "own", "bow", "f", parse_method("none/kmeans"), 1, "own", "default", "d")
    assert not is_finished(cell, storage)
    save_done(storage, cell)
    assert is_finished(cell, storage)


def test_time_grows_with_texts_models_and_weights(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are encoded already take no time; half as fast a computer takes twice as long."""
    from traube._pipeline import expected

    def measured(seconds: float) -> None:
        monkeypatch.setattr(expected.timeit, "repeat", lambda *_, **__: [seconds])

    for name, count in (("few", 300), ("many", 3000)):
        texts = [f"text {i} " * 20 for i in range(count)]
        task = make_task(texts, [str(i % 3) for i in range(count)], name=name)
        store_task(storage, task)

    def seconds(models: tuple[str, ...], task: str, reducer: str) -> float:
        cells = [ClusteringCell(task, "own", "", "f", Method(reducer, "kmeans"), 1, "own", "default", "d")]
        return expected.estimate_run_seconds(storage, {model: {task: cells} for model in models}, cores=2)

    measured(expected.SUM_SECONDS)
    few = seconds(("bow",), "few", "umap")
    assert few < seconds(("bow",), "many", "umap") < seconds(("bow", "lsa"), "many", "umap") < 60
    assert 3 * seconds(("bow",), "many", "none") < seconds(("minilm",), "many", "none")
    slow = seconds(("minilm",), "few", "none")
    measured(2 * expected.SUM_SECONDS)
    assert seconds(("minilm",), "few", "none") == pytest.approx(2 * slow)
    save_cost(storage, "few", "f", Cost(300, 1.0, 1.0))
    assert seconds(("minilm",), "few", "none") == seconds(("bow",), "few", "none")


def test_many_classes_are_said_beforehand(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means of 3,000 texts in 1,500 classes takes half a minute on TF-IDF, three seconds on dense vectors."""
    from traube._pipeline import expected
    from traube._pipeline.expected import describe_slow_cells

    texts = [f"text {i}" for i in range(3000)]
    task = make_task(texts, [str(i % 1500) for i in range(3000)], name="many")
    store_task(storage, task)
    cells = [
        ClusteringCell("many", "own", model, "f", Method(reducer, "kmeans"), seed, "own", "default", "d")
        for model in ("tfidf", "minilm")
        for reducer in ("none", "pca")
        for seed in (1, 2)
    ]
    (line,) = describe_slow_cells(storage, cells)
    assert line.startswith("many: 3,000 texts in 1,500 classes: k-means of its missing cells takes about 1 minutes")
    assert not describe_slow_cells(storage, [cell for cell in cells if cell.model == "minilm"])
    dense = [cell for cell in cells if cell.method.reducer == "pca"] * 5
    assert not describe_slow_cells(storage, dense)
    monkeypatch.setattr(expected.timeit, "repeat", lambda *_, **__: [expected.SUM_SECONDS])
    assert 3 < expected.estimate_run_seconds(storage, {"tfidf": {"many": dense[:1]}}, cores=1) < 12
