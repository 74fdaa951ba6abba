"""The German benchmark's tables: as printed, what is printed wrong, and what was measured beside it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from traube.core import paths
from traube.papers import Context
from traube.papers.german import PAPER
from traube.papers.german.figures import curves, learning_curves
from traube.papers.german.tables import (
    AVERAGE,
    TASKS,
    adaptation,
    adapted,
    kmeans,
    methods,
    p2p_against_s2s,
    published,
)
from traube.papers.spec import beside, for_people
from traube.tasks.stored import complete_task, save_corpus, save_rows
from traube.tasks.task import Task

TOLERANCE = 0.0051  # two printed decimals


@pytest.fixture
def measured() -> pd.DataFrame:
    """Two models by two methods on Blurbs."""
    rows = [
        ("blurbs_s2s", model, method, 10.0 * i + j)
        for i, model in enumerate(("bow", "gbert_base"))
        for j, method in enumerate(("none/minibatch_kmeans", "umap/minibatch_kmeans"))
    ]
    return pd.DataFrame(rows, columns=["task", "model", "method", "measured"])


def test_whole_texts_against_titles(measured: pd.DataFrame) -> None:
    whole = measured.assign(task="blurbs_p2p", measured=measured["measured"] + 5)[:3]
    found = p2p_against_s2s(pd.concat([measured, whole]))
    assert found["texts"].unique().tolist() == ["blurbs"]
    assert found["difference"].tolist() == [5.0] * 3  # of the fourth there are no whole texts
    assert p2p_against_s2s(measured[:0]).empty


@pytest.mark.parametrize("table", ["table2", "table3"])
def test_printed_averages_are_those_of_their_rows(table: str) -> None:
    rows = published(table)
    wrong = (rows[list(TASKS)].mean(axis=1) - rows[AVERAGE]).abs() > 2 * TOLERANCE
    assert not wrong.any()


def test_printed_differences_are_to_the_model_as_it_was() -> None:
    before = published("table2").set_index("model")
    table = published("table5")
    rows = table[table["task"] != AVERAGE]
    found = [r.mean - before.loc[r.model, r.task] for r in rows.itertuples()]
    assert (pd.Series(found, rows.index) - rows["difference"]).abs().max() < TOLERANCE


def test_the_wrong_difference_compares_three_tasks_with_six() -> None:
    before = published("table2").set_index("model").loc["gbert_base"]
    three = [t for t in TASKS if t.endswith("p2p")]
    table = published("table5").set_index(["model", "method", "epochs", "task"])["mean"].loc["gbert_base", "wwm", 30]
    errata = published("errata").set_index(["table", "row"]).loc[("table_5", "gbert_base wwm 30")]
    assert table[AVERAGE] - before[AVERAGE] == pytest.approx(errata["printed"], abs=TOLERANCE)
    assert table[AVERAGE] - before[three].mean() == pytest.approx(errata["right"], abs=TOLERANCE)


def authors_results(path: Path) -> pd.DataFrame:
    """The authors' csv of all models and methods: model (as they write it), method and the six tasks, x100.

    A spreadsheet counted the names of two models up, from `-v2` to `-v15`; they are all the `-v2` model.
    """
    kinds = ("BlurbsClusteringS2S", "BlurbsClusteringSP2P", "10kGNADClusteringS2S", "10kGNADClusteringP2P")
    names = dict(zip((*kinds, "RedditClusteringS2S", "RedditClusteringP2P"), TASKS, strict=True))
    frame = pd.read_csv(path, encoding="utf-8-sig").rename(columns=lambda c: " ".join(c.split())).rename(columns=names)
    model = frame["transformer"].str.replace(r"^(paraphrase-multilingual-.*-v)\d+$", r"\g<1>2", regex=True)
    reducer = frame["dimensionality reduction"].replace("-", "none")
    frame = frame.assign(model=model, method=reducer + "/" + frame["clustering algorithm"])
    return frame[["model", "method"]].join(100 * frame[list(TASKS)])


def test_table_3_follows_from_the_authors_results_but_for_one_cell() -> None:
    path = paths.raw() / "tecb_de" / "tecb-de-full-results.csv"
    if not path.is_file():
        pytest.skip(f"raw data {path} is absent (TRAUBE_RAW says where it lies)")
    results = authors_results(path)
    assert results["model"].nunique() == 13
    assert (results.groupby("model").size() == 14).all()  # the counted-up names are repaired
    means = results[results["model"] != "sentence-t5-large"].groupby("method")[list(TASKS)].mean()
    printed = published("table3").set_index("method")[list(TASKS)]
    off = (means.loc[printed.index] - printed).abs().stack()
    assert list(off[off > TOLERANCE].index) == [("umap/minibatch_kmeans", "blurbs_p2p")]
    assert means.loc["umap/minibatch_kmeans", "blurbs_p2p"] == pytest.approx(32.93, abs=TOLERANCE)


def test_measured_stands_beside_published_and_never_in_its_place(measured: pd.DataFrame) -> None:
    own = kmeans(measured, {"reddit_s2s": "no credentials", "gbert_large": "not on this machine"})
    table = beside(published.grid("table2", "model", "task"), own, "not measured here")
    cell = table.set_index(["model", "task"]).loc
    assert cell[("gbert_base", "blurbs_s2s")][["published", "measured"]].tolist() == [11.27, 10.0]
    assert pd.isna(cell[("bow", "blurbs_s2s")]["published"])
    assert cell[("gbert_large", "blurbs_p2p")]["note"] == "not on this machine"
    assert cell[("gbert_base", "reddit_s2s")]["note"] == "no credentials"
    assert pd.isna(cell[("gbert_base", AVERAGE)]["measured"])
    shown = for_people(table).set_index("model")["blurbs_s2s"]
    assert (shown["gbert_base"], shown["bow"], shown["gbert_large"]) == ("11.27 | 10", "– | 0", "13.38 | –")


def test_a_mean_of_models_names_them_and_what_is_printed_wrong_is_said(measured: pd.DataFrame) -> None:
    table = beside(published.grid("table3", "method", "task"), methods(measured, {}), "not measured here")
    cell = table.set_index(["method", "task"]).loc
    assert cell[("umap/minibatch_kmeans", "blurbs_s2s")]["measured"] == 6.0
    assert "mean of bow, gbert_base" in cell[("umap/minibatch_kmeans", "blurbs_s2s")]["note"]
    assert "printed wrong: 32.93 is right" in cell[("umap/minibatch_kmeans", "blurbs_p2p")]["note"]


def training(folder: Path, seed: int, *values: float) -> None:
    name = folder / f"wwm__blurbs_s2s__minilm.s{seed}-last"
    name.mkdir(parents=True)
    curve = [{"step": i, "epoch": float(5 * i), "loss": 1.0, "v_measure": value} for i, value in enumerate(values)]
    about = {"trainer": "wwm", "task": "blurbs_s2s", "base": "minilm", "curve": curve}
    (name / "checkpoint.json").write_text(json.dumps({**about, "config": {"seed": seed, "epochs": 10}}))


def test_table_5_is_the_mean_of_seeds_after_the_last_step(context: Context) -> None:
    training(context.checkpoints, 1, 0.10, 0.30, 0.20)  # the best on the way does not count
    training(context.checkpoints, 2, 0.10, 0.10, 0.24)
    (table_5,) = (table for table in PAPER.tables if table.name == "table_5")
    table = table_5.make(context)
    (row,) = table[table["measured"].notna()].to_dict("records")
    assert (row["model"], row["method"], row["epochs"], row["seeds"]) == ("minilm", "wwm", 10, 2)
    assert (row["measured"], row["sd"], row["difference"]) == pytest.approx((22.0, 2.0, 12.0))
    assert table["published"].notna().sum() == len(published("table5"))
    assert table["note"].str.contains(r"\+5.44, not \+12.73").sum() == 1
    figure = learning_curves(context)
    assert figure is not None
    assert "minilm on blurbs_s2s" in figure.content
    assert figure.facts == {"trainings": 2}


def test_without_trainings_there_is_the_printed_side_alone(context: Context) -> None:
    assert adaptation(context).empty
    assert curves(adapted(context)) == []
    assert learning_curves(context) is None


def test_what_is_printed_in_table_1_stands_beside_what_is_stored(context: Context, tiny_task: Task) -> None:
    task = Task(tiny_task.card.model_copy(update={"name": "blurbs_s2s"}), tiny_task.corpus, tiny_task.splits)
    save_corpus(context.storage, task.name, task.corpus, task.corpus, raw_version="")
    save_rows(context.storage, task.card, task.splits)
    complete_task(context.storage, task.card)
    cell = PAPER.tables[0].make(context).set_index(["task", "column"]).loc
    splits = list(task.test_splits())
    assert cell[("blurbs_s2s", "splits")][["published", "measured"]].tolist() == [28, len(splits)]
    assert cell[("blurbs_s2s", "rows_high")]["measured"] == max(s.size for s in splits)
    assert cell[("blurbs_s2s", "classes_low")]["measured"] == min(s.classes or 0 for s in splits)
    assert cell[("blurbs_s2s", "unique")]["measured"] == len({row for s in splits for row in s.rows})
    lengths = [len(task.texts[row]) for s in splits for row in s.rows]
    assert cell[("blurbs_s2s", "characters")]["measured"] == pytest.approx(sum(lengths) / len(lengths))
    note = cell[("tenkgnad_s2s", "splits")]["note"]
    assert "has not been read here; printed wrong: 10 is right" in note
