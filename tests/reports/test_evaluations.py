"""Results in memory: what `evaluate` takes, and that Python's leaderboard and verdicts are the command line's."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import Birch, KMeans

from tests.errors import Refusal, refused
from tests.made import store_task
from traube import Evaluation, compare, evaluate, leaderboard, make_task
from traube._core.errors import Conflict, Invalid, Malformed, Unknown
from traube._pipeline.executors import Executor, ProcessExecutor
from traube._pipeline.params import Protocol
from traube._reports import tables
from traube._storage import Storage, open_storage
from traube.comparison.candidates import candidates
from traube.comparison.standings import Unlabeled, compare_on_tasks
from traube.comparison.verdict import Undecided
from traube.models.transformer import Transformer
from traube.tasks.task import Task

METHODS = ["none/kmeans", "none/agglomerative"]
PROTOCOL = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative"), seeds=(1, 2))
METRIC = "v_measure/noise_as_cluster"
TEXTS = [f"{topic} {topic} {rest}" for topic in ("bread", "goal", "moon") for rest in ("a b", "b c", "c d", "d e")]
LABELS = [text.split()[0] for text in TEXTS]


@pytest.fixture(scope="module")
def executor() -> Any:
    with ProcessExecutor() as executor:
        yield executor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result(tiny_task: Task, folder: Path, executor: Executor) -> Evaluation:
    storage = open_storage(folder)
    store_task(storage, tiny_task)
    return evaluate(tiny_task, ["bow", "lsa", "tfidf"], METHODS, seeds=[1, 2], folder=folder, executor=executor)


@pytest.fixture
def stored(result: Evaluation, folder: Path) -> Storage:
    """The evaluation that the command line reads has the same cells, as they were stored."""
    return open_storage(folder)


def test_tables_of_several_models_name_the_model(result: Evaluation) -> None:
    assert (
        list(result.scores["model"].unique()) == list(result.assignments["model"].unique()) == ["bow", "lsa", "tfidf"]
    )
    assert result.means()["value"].is_monotonic_decreasing and len(result.means()) == 6


def test_a_result_is_short_to_print_and_a_table_in_a_notebook(result: Evaluation) -> None:
    first = result.means().iloc[0]
    reported = f"best {first['model']} with {first['method']}, {METRIC} {first['value']:.3f}"
    assert repr(result) == f"Evaluation(task 'tiny', 3 models, 2 methods: {reported})"
    assert "<table" in result._repr_html_() and METRIC in result._repr_html_()


def test_the_leaderboard_is_that_of_the_command_line(result: Evaluation, stored: Storage) -> None:
    table = leaderboard(result)
    cells = stored.read_cells("tiny")
    scores = stored.read_scores(cells, replicates=True)
    expected = tables.summary(cells, scores, {"tiny": result.task})[list(table)]
    pd.testing.assert_frame_equal(table, expected.reset_index(drop=True), check_dtype=False, rtol=1e-5)
    assert table[table["best"]].groupby("level")["model"].nunique().tolist() == [3, 3]
    by_ari = leaderboard(result, metric="ari")
    assert set(by_ari["metric"]) == {"ari/noise_as_cluster"}


@pytest.mark.parametrize(("a", "b"), [("tfidf", "bow"), ("lsa", "bow"), ("bow:none/kmeans", "bow:none/agglomerative")])
def test_a_verdict_is_that_of_the_command_line(result: Evaluation, stored: Storage, a: str, b: str) -> None:
    ((expected,), _) = compare_on_tasks(stored, ["tiny"], "own", PROTOCOL, a, b, own_choice=True)
    verdict = compare(result, a, b)
    for name, value in expected.verdict.record().items():  # replicates are stored in single precision
        if name != "id":
            assert verdict.record()[name] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)
    assert verdict.comparisons == (1 if ":" in a else 3)
    assert compare(result, a, a).undecided is Undecided.SAME


def test_results_of_one_task_are_one_table(tiny_task: Task, result: Evaluation, executor: Executor) -> None:
    one, other = (evaluate(tiny_task, model, METHODS, seeds=[1, 2], executor=executor) for model in ("bow", "tfidf"))
    together = leaderboard([one, other, one])
    assert len(together) == 8  # two models, methods and levels; what is given twice counts once
    assert compare([one, other], "bow", "tfidf").difference == pytest.approx(compare(result, "bow", "tfidf").difference)


def test_what_cannot_be_compared_says_why(result: Evaluation, executor: Executor) -> None:
    with refused(Unknown, "bov", "bow"):
        compare(result, "bov", "lsa")
    with refused(Unknown, "silhouette"):
        compare(result, "bow", "lsa", metric="silhouette")
    for wrong in ("bow", [], [3]):
        with refused(TypeError, "traube.evaluate"):
            leaderboard(wrong)  # type: ignore[arg-type]
    without = evaluate(make_task(TEXTS, clusters=3), ["bow", "tfidf"], executor=executor)
    assert without.metric == "silhouette" and leaderboard(without)["rank_low"].isna().all()
    with refused(Unlabeled, without.task.name):
        compare(without, "bow", "tfidf")
    with refused(Conflict, "compare"):
        compare([without, result], "bow", "lsa")
    other = evaluate(TEXTS[1:], "bow", labels=LABELS[1:], executor=executor)
    with refused(Conflict, "texts"):
        leaderboard([without, other])


# what is passed


def test_texts_models_and_embeddings_are_passed_as_they_are(minilm: Transformer, executor: Executor) -> None:
    table = pd.DataFrame({"body": TEXTS, "area": LABELS})
    right, wrong = np.eye(3)[np.repeat([0, 1, 2], 4)], sparse.csr_matrix(np.eye(3)[np.arange(12) % 3])
    models = {
        "given": right,
        "wrong": wrong,
        "network": minilm.network,
        "lengths": lambda texts: [[len(t)] for t in texts],
    }
    result = evaluate(table, {**models, "words": "tfidf"}, "none/kmeans", labels="area", executor=executor)
    means = result.means().set_index("model")["value"]
    assert set(means.index) == {*models, "words"}
    assert means["given"] == 1 and means["wrong"] < 0.5 and means["network"] > 0.5
    for one in ("bow", right):
        assert evaluate(TEXTS, one, labels=LABELS, executor=executor).means().shape == (1, 3)


def test_embeddings_have_a_row_for_each_text_also_for_one_that_is_given_twice(executor: Executor) -> None:
    twice = [*TEXTS, TEXTS[0]]
    right = np.eye(3)[[*np.repeat([0, 1, 2], 4), 0]]
    result = evaluate(twice, right, "none/kmeans", labels=[*LABELS, LABELS[0]], executor=executor)
    assert result.means()["value"].tolist() == [1] and len(result.assignments) == len(twice)


def test_an_estimator_clusters_as_it_is(executor: Executor) -> None:
    """Its number of clusters stays, unlike that of a method that knows the number of classes."""
    given = [Birch(n_clusters=2, threshold=0.1), KMeans(5), "none/kmeans"]
    embeddings = np.random.default_rng(0).normal(size=(len(TEXTS), 3))
    result = evaluate(TEXTS, embeddings, given, labels=LABELS, executor=executor)
    clusters = result.assignments[["method", "cluster"]].drop_duplicates()["method"].value_counts()
    assert clusters.to_dict() == {"none/own.kmeans": 5, "none/kmeans": 3, "none/own.birch": 2}


def test_nothing_is_written_unless_a_folder_is_named(minilm: Transformer, executor: Executor, home: Path) -> None:
    before = set(home.iterdir())
    evaluate(TEXTS, "minilm", labels=LABELS, executor=executor)
    assert set(home.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"task": "texts"}, (TypeError, "evaluate", "str")),
        ({"models": 3}, (TypeError, "int")),
        ({"models": []}, (TypeError, "evaluate")),
        ({"models": np.ones(3)}, (TypeError, "evaluate", "ndarray")),
        ({"models": np.ones((3, 2))}, (Malformed, "evaluate", 12, 3)),
        ({"models": {"My model": "bow"}}, (Invalid, "My model")),
        ({"models": ["bow", "bow"]}, (Conflict, "bow")),
        ({"algorithms": 3}, (TypeError, "evaluate", "int")),
        ({"algorithms": KMeans}, (TypeError, "evaluate", "ABCMeta")),
        ({"labels": LABELS[1:]}, (Malformed, "texts", 12, 11)),
        ({"labels": "area"}, (TypeError, "evaluate", "str")),
        ({"task": make_task(TEXTS, LABELS)}, (TypeError, "evaluate")),
    ],
)
def test_what_cannot_be_taken_is_one_error_that_says_what_to_pass(arguments: dict[str, Any], refusal: Refusal) -> None:
    with refused(*refusal):
        evaluate(**{"task": TEXTS, "models": "bow", "labels": LABELS, **arguments})


def test_candidates_in_memory_are_those_of_the_storage(result: Evaluation, stored: Storage) -> None:
    cells = stored.read_cells("tiny")
    expected = candidates(stored, "tiny", "own", PROTOCOL, METRIC, cells)
    best = result.means().iloc[0]
    assert (best["model"], best["method"]) == (expected[0].model, expected[0].method)
    assert best["value"] == pytest.approx(expected[0].mean)
