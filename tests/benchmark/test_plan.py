"""plan() names the cells that are missing and nothing else."""

import dataclasses
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.made import save_done
from traube.benchmark import plan as planning
from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, Plan, Request, cells, missing_cells, plan, stored
from traube.benchmark.record import record
from traube.engine.evaluate import evaluate_cells
from traube.foundation.errors import TraubeError
from traube.methods import CLUSTERERS, Method, parse_method
from traube.models import load_model
from traube.store import Cost, Store
from traube.tasks import get_source, load_task
from traube.tasks.task import index_texts, make_task

PROTOCOL = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative"), seeds=(1, 2))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def tickets(cards: Path, store: Store) -> Callable[..., None]:
    """Writes the raw data of the task `tickets` and, as the graph would, reads it into the store."""

    def write(*texts: str, read: bool = True) -> None:
        (cards / "tickets.csv").write_text("body,area\n" + "\n".join(texts) + "\n")
        (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: body\nlabels: area\n")
        if read:
            source = get_source("tickets")
            corpus, records = index_texts(source.read())
            store.save_corpus("tickets", corpus, records, source.raw_version())
            store.complete(source.card, store.save_splits(source.card, source.draw(records)))

    write("screen,hardware", "login,access", "mouse,hardware")
    return write


def request(
    *, models: Sequence[str] = ("bow",), tasks: Sequence[str] = ("tickets",), name: str = "own", **changes: object
) -> Request:
    return Request(tasks, models, name, PROTOCOL.model_copy(update=changes))


def missing(found: Plan) -> list[Cell]:
    return [cell for by_task in found.missing.values() for of_task in by_task.values() for cell in of_task]


def finish(found: Plan, store: Store, status: str = "done") -> None:
    for cell in missing(found):
        save_done(store, cell) if status == "done" else store.save_cell(record(cell, status))


def names(found: Plan) -> list[tuple[str, str, int | None]]:
    return sorted(((c.model, c.method.name, c.seed) for c in missing(found)), key=str)


ALL = [("bow", "none/agglomerative", None), ("bow", "none/kmeans", 1), ("bow", "none/kmeans", 2)]


@pytest.mark.usefixtures("tickets")
def test_everything_is_missing_at_first_and_nothing_once_it_is_stored(store: Store) -> None:
    first = plan(request(), store)
    assert names(first) == ALL  # agglomerative draws no random numbers: its seeds are one cell
    assert (first.count, first.total, first.unread, first.unavailable) == (3, 3, [], {})
    finish(first, store)
    second = plan(request(), store)
    assert (second.missing, second.count, second.total) == ({}, 0, 3)


@pytest.mark.usefixtures("tickets")
def test_a_new_seed_adds_its_own_cells_of_seeded_methods(store: Store) -> None:
    finish(plan(request(), store), store)
    assert names(plan(request(seeds=(1, 2, 3)), store)) == [("bow", "none/kmeans", 3)]


@pytest.mark.usefixtures("tickets")
def test_a_new_method_adds_its_own_cells(store: Store) -> None:
    finish(plan(request(), store), store)
    added = plan(request(clusterers=("kmeans", "agglomerative", "minibatch_kmeans")), store)
    assert names(added) == [("bow", "none/minibatch_kmeans", 1), ("bow", "none/minibatch_kmeans", 2)]


@pytest.mark.usefixtures("tickets")
def test_a_new_model_adds_its_own_cells(store: Store) -> None:
    finish(plan(request(), store), store)
    assert names(plan(request(models=("bow", "tfidf")), store)) == [("tfidf", *rest) for _, *rest in ALL]


@pytest.mark.usefixtures("tickets")
def test_a_changed_parameter_of_a_protocol_changes_the_methods_it_belongs_to(store: Store) -> None:
    finish(plan(request(), store), store)
    changed = plan(request(parameters={"kmeans": {"n_init": 10}}), store)
    assert names(changed) == [("bow", "none/kmeans", 1), ("bow", "none/kmeans", 2)]


@pytest.mark.usefixtures("tickets")
def test_a_parameter_that_says_the_default_changes_nothing(store: Store) -> None:
    finish(plan(request(), store), store)
    assert plan(request(parameters={"kmeans": {"n_init": "auto"}}), store).count == 0


@pytest.mark.usefixtures("tickets")
def test_another_protocol_has_cells_of_its_own(store: Store) -> None:
    finish(plan(request(), store), store)
    assert names(plan(request(name="paper"), store)) == ALL


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize("change", ["prompt: 'query '", "max_length: 8", "precision: bf16"])
def test_a_changed_model_is_a_new_one(store: Store, cards: Path, tiny_bert: Path, change: str) -> None:
    shutil.copytree(tiny_bert, cards / "tiny")
    (cards / "mine.yaml").write_text("model: ./tiny\n")
    finish(plan(request(models=["mine", "bow"]), store), store)
    (cards / "mine.yaml").write_text(f"model: ./tiny\n{change}\n")
    todo = plan(request(models=["mine", "bow"]), store)
    assert names(todo) == [("mine", *rest) for _, *rest in ALL]
    (cell, *_) = todo.missing["mine"]["tickets"]
    assert record(cell, "done")["precision"] == ("bf16" if "precision" in change else "fp32")
    (cards / "mine.yaml").write_text("model: ./tiny\ndescription: the same again\n")
    assert plan(request(models=["mine", "bow"]), store).count == 0


def test_changed_data_is_read_first_and_then_all_its_cells_are_new(store: Store, tickets: Callable[..., None]) -> None:
    finish(plan(request(), store), store)
    changed = "screen,hardware", "login,access", "mouse,peripherals"
    tickets(*changed, read=False)
    found = plan(request(), store)
    assert (found.unread, found.count) == (["tickets"], 0)
    tickets(*changed)
    assert names(plan(request(), store)) == ALL
    tickets("screen,hardware", "login,access", "mouse,hardware")
    assert plan(request(), store).count == 0  # back to what is stored


def test_a_task_that_was_never_read_is_unread(store: Store, tickets: Callable[..., None]) -> None:
    shutil.rmtree(store.folder)
    assert plan(request(), store).unread == ["tickets"]
    with pytest.raises(TraubeError, match=r"^task 'tickets' has not been read yet"):
        missing_cells("tickets", load_model("bow"), request(), store)


@pytest.mark.usefixtures("tickets")
def test_failed_cells_are_tried_again_and_unsupported_ones_are_not(store: Store) -> None:
    finish(plan(request(), store), store, "failed")
    assert names(plan(request(), store)) == ALL
    finish(plan(request(), store), store, "unsupported")
    assert plan(request(), store).count == 0


@pytest.mark.usefixtures("tickets")
def test_a_new_scoring_version_scores_again_what_was_clustered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(request(), store)
    for cell in missing(first):
        frame = pd.DataFrame({"split": "all", "level": "area", "item": [0, 1, 2], "cluster": [0, 1, 0]})
        store.save_assignments(cell.task, cell.cell_id, frame, 1.0)
    finish(first, store)
    monkeypatch.setattr(planning, "SCORING_VERSION", "a later one")
    again = plan(request(), store)
    assert {c.cell_id for c in missing(again)} == {c.cell_id for c in missing(first)}
    assert all(store.has_assignments(c.task, c.cell_id) for c in missing(again))


@pytest.mark.usefixtures("tickets")
def test_a_new_clustering_version_makes_all_cells_new(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {c.cell_id for c in missing(plan(request(), store))}
    monkeypatch.setattr(planning, "CLUSTERING_VERSION", "a later one")
    assert not before & {c.cell_id for c in missing(plan(request(), store))}


@pytest.mark.usefixtures("tickets")
def test_another_version_of_a_library_makes_its_cells_new_and_no_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("kmeans", "agglomerative")
    before = {c.cell_id: c for c in missing(plan(request(clusterers=methods), store))}
    part = dataclasses.replace(CLUSTERERS["kmeans"], version="2")
    monkeypatch.setitem(CLUSTERERS, "kmeans", part)
    after = {c.cell_id: c for c in missing(plan(request(clusterers=methods), store))}
    assert {c.method.clusterer for i, c in after.items() if i not in before} == {"kmeans"}
    assert {c.method.clusterer for i, c in after.items() if i in before} == {"agglomerative"}
    monkeypatch.setattr("traube.methods.parts.versions", lambda packages: dict.fromkeys(packages, "9.9"))
    assert not before.keys() & {c.cell_id for c in missing(plan(request(clusterers=methods), store))}


def test_the_cards_number_of_clusters_is_part_of_a_cell(cards: Path, store: Store) -> None:
    """`clusters: 3` edited to 9 and run again computes anew: nothing else says how many clusters there are."""
    (cards / "notes.csv").write_text("body\n" + "\n".join(f"note{i} topic{i % 3} more{i % 5}" for i in range(12)))
    found = []
    for k in (3, 9, 3):
        (cards / "notes.yaml").write_text(f"file: notes.csv\ntext: body\nclusters: {k}\n")
        task = load_task("notes")
        asked = cells(task, load_model("bow"), PROTOCOL, protocol_name="own")
        found.append({c.cell_id for c in asked})
        assert {c.clusters for c in asked} == {k}
        only = [c for c in asked if c.method.name == "none/kmeans"][:1]
        _, assignments = evaluate_cells(task, load_model("bow"), only)
        assert assignments["cluster"].nunique() == k
    assert found[0] == found[2]
    assert not found[0] & found[1]


@pytest.mark.usefixtures("tickets")
def test_what_is_named_twice_is_planned_once(store: Store) -> None:
    found = plan(request(seeds=(1, 2, 1), clusterers=("kmeans", "agglomerative", "kmeans")), store)
    assert names(found) == ALL
    assert plan(request(models=("bow", "bow"), tasks=("tickets", "tickets")), store).total == 3


@pytest.mark.usefixtures("tickets")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["bwo"]}, "unknown model 'bwo': did you mean bow?"),
        ({"tasks": ["tikcets"]}, "unknown task 'tikcets': did you mean tickets or tweet?"),
        ({"clusterers": ("kmean",)}, "unknown clusterer 'kmean': did you mean kmeans or stable_kmeans?"),
    ],
)
def test_what_does_not_exist_is_an_error_that_names_the_near_ones(store: Store, changes: dict, message: str) -> None:
    with pytest.raises(TraubeError, match=f"^{re.escape(message)}$"):
        plan(request(**changes), store)


@pytest.mark.usefixtures("tickets")
def test_what_cannot_be_had_here_is_left_out_with_its_reason(store: Store, cards: Path) -> None:
    (cards / "far.yaml").write_text("model: ./far\n")
    (cards / "old.yaml").write_text("file: old.csv\ntext: body\n")
    found = plan(request(models=["bow", "far"], tasks=["tickets", "old"]), store)
    assert names(found) == ALL
    assert found.unavailable == {
        "far": f"model 'far': there is no folder {cards / 'far'}",
        "old": f"{cards / 'old.yaml'}: line 1: file: {cards / 'old.csv'} is not there",
    }


@pytest.mark.usefixtures("tickets")
def test_cells_of_a_task_at_hand_are_those_of_the_plan(store: Store) -> None:
    task = store.task(get_source("tickets").card)
    at_hand = cells(task, load_model("bow"), PROTOCOL, protocol_name="own")
    assert [c.cell_id for c in at_hand] == [c.cell_id for c in missing(plan(request(), store))]
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
    a, b = (Cell(family="own", model="bow", **fields) for fields in (first, second))
    same = {k: v for k, v in first.items() if k != "task"} == {k: v for k, v in second.items() if k != "task"}
    assert (a.cell_id == b.cell_id) == same


def test_a_cell_without_its_record_is_not_stored(store: Store) -> None:
    cell = Cell("t", "own", "bow", "f", parse_method("none/kmeans"), 1, "own", "default", "d")
    assert not stored(cell, store)
    save_done(store, cell)
    assert stored(cell, store)


def test_the_time_that_cells_take_grows_with_texts_models_and_weights(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is encoded already takes none; half as fast a machine takes twice as long."""
    from traube.benchmark import expected

    def measured(seconds: float) -> None:
        monkeypatch.setattr(expected.timeit, "repeat", lambda *_, **__: [seconds])

    for name, count in (("few", 300), ("many", 3000)):
        texts = [f"text {i} " * 20 for i in range(count)]
        task = make_task(texts, [str(i % 3) for i in range(count)], name=name)
        store.save_corpus(name, task.corpus, task.corpus[["text_id"]], "raw")
        store.complete(task.card, store.save_splits(task.card, task.splits))

    def seconds(models: tuple[str, ...], task: str, reducer: str) -> float:
        cells = [Cell(task, "own", "", "f", Method(reducer, "kmeans"), 1, "own", "default", "d")]
        return expected.expected_seconds(store, {model: {task: cells} for model in models}, cores=2)

    measured(expected.SUM_SECONDS)
    few = seconds(("bow",), "few", "umap")
    assert few < seconds(("bow",), "many", "umap") < seconds(("bow", "lsa"), "many", "umap") < 60
    assert 3 * seconds(("bow",), "many", "none") < seconds(("minilm",), "many", "none")
    slow = seconds(("minilm",), "few", "none")
    measured(2 * expected.SUM_SECONDS)
    assert seconds(("minilm",), "few", "none") == pytest.approx(2 * slow)
    store.save_cost("few", "f", Cost(300, 1.0, 1.0))
    assert seconds(("minilm",), "few", "none") == seconds(("bow",), "few", "none")


def test_many_classes_are_said_beforehand(store: Store) -> None:
    """k-means of 3,000 texts in 1,500 classes takes half a minute on TF-IDF, three seconds on dense vectors."""
    from traube.benchmark.expected import slow_cells

    texts = [f"text {i}" for i in range(3000)]
    task = make_task(texts, [str(i % 1500) for i in range(3000)], name="many")
    store.save_corpus("many", task.corpus, task.corpus[["text_id"]], "raw")
    store.complete(task.card, store.save_splits(task.card, task.splits))
    cells = [
        Cell("many", "own", model, "f", Method(reducer, "kmeans"), seed, "own", "default", "d")
        for model in ("tfidf", "minilm")
        for reducer in ("none", "pca")
        for seed in (1, 2)
    ]
    (line,) = slow_cells(store, cells)
    assert line.startswith("many: 3,000 texts in 1,500 classes: k-means of its missing cells takes about 1 minutes")
    assert not slow_cells(store, [cell for cell in cells if cell.model == "minilm"])
