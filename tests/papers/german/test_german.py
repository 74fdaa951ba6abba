"""The German benchmark's tables: as printed, what is printed wrong, and what was measured beside it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.made import save_scored, store_task, with_replicates
from traube._core import paths
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.record import record
from traube._reports.papers import Context
from traube._reports.papers.context import describe_recipe
from traube._reports.papers.spec import format_table, join_printed
from traube.components import parse_method
from traube.papers.german.figures import curves, learning_curves
from traube.papers.german.paper import PAPER
from traube.papers.german.tables import (
    AVERAGE,
    METRIC,
    TASKS,
    adaptation,
    kmeans,
    methods,
    p2p_against_s2s,
    published,
    published_kmeans,
    published_methods,
    read_adaptations,
    scores,
)
from traube.tasks.stored import get_manifest
from traube.tasks.task import Task
from traube.training import TRAINERS

TOLERANCE = 0.0051  # two printed decimals


@pytest.fixture
def measured() -> pd.DataFrame:
    """Two models by two methods on Blurbs."""
    rows = [
        ("blurbs_s2s", model, method, 10.0 * i + j)
        for i, model in enumerate(("bow", "gbert_base"))
        for j, method in enumerate(("none/minibatch_kmeans", "umap/minibatch_kmeans"))
    ]
    return pd.DataFrame(rows, columns=["task", "model", "method", "measured"]).assign(sd=np.nan, seeds=np.nan)


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


def raw_file(name: str) -> Path:
    path = paths.raw() / "tecb_de" / name
    if not path.is_file():
        pytest.skip(f"raw data {path} is absent (TRAUBE_RAW says where it lies)")
    return path


def test_the_authors_results_are_those_of_their_file() -> None:
    """A spreadsheet counted the names of two models up, from `-v2` to `-v15`; they are all the `-v2` model."""
    kinds = ("BlurbsClusteringS2S", "BlurbsClusteringSP2P", "10kGNADClusteringS2S", "10kGNADClusteringP2P")
    names = dict(zip((*kinds, "RedditClusteringS2S", "RedditClusteringP2P"), TASKS, strict=True))
    raw = pd.read_csv(raw_file("tecb-de-full-results.csv"), encoding="utf-8-sig")
    raw = raw.rename(columns=lambda c: " ".join(c.split())).rename(columns=names)
    model = raw["transformer"].str.replace(r"^(paraphrase-multilingual-.*-v)\d+$", r"\g<1>2", regex=True)
    model = model.str.lower().str.replace("-", "_")
    model = model.replace(
        {"gottbert": "gottbert_base", "cross_en_de_roberta_sentence_transformer": "cross_en_de_roberta"}
    )
    method = raw["dimensionality reduction"].replace("-", "none") + "/" + raw["clustering algorithm"]
    raw = (100 * raw[list(TASKS)]).set_index([model.rename("model"), method.rename("method")])
    stored = published("authors").set_index(["model", "method"])
    assert raw.index.is_unique and len(raw) == 13 * 14
    assert set(raw.index.levels[0]) - set(stored.index.levels[0]) == {"sentence_t5_large"}
    assert (raw.loc[stored.index] - stored).abs().max(axis=None) < 0.00006


def test_mtebs_results_are_those_that_it_stores() -> None:
    kinds = {"Blurbs": "blurbs", "TenKGnad": "tenkgnad"}
    raw = pd.read_json(raw_file("mteb_results_clustering_de_20ng.jsonl.gz"), lines=True)
    raw = raw.assign(model=raw["model"].str.split("/").str[1].str.lower().str.replace("-", "_"))
    raw["task"] = raw["task"].replace(rf"^({'|'.join(kinds)})Clustering(S2S|P2P)$", r"\1_\2", regex=True)
    raw["task"] = raw["task"].str.lower()
    raw = raw[raw["model"].isin(published("table2")["model"]) & raw["task"].isin(TASKS)]
    stored = published("mteb").set_index(["model", "task"])
    raw = raw.set_index(["model", "task"]).loc[stored.index]
    assert len(raw) == len(stored) == 20
    assert (100 * raw["v_measure"] - stored["v_measure"]).abs().max() < 0.00006
    about = ["mteb_version", "model_revision", "dataset_revision"]
    assert raw[about].astype(str).equals(stored[about].astype(str))


def test_table_2_follows_from_the_authors_results() -> None:
    table = published_kmeans()
    assert len(table) == table["authors"].count() == 12 * 7
    tolerance = table["task"].eq(AVERAGE).map({True: 2 * TOLERANCE, False: TOLERANCE})  # of averages of printed numbers
    assert ((table["authors"] - table["published"]).abs() < tolerance).all()


def test_table_3_follows_from_the_authors_results_but_for_one_cell_and_its_average() -> None:
    table = published_methods()
    assert len(table) == table["authors"].count() == 10 * 7
    table = table.set_index(["method", "task"])
    tolerance = [2 * TOLERANCE if task == AVERAGE else TOLERANCE for _, task in table.index]
    off = (table["authors"] - table["published"]).abs() > tolerance
    errata = published("errata").query("table == 'table_3'").set_index(["row", "column"])
    assert list(off[off].index) == list(errata.index) == [("umap/minibatch_kmeans", t) for t in ("blurbs_p2p", AVERAGE)]
    wrong = table.loc[errata.index]
    assert wrong["published"].tolist() == errata["printed"].tolist() == [29.58, 28.93]
    assert wrong["authors"].round(2).tolist() == errata["right"].tolist() == [32.93, 29.49]


def test_mtebs_stored_results_are_the_authors_run_or_another_of_two_models() -> None:
    table = published_kmeans().dropna(subset="mteb").reset_index(drop=True)
    assert table.groupby("model").size().tolist() == [4] * 5
    assert not table["task"].str.startswith("reddit").any()
    versions = published("mteb").set_index(["model", "task"])["mteb_version"]
    is_another = versions.loc[[*zip(table["model"], table["task"], strict=True)]].eq("1.18.0").reset_index(drop=True)
    assert set(table["model"][is_another]) == {
        f"paraphrase_multilingual_{m}" for m in ("minilm_l12_v2", "mpnet_base_v2")
    }
    assert set(versions) == {"1.0.1", "1.18.0"}
    difference = (table["mteb"] - table["authors"]).abs()
    assert (difference[~is_another] < 0.0001).all()
    assert difference[is_another].between(0.05, 2.35).all()
    farthest = table.loc[difference.idxmax()]
    assert (farthest["task"], farthest["published"], farthest["mteb"]) == ("tenkgnad_p2p", 35.96, 33.623)


def test_measured_stands_beside_published_and_never_in_its_place(measured: pd.DataFrame) -> None:
    own = kmeans(measured, {"reddit_s2s": "no credentials", "gbert_large": "not on this machine"})
    table = join_printed(published_kmeans(), own, "not measured here")
    assert list(table.columns) == ["model", "task", "published", "authors", "mteb", "measured", "sd", "seeds", "note"]
    cell = table.set_index(["model", "task"]).loc
    assert cell[("gbert_base", "blurbs_s2s")][["published", "measured"]].tolist() == [11.27, 10.0]
    assert pd.isna(cell[("bow", "blurbs_s2s")]["published"])
    assert cell[("gbert_large", "blurbs_p2p")]["note"] == "not on this machine"
    assert cell[("gbert_base", "reddit_s2s")]["note"] == "no credentials"
    assert pd.isna(cell[("gbert_base", AVERAGE)]["measured"])
    shown = format_table(table).set_index("model")["blurbs_s2s"]
    assert shown["gbert_base"] == "10 (11.27; authors 11.27)"
    assert shown["bow (our row)"] == "0"
    assert "gbert_large" not in shown  # nothing of it is measured
    assert cell[("paraphrase_multilingual_minilm_l12_v2", "blurbs_s2s")]["note"] == "not evaluated here"


def test_a_mean_of_models_names_them_and_what_is_printed_wrong_is_said(measured: pd.DataFrame) -> None:
    table = join_printed(published_methods(), methods(measured, {}), "not measured here")
    cell = table.set_index(["method", "task"]).loc
    assert cell[("umap/minibatch_kmeans", "blurbs_s2s")]["measured"] == 6.0
    assert "mean of bow, gbert_base" in cell[("umap/minibatch_kmeans", "blurbs_s2s")]["note"]
    assert "printed wrong: 32.93 is right" in cell[("umap/minibatch_kmeans", "blurbs_p2p")]["note"]
    shown = format_table(table).set_index("method")["blurbs_p2p"]
    assert shown["umap/minibatch_kmeans"] == "(29.58; authors 32.93)"


def test_a_model_for_german_that_is_not_the_papers_stands_alone(measured: pd.DataFrame) -> None:
    name = "multilingual_e5_small_q4"
    more = measured[measured["model"] == "gbert_base"].assign(model=name, measured=3.0)
    both = pd.concat([measured, more])
    alone = methods(both, {}).set_index(["method", "task"]).loc
    row = alone[(f"{name} with umap/minibatch_kmeans", "blurbs_s2s")]
    assert row["measured"] == 3.0 and row["note"].startswith("multilingual-e5-small with weights of 4 bits.")
    mean = alone[("umap/minibatch_kmeans", "blurbs_s2s")]
    assert mean["measured"] == 6.0 and "mean of bow, gbert_base;" in mean["note"]
    assert not any(method.startswith(("bow with", "gbert_base with")) for method, _ in alone.obj.index)
    of_model = kmeans(both, {}).set_index(["model", "task"])["note"]
    assert of_model[name, "blurbs_s2s"] == row["note"] and not of_model["bow", "blurbs_s2s"]


def training(folder: Path, seed: int, *values: float) -> None:
    name = folder / f"wwm__blurbs_s2s__minilm.s{seed}-last"
    name.mkdir(parents=True)
    curve = [{"step": i, "epoch": float(5 * i), "loss": 1.0, "v_measure": value} for i, value in enumerate(values)]
    about = {"trainer": "wwm", "task": "blurbs_s2s", "base": "minilm", "curve": curve}
    (name / "checkpoint.json").write_text(json.dumps({**about, "config": {"seed": seed, "epochs": 10}}))


def test_table_5_is_the_mean_of_seeds_after_the_last_step(context: Context) -> None:
    (table_5,) = (table for table in PAPER.tables if table.name == "table_5")
    training(paths.checkpoints(), 1, 0.10, 0.30, 0.20)  # the best on the way does not count
    (row,) = table_5.make(context).dropna(subset="measured").to_dict("records")
    assert row["difference"] == pytest.approx(10.0)
    assert pd.isna(row["p"]) and row["verdict"] == ""  # of one training
    training(paths.checkpoints(), 2, 0.10, 0.10, 0.24)
    table = table_5.make(context)
    (row,) = table[table["measured"].notna()].to_dict("records")
    assert (row["model"], row["method"], row["epochs"], row["seeds"]) == ("minilm", "wwm", 10, 2)
    assert (row["measured"], row["sd"], row["difference"]) == pytest.approx((22.0, 8**0.5, 12.0))
    # over two trainings: 22 +- 2, so that chance may explain it
    assert row["p"] == pytest.approx(2 * stats.t.sf(6, 1)) and (row["verdict"], row["comparisons"]) == ("", 1)
    assert row["detectable"] > 0
    assert table["published"].notna().sum() == len(published("table5"))
    assert table["note"].str.contains(r"\+5.44, not \+12.73").sum() == 1
    figure = learning_curves(context)
    assert figure is not None
    assert "minilm on blurbs_s2s" in figure.content
    assert figure.facts == {"trainings": 2}


def store_as(context: Context, task: Task, name: str) -> Task:
    """Store a task under the name of one of the paper's."""
    named = replace(task, card=task.card.model_copy(update={"name": name}))
    store_task(context.storage, named)
    return named


def save_values(context: Context, model: str, method: str, seed: int | None, **values: float) -> None:
    """Store a cell of the stored `blurbs_s2s` with these scores of splits."""
    manifest = get_manifest(context.storage, "blurbs_s2s")
    assert manifest is not None
    cell = ClusteringCell(
        "blurbs_s2s", "paper", model, "f", parse_method(method), seed, "paper", "default", manifest.data_version
    )
    table = pd.DataFrame({"split": [*values], "level": "coarse", "metric": METRIC, "value": [*values.values()]})
    save_scored(context.storage, record(cell, "done"), with_replicates(table))


def test_what_was_adapted_stands_in_table_5_alone(context: Context, tiny_task: Task) -> None:
    store_as(context, tiny_task, "blurbs_s2s")
    training(paths.checkpoints(), 1, 0.10, 0.30)
    for model in ("minilm", *(f"wwm__blurbs_s2s__minilm.s1-{step}" for step in ("last", "best"))):
        save_values(context, model, "none/minibatch_kmeans", 42, early=0.5)
    assert scores(context)["model"].tolist() == ["minilm"]


def test_means_over_seeds_have_a_deviation_and_other_scores_have_none(context: Context, tiny_task: Task) -> None:
    store_as(context, tiny_task, "blurbs_s2s")
    save_values(context, "minilm", "none/agglomerative", None, early=0.4, late=0.6)
    for seed in (1, 2, 3):
        save_values(context, "minilm", "none/minibatch_kmeans", seed, early=0.4 + 0.02 * seed, late=0.6)
    paper = context.protocols["paper"].model_copy(update={"seeds": (1, 2, 3)})
    rows = scores(replace(context, protocols={**context.protocols, "paper": paper})).set_index("method")
    assert rows["measured"].to_dict() == pytest.approx({"none/agglomerative": 50, "none/minibatch_kmeans": 52})
    assert rows.loc["none/minibatch_kmeans", ["sd", "seeds"]].tolist() == pytest.approx([1, 3])
    assert rows.loc["none/agglomerative", ["sd", "seeds"]].isna().all()


def test_without_trainings_there_is_the_printed_side_alone(context: Context) -> None:
    assert adaptation(context).empty
    assert curves(read_adaptations(context)) == []
    assert learning_curves(context) is None


def test_what_is_printed_in_table_1_stands_beside_what_is_stored(
    context: Context, tiny_task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))  # without any raw data
    task = store_as(context, tiny_task, "blurbs_s2s")
    cell = PAPER.tables[0].make(context).set_index(["task", "column"]).loc
    splits = list(task.test_splits())
    assert cell[("blurbs_s2s", "splits")][["published", "measured"]].tolist() == [28, len(splits)]
    assert cell[("blurbs_s2s", "rows_high")]["measured"] == max(s.size for s in splits)
    assert cell[("blurbs_s2s", "classes_low")]["measured"] == min(s.classes or 0 for s in splits)
    assert cell[("blurbs_s2s", "unique")]["measured"] == len({row for s in splits for row in s.rows})
    lengths = [len(task.texts[row]) for s in splits for row in s.rows]
    assert cell[("blurbs_s2s", "characters")]["measured"] == pytest.approx(sum(lengths) / len(lengths))
    note = cell[("tenkgnad_s2s", "splits")]["note"]
    # where to get what is absent
    assert note.startswith("TRAUBE_RAW/") and "get it from https://ofai.github.io" in note
    assert "; printed wrong: 10 is right" in note


def test_a_task_with_as_many_texts_as_are_printed_has_the_papers_data(
    context: Context, tiny_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("blurbs_s2s", "tenkgnad_p2p"):
        store_as(context, tiny_task, name)
    texts = len({row for split in tiny_task.test_splits() for row in split.rows})
    table = published("table1")
    table = table.assign(unique=table["unique"].mask(table["task"] == "blurbs_s2s", texts))
    monkeypatch.setattr("traube.papers.german.tables.published", lambda _: table)
    rows = PAPER.tables[0].make(context).dropna(subset="measured")
    same_data = rows.groupby("task")["same_data"].unique().map(list).to_dict()
    assert same_data == {"blurbs_s2s": ["yes"], "tenkgnad_p2p": ["no"]}


def test_figure_3_counts_the_texts_of_each_subreddit(context: Context, tiny_task: Task) -> None:
    (figure,) = (figure for figure in PAPER.figures if figure.name == "figure_3")
    assert "REDDIT_CLIENT_ID" in figure.make(context).content  # what to do where they are not there
    task = store_as(context, tiny_task, "reddit_s2s")
    drawn = figure.make(context).data
    assert drawn is not None
    counts = drawn.set_index("subreddit")["texts"].to_dict()
    unique = task.splits.drop_duplicates(["text_id", "label"])
    assert counts == {label: int((unique["label"] == label).sum()) for label in unique["label"].unique()}


def test_a_recipe_is_described_by_what_is_not_its_trainers_default() -> None:
    tsdae = TRAINERS["tsdae"].with_values(max_length=8, seed=3)
    record = {"trainer": "tsdae", "config": tsdae.recipe.model_dump(mode="json")}
    described = [describe_recipe(tsdae.name_checkpoints("a", "b", extra), record) for extra in (False, True)]
    assert described == ["max_length=8", "max_length=8 and more texts than the task's"]
