"""QS3M's tables: measured beside published, over the pages of all folds."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.metrics import adjusted_rand_score, pairwise_distances, roc_auc_score

from tests.made import damage_blob
from tests.papers.conftest import at_home
from tests.training.test_qs3m import QUICK, pages
from traube.components import cluster
from traube.core import paths
from traube.core.errors import TraubeError
from traube.models import Model, load_model
from traube.models.card import ModelCard, Precision
from traube.models.checkpoints import trained_on
from traube.models.transformer import Transformer
from traube.papers import Context
from traube.papers.qs3m import PAPER, figures, tables
from traube.papers.qs3m.pages import METRICS, REFERENCE, page_scores, scores_of
from traube.tasks.stored import complete_task, save_corpus, save_rows
from traube.tasks.task import Split, Task
from traube.training.trainers.qs3m import Qs3m

NAME = "car_test200_flat"


def in_folds() -> Task:
    """Five articles, of which two folds test two each."""
    task = pages()
    folds = []
    for i, tested in enumerate((["star", "soup"], ["bread", "query"])):
        rest = [page for page in task.splits["split"].unique() if page not in tested]
        part = {**dict.fromkeys(tested, "test"), rest[0]: "validation", **dict.fromkeys(rest[1:], "train")}
        folds.append(task.splits.assign(split_set=f"fold_{i + 1}", part=task.splits["split"].map(part)))
    card = task.card.model_copy(update={"name": NAME})
    return Task(card, task.corpus, pd.concat([task.splits, *folds], ignore_index=True))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A home with the articles, a similarity trained on each fold, and what was measured of both."""
    home = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_HOME", str(home))
        patch.setenv("TRAUBE_CHECKPOINTS", str(home / "checkpoints"))
        patch.setenv("TRAUBE_CARDS", str(tmp_path_factory.mktemp("cards")))
        stored, context = in_folds(), at_home()
        storage = context.storage
        save_corpus(storage, NAME, stored.corpus, stored.corpus, raw_version="")
        save_rows(storage, stored.card, stored.splits)
        complete_task(storage, stored.card)
        base = Transformer(ModelCard(name="minilm", kind="transformer", model=str(tiny_bert)), "cpu")
        for fold in ("fold_1", "fold_2"):
            Qs3m.with_values(**QUICK | {"split_set": fold}).fit(stored, base, paths.checkpoints())
        page_scores(context, stored)
    return home


@pytest.fixture
def task(home: Path, measured: Path) -> Task:
    """The articles; this test's home is a copy of that in which they were measured."""
    shutil.copytree(measured, home, dirs_exist_ok=True)
    return in_folds()


def made(name: str, context: Context) -> pd.DataFrame:
    (table,) = (table for table in PAPER.tables if table.name == name)
    return table.make(context)


def test_what_is_printed() -> None:
    printed = tables.published("table2")
    assert len(printed) == 16 * 8
    best = printed[(printed["task"] == "trec_car_flat") & (printed["metric"] == "ari")].set_index("method")["published"]
    assert best.idxmax() == "QS3M-Passages" and best.max() == 0.3
    assert set(printed["metric"]) == set(METRICS) and set(printed["task"]) <= set(tables.WIKIPEDIA)
    assert set(printed.loc[printed["published_test"] == "*", "method"]) == {REFERENCE}


def test_each_page_is_tested_by_what_has_not_seen_it(context: Context, task: Task) -> None:
    scores = page_scores(context, task)
    ours = scores[scores["method"] == "QS3M-Title"]
    assert sorted(ours["page"]) == ["bread", "query", "soup", "star"]
    assert set(ours.loc[ours["page"].isin(["star", "soup"]), "fold"]) == {"fold_1"}
    assert set(scores["method"]) >= {
        REFERENCE,
        "SBERT cosine",
        "Query first",
        "Query's space",
        "Page's space",
        "Jaccard",
        "TFIDF cosine",
    }
    assert scores.groupby(["method", "base"]).size().eq(4).all()


def test_what_was_trained_on_a_fold_is_marked_where_the_usual_split_set_tests_its_texts(task: Task) -> None:
    """Fold 2 learns from an article that the usual split set tests; what learns from that set does not."""
    usual, fold = Qs3m.with_values(**QUICK), Qs3m.with_values(**QUICK | {"split_set": "fold_2"})
    assert usual.parts(task) == ["train", "validation"]
    assert "test" in fold.parts(task)
    assert trained_on(f"{fold.names(NAME, 'minilm')}-best") == NAME


def test_the_reference_is_what_scikit_learn_makes_of_the_vectors(context: Context, task: Task) -> None:
    scores = page_scores(context, task)
    model = load_model("minilm")
    split = next(s for s in task.test_splits("fold_1") if s.split == "star")
    X = model.encode([task.texts[row] for row in split.rows])
    first, second = np.triu_indices(len(X), 1)
    distances = pairwise_distances(X)
    expected = roc_auc_score(split.labels[first] == split.labels[second], -distances[first, second])
    clusters = cluster("agglomerative_average", None, X, split.classes, None)
    row = scores[(scores["method"] == REFERENCE) & (scores["page"] == "star")].iloc[0]
    assert row["auc_all"] == pytest.approx(expected)
    assert row["ari"] == pytest.approx(adjusted_rand_score(split.labels, clusters))


def test_table_2_tests_every_way_against_the_reference(context: Context, task: Task) -> None:
    table = made("table_2", context)
    ari = table[(table["task"] == NAME) & (table["metric"] == "ari")].set_index("method")
    assert ari.loc[REFERENCE, "verdict"] == "*"
    assert ari["pages"].eq(4).all()
    grid = page_scores(context, task).pivot_table(index="page", columns="method", values="ari")
    assert ari.loc["QS3M-Title", "measured"] == pytest.approx(grid["QS3M-Title"].mean())
    for method in grid.columns[grid.sub(grid[REFERENCE], axis=0).std() > 1e-6]:
        alone = ttest_rel(grid[method], grid[REFERENCE]).pvalue
        assert ari.loc[method, "p"] == pytest.approx(min(1.0, alone * (len(ari) - 1)))
    printed = table[table["task"] == "trec_car_flat"]
    assert printed["published"].notna().all() and printed["measured"].isna().all()
    assert printed["note"].str.contains("no similarity is trained").all()


def test_what_was_measured_is_kept_and_a_damaged_file_is_measured_again(context: Context, task: Task) -> None:
    first = page_scores(context, task)
    kept = context.storage.read_rows("artifact", kind="pages")
    assert page_scores(context, task).equals(first)
    assert context.storage.read_rows("artifact", kind="pages") == kept  # read, not written
    damage_blob(context.storage, kept[0]["files"]["scores"])
    assert page_scores(context, task).equals(first)


def test_tables_of_an_encoder_that_is_gone_show_what_is_left(
    context: Context, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def model(name: str, precision: Precision | None) -> Model:
        if name == "minilm":
            raise TraubeError("minilm: there is no such model")
        return load_model(name, "cpu", precision)

    left = replace(context, model=model, warn=told.append)
    table = made("table_2", left)
    ari = table[(table["task"] == NAME) & (table["metric"] == "ari")].set_index("method")
    assert ari.loc["QS3M-Title", "measured"] > -1 and np.isnan(ari.loc["QS3M-Title", "difference"])
    assert REFERENCE not in ari.index
    assert figures.changed_pairs(left) is None
    assert {f"{NAME}: minilm: there is no such model"} == set(told)


def test_sizes_are_those_of_the_pages(context: Context, task: Task) -> None:
    table = made("table_1", context)
    sizes = table[table["data"] == "test200"].set_index("column")["measured"]
    assert sizes["queries"] == 4 and sizes["clusters_flat"] == 2 and sizes["passages_flat"] == 4
    assert sizes["pairs"] == 4 * 28
    assert table.loc[table["data"] == "CAR-A", "published"].notna().all()


def test_figures_count_who_is_helped_and_name_changed_pairs(context: Context, task: Task) -> None:
    drawing = figures.helps_and_hurts(context)
    assert drawing is not None
    counted = next(value for key, value in drawing.facts.items() if "QS3M-Title" in key)
    changes = drawing.data[drawing.data["method"] == "QS3M-Title"]["change"]
    assert counted == f"{(changes > 0).sum()} helped, {(changes < 0).sum()} hurt, {(changes == 0).sum()} tied of 4"
    pairs = figures.changed_pairs(context)
    assert pairs is not None and set(pairs.data["query"]) == {"star", "soup", "bread", "query"}
    assert pairs.data["before"].between(0, 1).all() and pairs.data["after"].between(0, 1).all()


def test_texts_are_only_text_in_the_page_of_pairs() -> None:
    row = ("t", "<b>q", "<script>alert(1)</script>", "a & b", True, 0.5, 0.25)
    page = figures.pairs_page(pd.DataFrame([row], columns=["task", "query", "one", "other", "same", "before", "after"]))
    assert "<script>" not in page and "&lt;script&gt;" in page and "&lt;b&gt;q" in page and "a &amp; b" in page


def test_without_a_trained_similarity_figures_say_what_to_run(context: Context) -> None:
    for figure in PAPER.figures:
        assert "traube train qs3m" in figure.make(context).content
    assert made("table_4", context)["measured"].isna().all()


def test_scores_of_perfect_and_of_inverted_distances() -> None:
    labels = np.array(["a", "a", "a", "b", "b", "b"], dtype=object)
    split = Split("page", "flat", np.arange(6), np.arange(6), labels)
    perfect = (labels[:, None] != labels[None, :]).astype(float)
    assert scores_of(perfect, split) == (1.0, 1.0, 1.0)
    inverted = np.where(np.eye(6, dtype=bool), 0, 1 - perfect)
    balanced, every, ari = scores_of(inverted, replace(split))
    assert (balanced, every) == (0.0, 0.0) and ari < 0
