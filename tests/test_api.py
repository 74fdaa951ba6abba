"""The names of `from traube import ...`: a light import, and examples that are true."""

import doctest
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pytest

import traube
from deploy.check_public import MODULES
from tests.errors import Refusal, refused
from traube import cluster_texts, evaluate, load_model, make_task
from traube._core import paths
from traube._core.errors import Conflict, Malformed, TooFew, Unknown
from traube._storage import ArtifactRow, open_storage
from traube.components import CLUSTERERS, REDUCERS, parse_method

TEXTS = ["a goal", "a goal in the match", "the match", "the moon", "the moon and a star", "a star"]
LABELS = ["sport", "sport", "sport", "space", "space", "space"]


def test_importing_traube_loads_nothing_heavy() -> None:
    code = (
        "import sys, traube\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'torch', 'transformers', 'dagster', 'mlflow'} & set(sys.modules)\n"
        "assert not heavy, heavy\nassert set(traube.__all__) <= set(dir(traube))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=paths.PROJECT)


def test_every_name_is_there_and_another_is_not() -> None:
    for name in traube.__all__:
        assert callable(getattr(traube, name))
    with refused(AttributeError, "traube", "evaluat"):
        _ = traube.evaluat


@pytest.mark.parametrize("name", ["traube", *(f"traube.{module}" for module in MODULES)])
def test_the_examples_of_everything_public_are_true(name: str) -> None:
    module, runner = import_module(name), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    finder = doctest.DocTestFinder(recurse=False)
    objects = [module, *(getattr(module, key) for key in module.__all__)]
    with patch.dict(REDUCERS), patch.dict(CLUSTERERS):  # examples register components
        for example in (e for value in objects for e in finder.find(value, getattr(value, "__name__", "data"))):
            runner.run(example)
    assert runner.failures == 0 and runner.tries


@pytest.mark.slow
def test_the_examples_of_the_readme_are_true() -> None:
    lines = (paths.PROJECT / "README.md").read_text(encoding="utf-8").splitlines()
    text = "\n".join("" if line.startswith("```") else line for line in lines)  # a fence is no output
    example = doctest.DocTestParser().get_doctest(text, {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example).failed == 0


# evaluate


def test_scores_and_clusters_are_reported_by_method_and_seed() -> None:
    methods = ["pca/minibatch_kmeans", "none/agglomerative"]
    result = evaluate(make_task(TEXTS, LABELS), load_model("bow"), methods, seeds=[2, 1])
    scores, assignments = result.scores, result.assignments
    assert list(scores) == ["model", "method", "seed", "split", "level", "metric", "value"]
    assert list(assignments) == ["model", "method", "seed", "split", "level", "item", "cluster"]
    for table in (scores, assignments):  # in the order requested; what is not random has no seed
        requested = table[["method", "seed"]].drop_duplicates()
        assert requested["method"].tolist() == ["pca/minibatch_kmeans", "pca/minibatch_kmeans", "none/agglomerative"]
        assert requested["seed"].tolist()[:2] == [2, 1] and requested["seed"].isna().tolist() == [False, False, True]
    assert assignments["item"].tolist() == list(range(6)) * 3
    assert set(scores["split"]) == {"all"} and set(scores["level"]) == {"label"}


def test_a_method_may_be_named_alone_or_have_parameters_of_its_own() -> None:
    task, bow = make_task(TEXTS, LABELS), load_model("bow")
    alone = evaluate(task, bow, "none/kmeans").scores
    ten = evaluate(task, bow, [parse_method("none/kmeans", {"kmeans": {"n_init": 10}})]).scores
    assert set(alone["method"]) == set(ten["method"]) == {"none/kmeans"}
    both = [parse_method("none/kmeans", {"kmeans": {"n_init": n}}) for n in (1, 10)]
    with refused(Conflict, "none/kmeans"):
        evaluate(task, bow, both)
    with refused(Unknown, "kmeans"):
        evaluate(task, bow, ["none/kmean"])


def test_vectors_are_kept_where_somebody_says_so(tmp_path: Path, home: Path) -> None:
    task, bow = make_task(TEXTS, LABELS), load_model("bow")
    first = evaluate(task, bow)
    assert not any(home.iterdir())
    second = evaluate(task, bow, folder=tmp_path)
    assert open_storage(tmp_path).read_rows(ArtifactRow, kind="matrix")
    pd.testing.assert_frame_equal(first.scores, second.scores)


# make_task


def test_texts_without_labels_are_a_task_too() -> None:
    task = make_task(pd.Series(TEXTS, index=range(10, 16)), clusters=2)
    result = evaluate(task, load_model("lsa"), ["none/kmeans"])
    scores, assignments = result.scores, result.assignments
    assert set(scores["metric"]) == {"silhouette", "clusters", "noise_share"}
    assert assignments["cluster"].nunique() == 2


def test_labels_of_any_kind_are_names() -> None:
    (split,) = make_task(TEXTS, [1, 1, 1, 2, 2, 2]).test_splits()
    assert split.labels is not None and split.labels.tolist() == ["1", "1", "1", "2", "2", "2"]


@pytest.mark.parametrize(
    ("texts", "labels", "refusal"),
    [
        ([], None, (TooFew, "texts", "corpus")),
        (["a", " ", None], None, (Malformed, "texts", "text 1", 2, 3)),
        (["a", "b"], ["x"], (Malformed, "texts", 2, 1)),
        (["a"], [None], (Malformed, "texts", "text 0", 1)),
        (["a", "b"], ["x", "x"], (TooFew, "texts", "all")),
    ],
)
def test_what_is_no_task_is_one_clear_error(texts: list[str], labels: list[str] | None, refusal: Refusal) -> None:
    with refused(*refusal):
        make_task(texts, labels)


# cluster_texts


def test_texts_are_grouped_with_nothing_but_texts() -> None:
    groups = cluster_texts(pd.Series(TEXTS))
    assert len(groups.labels) == 6 and set(groups.words) == set(groups.labels.tolist())
    assert groups.k_table is not None  # the number of groups was chosen
    same = cluster_texts(TEXTS, n_clusters=2, algorithm="none/kmeans")
    assert groups.k_table["k"].min() == 1 and len(set(same.labels.tolist())) == 2
