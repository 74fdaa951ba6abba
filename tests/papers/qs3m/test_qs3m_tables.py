"""QS3M's tables: measured beside published, over the pages of all folds."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.metrics import adjusted_rand_score, pairwise_distances, roc_auc_score

from tests.clustering import cluster
from tests.made import damage_blob, store_task
from tests.papers.conftest import at_home
from tests.papers.qs3m.test_qs3m import QUICK, SECTIONS, pages
from traube._core import paths
from traube._core.errors import TraubeError
from traube._reports.papers import Context
from traube._storage import ArtifactRow
from traube.models import Model, load_model
from traube.models.card import ModelCard, Precision
from traube.models.checkpoints import trained_on
from traube.models.lexical import Lexical
from traube.models.pairwise import Compared
from traube.models.transformer import Transformer
from traube.papers.qs3m import figures, tables
from traube.papers.qs3m.pages import KEYS, METRICS, REFERENCE, find_trained, page_scores, score_pages
from traube.papers.qs3m.paper import PAPER
from traube.papers.qs3m.trainers import Qs3m
from traube.tasks.sections import Page, Passage, draw, make_records
from traube.tasks.task import Split, Task, TaskCard, index_texts
from traube.training.trainer import Checkpoint

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


def described(name: str, **parts: list[str]) -> Task:
    """Articles on cats and dogs that begin with a description."""
    level = "hier" if name.endswith("hier") else "flat"
    tables = []
    for part, titles in parts.items():
        articles = [
            Page(title, title, [
                Passage(title, (), f"{title} the a dog"),
                *(Passage(title, (name,), f"{text} {title}") for name, texts in SECTIONS.items() for text in texts),
            ])
            for title in titles
        ]  # fmt: skip
        tables.append(make_records(articles, level, Path("articles"), part))
    corpus, indexed = index_texts(pd.concat(tables, ignore_index=True))
    return Task(TaskCard(name=name), corpus, draw(indexed, level))


@pytest.fixture(autouse=True)
def without_raw_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the reasons why articles are not read are the same everywhere."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path / "raw"))


PARTS = {"train": ["star", "soup"], "validation": ["bread"], "test": ["query", "star soup"]}


@pytest.fixture
def flat(context: Context) -> Task:
    """CAR-A, with articles to train on, at one level."""
    task = described("trec_car_flat", **PARTS)
    store_task(context.storage, task)
    return task


@pytest.fixture
def hier(context: Context) -> Task:
    """CAR-A at the other level."""
    task = described("trec_car_hier", **PARTS)
    store_task(context.storage, task)
    return task


@pytest.fixture
def car(context: Context, flat: Task, hier: Task) -> Task:
    """CAR-A at both levels; and CAR-B, without articles to train on."""
    store_task(context.storage, described("trec_car_b_flat", test=["bread soup", "a star"]))
    return flat


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Transformer:
    return Transformer(ModelCard(name="minilm", kind="transformer", model=str(tiny_bert)), "cpu")


def train(task: Task, base: Transformer, **values: str) -> Checkpoint:
    """Train a similarity, quickly."""
    return Qs3m.with_values(**QUICK | values).fit(task, base, paths.checkpoints())


def select_ari(table: pd.DataFrame, task: str) -> pd.DataFrame:
    """The rows of a task by the adjusted Rand index, by way."""
    return table[(table["task"] == task) & (table["metric"] == "ari")].set_index("method")


def measured_ways(table: pd.DataFrame) -> dict[str, set[str]]:
    """The trained ways that table 2 has measured, by task."""
    table = table[table["measured"].notna() & (table["trained_on"] != "")]
    return {str(task): set(rows["method"]) for task, rows in table.groupby("task")}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, encoder: Transformer) -> Path:
    """A home with the articles, a similarity trained on each fold, and what was measured of both."""
    home = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_HOME", str(home))
        patch.setenv("TRAUBE_CHECKPOINTS", str(home / "checkpoints"))
        patch.setenv("TRAUBE_CARDS", str(tmp_path_factory.mktemp("cards")))
        stored, context = in_folds(), at_home()
        store_task(context.storage, stored)
        for fold in ("fold_1", "fold_2"):
            train(stored, encoder, split_set=fold)
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
    best = select_ari(printed, "trec_car_flat")["published"]
    assert best.idxmax() == "QS3M-Passages" and best.max() == 0.3
    assert set(printed["metric"]) == set(METRICS) and set(printed["task"]) <= set(tables.WIKIPEDIA)
    assert set(printed.loc[printed["published_test"] == "*", "method"]) == {REFERENCE}


@pytest.mark.slow
def test_topics_are_learned_from_what_is_trained_on(context: Context, task: Task) -> None:
    scores = page_scores(context, task)
    topics = scores[scores["method"] == "Topic model"].set_index(["fold", "page"])
    model = load_model("lda", "cpu")
    assert isinstance(model, Compared) and isinstance(model.encoder, Lexical)
    for fold in ("fold_1", "fold_2"):
        learned = task.splits[(task.splits["split_set"] == fold) & (task.splits["part"] == "train")]
        texts = task.corpus[task.corpus["text_id"].isin(learned["text_id"])]["text"]
        fitted = model.encoder.fit_words(list(texts))
        assert len(fitted.vocabulary) < len(model.encoder.fit_words(task.texts).vocabulary)
        for split in task.test_splits(fold):
            distances = model.similarity.distances(fitted.encode(task.texts_at(split.rows)))
            measured = topics.loc[(fold, split.split), list(METRICS)]
            assert tuple(measured) == pytest.approx(score_pages(distances, split), nan_ok=True)


@pytest.mark.slow
def test_each_page_is_tested_by_what_has_not_seen_it(context: Context, task: Task) -> None:
    scores = page_scores(context, task)
    ours = scores[scores["method"] == "QS3M-Title"]
    assert sorted(ours["page"]) == ["bread", "query", "soup", "star"]
    assert set(ours.loc[ours["page"].isin(["star", "soup"]), "fold"]) == {"fold_1"}
    spaces = {"Query first", "Query's space", "Page's space"}
    assert set(scores["method"]) >= {REFERENCE, "SBERT cosine", "Jaccard", "TFIDF cosine", *spaces}
    assert scores.groupby(["method", "base"]).size().eq(4).all()


def test_what_was_trained_on_a_fold_is_marked_where_the_usual_split_set_tests_its_texts(task: Task) -> None:
    """Fold 2 learns from an article that the usual split set tests; what learns from that set does not."""
    usual, fold = Qs3m.with_values(**QUICK), Qs3m.with_values(**QUICK | {"split_set": "fold_2"})
    assert usual.list_subsets(task) == ["train", "validation"]
    assert "test" in fold.list_subsets(task)
    assert trained_on(f"{fold.name_checkpoints(NAME, 'minilm')}-best") == NAME


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
    ari = select_ari(table, NAME)
    assert ari.loc[REFERENCE, "verdict"] == "*"
    assert ari["pages"].eq(4).all()
    grid = page_scores(context, task).pivot_table(index="page", columns="method", values="ari")
    assert ari.loc["QS3M-Title", "measured"] == pytest.approx(grid["QS3M-Title"].mean())
    for method in grid.columns[grid.sub(grid[REFERENCE], axis=0).std() > 1e-6]:
        alone = ttest_rel(grid[method], grid[REFERENCE]).pvalue
        assert ari.loc[method, "p"] == pytest.approx(min(1.0, alone * (len(ari) - 1)))
        assert ari.loc[method, "comparisons"] == len(ari) - 1
    printed = table[table["task"] == "trec_car_flat"]
    assert printed["published"].notna().all() and printed["measured"].isna().all()
    (reason,) = set(printed["note"])
    assert "test.pages.cbor" in reason and "http://trec-car.cs.unh.edu" in reason


def test_what_was_measured_is_kept_and_a_damaged_file_is_measured_again(context: Context, task: Task) -> None:
    first = page_scores(context, task)
    kept = context.storage.read_rows(ArtifactRow, kind="pages")
    assert page_scores(context, task).equals(first)
    assert context.storage.read_rows(ArtifactRow, kind="pages") == kept  # read, not written
    damage_blob(context.storage, kept[0].files["scores"])
    assert page_scores(context, task).equals(first)


def test_tables_of_an_encoder_that_is_gone_show_what_is_left(
    context: Context, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []

    def model(name: str, precision: Precision | None) -> Model:
        if name == "minilm":
            raise TraubeError("minilm: there is no such model")
        return load_model(name, "cpu", precision)

    left = replace(context, model=model, warn=reported.append)
    ari = select_ari(made("table_2", left), NAME)
    assert ari.loc["QS3M-Title", "measured"] > -1 and np.isnan(ari.loc["QS3M-Title", "difference"])
    assert REFERENCE not in ari.index
    assert figures.changed_pairs(left) is None
    assert {f"{NAME}: minilm: there is no such model"} == set(reported)


@pytest.mark.slow
def test_a_query_is_tested_beside_none_over_folds(context: Context, task: Task, encoder: Transformer) -> None:
    """Table 2 has the same means; pages of a fold share the luck of its training, so that a fold is one value."""
    assert made("query", context)["measured"].isna().all()
    for fold in ("fold_1", "fold_2"):
        train(task, encoder, split_set=fold, query="none")
    gains, table = made("query", context), made("table_2", context).set_index(["task", "metric", "method"])
    assert list(gains["method"]) == ["QS3M-Title"] * len(METRICS)
    for row in gains.itertuples():
        assert row.measured == table.loc[(row.task, row.metric, row.method), "measured"]
        assert row.without == table.loc[(row.task, row.metric, "QS3M-no-query"), "measured"]
        # folds are as large
        assert row.comparisons == 1 and row.difference == pytest.approx(row.measured - row.without)


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
    row = {"task": "t", "query": "<b>q", "one": "<script>alert(1)</script>", "other": "a & b"}
    page = figures.render_pairs(pd.DataFrame([{**row, "same": True, "before": 0.5, "after": 0.25}]))
    assert "<script>" not in page and "&lt;script&gt;" in page and "&lt;b&gt;q" in page and "a &amp; b" in page


def test_words_are_compared_with_every_term(context: Context, task: Task) -> None:
    requested: list[str] = []

    def model(name: str, precision: Precision | None) -> Model:
        requested.append(name)
        return load_model(name, "cpu", precision)

    page_scores(replace(context, model=model), task)
    assert "tfidf_all" in requested and "tfidf" not in requested


@pytest.mark.slow
def test_a_title_never_fills_a_description(
    context: Context, car: Task, encoder: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a description no title: each is measured for the queries that it learned from, on CAR-B too."""
    train(car, encoder)
    titles = measured_ways(made("table_2", context))
    assert titles == {task: {"QS3M-Title"} for task in ("trec_car_flat", "trec_car_hier", "trec_car_b_flat")}
    before = page_scores(context, car).set_index([*KEYS, "page"])

    left = train(car, encoder, split_set="description")
    scored: dict[str, np.ndarray] = {}  # what is measured of each page now, of what was not measured before

    def scores_of_page(distances: np.ndarray, split: Split) -> tuple[float, float, float]:
        scored[split.split] = distances
        return score_pages(distances, split)

    monkeypatch.setattr("traube.papers.qs3m.pages.score_pages", scores_of_page)
    scores = page_scores(context, car)
    every = made("table_2", context)
    assert measured_ways(every) == {task: {"QS3M-Title", "QS3M-Description"} for task in titles}
    assert scores.set_index([*KEYS, "page"]).loc[before.index].equals(before)
    ours = scores[scores["method"] == "QS3M-Description"].set_index("page")
    model = load_model(left.best.name, "cpu")
    vectors = context.vectors(car, model)
    for title, lead in zip(car.test_splits(), car.test_splits("description"), strict=True):
        assert car.texts[title.query] != car.texts[lead.query]
        expected, other = (
            model.similarity.distances(vectors.subset(title.rows).load(), vectors.subset(np.array([query])).load()[0])
            for query in (lead.query, title.query)
        )
        assert np.allclose(scored[title.split], expected) and not np.allclose(expected, other)
        assert tuple(ours.loc[title.split, list(METRICS)]) == pytest.approx(score_pages(expected, title))
    table = select_ari(every, "trec_car_flat")
    assert table.loc["QS3M-Description", "pages"] == 2  # tested against the same pages' reference
    assert table.loc["QS3M-Description", "published"] == 0.298
    assert table.loc["QSS-Title", "note"] == "no similarity is trained on this task here"
    unread = every.query("task == 'trec_car_b_hier'")
    (reason,) = set(unread["note"])
    assert "train.pages.cbor" in reason and "http://trec-car.cs.unh.edu" in reason


@pytest.mark.slow
def test_passages_of_either_split_set_are_one_way(context: Context, flat: Task, encoder: Transformer) -> None:
    """A similarity for the passages' mean asks for no text: learned from either split set, it is the same way."""
    train(flat, encoder, split_set="description", query="passages")
    assert measured_ways(made("table_2", context))["trec_car_flat"] == {"QS3M-Passages"}


@pytest.mark.slow
def test_raw_bert_is_an_encoder_that_was_trained_no_further(
    context: Context, flat: Task, encoder: Transformer, masked_model: Path, tmp_path: Path
) -> None:
    raw = Transformer(ModelCard(name="raw", kind="transformer", model=str(masked_model)), "cpu")
    raw.network.save(str(tmp_path / "sentences"))  # the same network as a trainer of sentences leaves it
    config = tmp_path / "sentences" / "config.json"
    config.write_text(config.read_text().replace("BertModel", "BertForMaskedLM"))  # as some published ones say
    sentences = Transformer(ModelCard(name="sentences", kind="transformer", model=str(tmp_path / "sentences")), "cpu")
    for base in (encoder, raw, sentences):
        train(flat, base, split_set="description")
    bases: dict[str, set[str]] = {}
    for method, name, _, _ in find_trained(context, flat):
        bases.setdefault(method, set()).add(name)
    assert bases == {"QS3M-rawBERT-Description": {"raw"}, "QS3M-Description": {"minilm", "sentences"}}
    assert "QS3M-rawBERT-Description" in measured_ways(made("table_2", context))["trec_car_flat"]


@pytest.mark.slow
def test_one_similarity_for_both_levels_stands_beside_one_of_each(
    context: Context, flat: Task, hier: Task, encoder: Transformer
) -> None:
    for task in (flat, hier):
        train(task, encoder)
    table = select_ari(made("table_2", context), "trec_car_hier").loc["QS3M-Title"]
    assert set(table["trained_on"]) == {"trec_car_flat", "trec_car_hier"}
    assert table["measured"].notna().all() and table["published"].eq(0.217).all()


def test_what_another_task_taught_is_not_tested_on_its_own_pages(
    context: Context, flat: Task, encoder: Transformer
) -> None:
    train(flat, encoder)
    said: list[str] = []
    reported = replace(context, warn=said.append)
    assert len(find_trained(reported, described("trec_car_b_flat", test=["a star"]))) == 1 and not said
    assert not find_trained(reported, described("trec_car_b_flat", test=["a star", "soup"]))
    assert "is left out: it learned from pages that it would be tested on" in said[0]


def test_without_a_trained_similarity_figures_say_what_to_run(context: Context) -> None:
    for figure in PAPER.figures:
        assert "traube train qs3m" in figure.make(context).content
    assert made("table_4", context)["measured"].isna().all()


def test_scores_of_perfect_and_of_inverted_distances() -> None:
    labels = np.array(["a", "a", "a", "b", "b", "b"], dtype=object)
    split = Split("page", "flat", np.arange(6), np.arange(6), labels)
    perfect = (labels[:, None] != labels[None, :]).astype(float)
    assert score_pages(perfect, split) == (1.0, 1.0, 1.0)
    inverted = np.where(np.eye(6, dtype=bool), 0, 1 - perfect)
    balanced, every, ari = score_pages(inverted, replace(split))
    assert (balanced, every) == (0.0, 0.0) and ari < 0
