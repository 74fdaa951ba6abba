"""COB's tables: measured beside published, from what was evaluated and trained."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.made import run_missing, store_task
from tests.training.test_training import words_task
from traube._core import paths
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._pipeline.workbench import Workbench
from traube._reports.papers import Context
from traube._reports.papers.spec import join_printed
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.papers.cob import figures, tables
from traube.papers.cob.paper import NO_ARTICLES, PAPER
from traube.tasks.task import Task
from traube.training import TRAINERS

RECIPE = {"learning_rate": 1e-2, "max_length": 16, "epochs": 1, "batch": 1, "evaluate_every": 80}


def test_what_is_printed() -> None:
    printed = tables.published("results")
    best = printed[printed["table"] == "table_4"].set_index("method")["ari"]
    assert best.idxmax() == "cob"
    assert set(printed["table"]) == set(tables.TASKS)
    assert set(printed["method"]) == {"cob", "triplet", "untrained", "tfidf"}


@pytest.fixture(scope="module")
def newsgroups() -> Task:
    """The words, under the name of the paper's task."""
    task = words_task()
    card = task.card.model_copy(update={"name": "newsgroups"})
    tested = task.splits[task.splits["part"] == "test"]
    halves = [tested.iloc[i::2].assign(split=f"test_{i}") for i in range(2)]
    return Task(card, task.corpus, pd.concat([task.splits[task.splits["part"] != "test"], *halves], ignore_index=True))


def made(name: str, context: Context) -> pd.DataFrame:
    """A table of the paper."""
    (table,) = (table for table in PAPER.tables if table.name == name)
    return table.make(context)


@pytest.fixture(scope="module")
def trained_home(newsgroups: Task, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with COB and Triplet with two seeds each, trained and evaluated."""
    home = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_HOME", str(home))
        patch.setenv("TRAUBE_CHECKPOINTS", str(home / "checkpoints"))
        patch.setenv("TRAUBE_CARDS", str(home / "cards"))
        base = Transformer(ModelCard(name="minilm", kind="transformer", model=str(tiny_bert)), "cpu")
        storage = Workbench.at(home).storage
        store_task(storage, newsgroups)
        for name in ("cob", "triplet", "untrained"):
            for seed in (42, 1):
                recipe = {**RECIPE, "seed": seed} | ({"epochs": 0} if name == "untrained" else {})
                left = TRAINERS[name].with_values(**recipe).fit(newsgroups, base, paths.checkpoints())
                evaluate((left.last if name == "untrained" else left.best).name)
        yield home


@pytest.fixture
def trained(trained_home: Path, home: Path, context: Context, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A copy of that home: no test changes another's. Of the real posts, whose words TF-IDF would count, there are none."""
    monkeypatch.setenv("TRAUBE_RAW", str(home / "raw"))
    shutil.copytree(trained_home, home, dirs_exist_ok=True)
    return context


def evaluate(model: str) -> None:
    """Evaluate a model on the paper's task."""
    run_missing(Workbench.at(paths.home()), Request(["newsgroups"], [model], "cob", load_params().chosen("cob")))


@pytest.mark.slow
def test_results_are_means_over_splits_and_seeds_beside_the_papers(trained: Context) -> None:
    storage, table = trained.storage, made("table_4", trained)
    ari = table[(table["task"] == "newsgroups") & (table["metric"] == "ari")].set_index("method")
    assert ari.loc["cob", "published"] == 0.233
    assert ari.loc["cob", "seeds"] == 2
    assert ari.loc["triplet", "verdict"] == "*"
    (recipe,) = table.loc[table["method"] == "triplet", "recipe"].unique()
    assert ari.loc["cob", "against"] == ari.loc["tfidf, no empty posts", "against"] == f"triplet {recipe}"
    assert ari.loc["cob", "comparisons"] == ari["measured"].notna().sum() - 1  # all rows against triplet
    assert ari.loc["cob", "difference"] == pytest.approx(ari.loc["cob", "measured"] - ari.loc["triplet", "measured"])
    assert ari.loc["tfidf, no empty posts", "seeds"] == 1  # of the code's distance; the paper's is the other
    assert {"untrained", "tfidf, cosine, no empty posts"} <= set(ari.index)
    assert set(table["metric"]) == {"ri", "ari", "nmi", "ami"}
    by_hand = []
    scored = storage.read_scores(storage.read_cells("newsgroups"), ["ari/noise_as_cluster"]).merge(
        storage.read_cells("newsgroups"), on="cell_id"
    )
    for seed in (42, 1):
        name = TRAINERS["cob"].with_values(**RECIPE | {"seed": seed}).name_checkpoints("newsgroups", "minilm")
        rows = scored[scored["model"] == f"{name}-best"]
        by_hand.append(rows.loc[rows["clusterer"] == "agglomerative_average", "value"].mean())
    assert ari.loc["cob", "measured"] == pytest.approx(np.mean(by_hand))
    assert ari.loc["cob", "sd"] == pytest.approx(np.std(by_hand))


@pytest.mark.slow
def test_another_recipe_is_a_row_of_its_own(trained: Context, newsgroups: Task, tiny_bert: Path) -> None:
    """Trainings are repeats of each other only if nothing but their seed differs."""
    base = Transformer(ModelCard(name="minilm", kind="transformer", model=str(tiny_bert)), "cpu")
    for change in ({"lam": 47.0, "layers": 1}, {"metric": "purity", "clusterer": "complete"}):
        left = TRAINERS["cob"].with_values(**RECIPE | change).fit(newsgroups, base, paths.checkpoints())
        evaluate(left.best.name)
    table = made("table_4", trained)
    table = table[(table["metric"] == "ari") & (table["task"] == "newsgroups")]
    rows = table[table["method"] == "cob"]
    assert sorted(rows["seeds"]) == [1, 2]
    assert rows["recipe"].nunique() == 2
    (other_lam,) = rows.loc[rows["seeds"] == 1, "note"]
    assert other_lam.startswith("recipe ") and "lam=47.0" in other_lam and "max_length=16" in other_lam
    assert not rows.loc[rows["seeds"] == 2, "note"].str.contains("lam=").any()
    assert [None if np.isnan(n) else n for n in rows.sort_values("seeds")["layers"]] == [1, None]
    # the paper prints no row for another metric or clusterer: a method of its own, named as --set takes it
    other = table[table["method"] == "cob, metric=purity, clusterer=complete"]
    assert other["seeds"].tolist() == [1]
    assert other["published"].isna().all()
    times = figures.convergence(figures.trainings(trained))
    assert len(times) == 6


def test_a_training_that_gained_nothing_has_not_converged() -> None:
    curve = {"task": "t", "base": "b", "n": np.nan, "recipe": None, "seed": 1, "epoch": [0, 1], "step": [0, 9]}
    falls = pd.DataFrame({**curve, "method": "cob", "seconds": [0.0, 3.0], "validation_ari": [0.5, 0.4]})
    rises = pd.DataFrame({**curve, "method": "triplet", "seconds": [0.0, 6.0], "validation_ari": [0.5, 0.6]})
    shares = {"cob": 1.0, "triplet": 0.2}  # of all triples in an epoch
    both = pd.concat([falls, rises], ignore_index=True)
    times = figures.convergence(both.assign(share=both["method"].map(shares))).set_index("method")
    assert times["seconds_an_epoch"].tolist() == [3.0, 30.0]  # an epoch of all triples takes five times as long
    assert times["seconds_to_converge"].tolist()[1] == 6.0
    assert times[["seconds_to_converge", "times_slower"]].isna().sum().sum() == 3


@pytest.mark.slow
def test_other_tables_and_figures(trained: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = made("table_2", trained).set_index(["data", "column"])["measured"]
    assert sizes["20NG test", "C"] == 2
    assert sizes["20NG train", "C"] == 3  # validation is taken from it
    printed = tables.published.grid("table3", "task")
    with monkeypatch.context() as patched:
        patched.setattr("traube.training.study.find_best_by_task", lambda *_: {"newsgroups": {"lam": 70.0, "r": 2.0}})
        own = tables.read_searched(trained)
    lams = join_printed(printed, own, "no study here").set_index(["task", "column"])
    assert lams.loc[("newsgroups", "lam"), ["published", "measured"]].tolist() == [90.0, 70.0]
    assert "get it from http://trec-car.cs.unh.edu" in lams.loc[("trec_car_fine", "lam"), "note"]
    notes = made("table_3", trained).set_index("task")["note"]
    assert set(notes["newsgroups"]) == {"no study here: traube tune"}  # the task is read
    articles = made("table_5", trained)
    assert articles["measured"].isna().all() and set(articles["note"]) == {NO_ARTICLES}
    curves = figures.trainings(trained)
    assert set(curves["method"]) == {"cob", "triplet"}
    times = figures.convergence(curves)
    assert (times.loc[times["method"] == "cob", "times_slower"].dropna() == 1).all()
    assert len(times) == 4
    slower = made("convergence", trained)
    assert set(slower.loc[slower["measured"].notna(), "measure"]) <= {"times_slower", "epoch_times_slower"}
    (note,) = slower.loc[slower["measure"] == "epoch_times_slower", "note"]
    assert note.count("max_length=16") == 2 and " of triplet: " in note.partition(" beside ")[0]  # of either recipe
    assert slower["layers"].isna().all()  # all learn
    (drawn,) = figures.learning_curves(curves)
    assert {trace["name"] for trace in drawn.traces} == {"cob", "triplet"}
    drawing = figures.trained_spaces(trained)
    assert drawing is not None
    assert [name.split("__")[0] for name in str(drawing.facts["models"]).split(", ")] == ["cob", "triplet"]
    assert "ARI" in drawing.content and json.dumps("scatter3d") in drawing.content
    times_drawn = figures.times_to_convergence(trained)
    assert times_drawn is not None and times_drawn.data is not None
    assert len(times_drawn.data) == 4
    epochs = figures.epoch_times(trained)
    assert epochs is not None and epochs.data is not None
    assert set(epochs.data["method"]) == {"cob", "triplet"} and json.dumps("bar") in epochs.content


def test_tables_of_nothing_measured_are_as_printed_and_say_what_to_get(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))  # without any raw data
    for name in tables.TASKS:
        table = made(name, context)
        assert table["measured"].isna().all()
        assert table["note"].str.match(r"TRAUBE_RAW/\S+ is not there; get it from http").all()
    assert tables.trained_cells(context, "newsgroups").empty
    assert figures.convergence(figures.trainings(context)).empty
    assert figures.times_to_convergence(context) is figures.epoch_times(context) is None


def test_a_statistic_of_the_qrels_needs_no_texts(context: Context) -> None:
    if not (paths.raw() / "trec_car" / "benchmarkY1test_qrels").is_dir():
        pytest.skip(f"raw data {paths.raw() / 'trec_car'} is absent (TRAUBE_RAW says where it lies)")
    table = made("table_2", context).set_index(["data", "column"])
    assert table.loc[("CAR test", "k_fine"), "measured"] == pytest.approx(
        table.loc[("CAR test", "k_fine"), "published"], abs=0.1
    )
    assert "which has no texts" in table.loc[("CAR test", "n"), "note"]
