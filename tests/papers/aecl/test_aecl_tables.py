"""AECL's tables and figures: measured beside published, and what is printed wrong."""

import numpy as np
import pandas as pd
import pytest

from tests.made import save_scored, store_task, tips_of, with_replicates
from traube._pipeline.cluster import REPRESENTATIONS
from traube._pipeline.params import load_params
from traube._pipeline.plan import cells
from traube._pipeline.record import record
from traube._reports.papers import Context
from traube._reports.papers.spec import Figure, deviation
from traube.models import load_model
from traube.models.vectors import store_matrix
from traube.papers.aecl import figures, tables
from traube.papers.aecl.claims import STAGE_2
from traube.papers.aecl.figures import PLACES
from traube.papers.aecl.paper import PAPER
from traube.tasks.task import Task, TaskCard, index_texts, make_split


@pytest.fixture
def task(context: Context) -> Task:
    """Six tweets on two topics, stored under the name of the paper's set."""
    texts = ["a cat", "the cat sat", "cats and cats and cats", "a dog", "soup", "bread and soup"]
    corpus, records = index_texts(pd.DataFrame({"text": texts, "topic": ["pets"] * 4 + ["food"] * 2}))
    task = Task(TaskCard(name="tweet"), corpus, make_split(records, "all", "topic", label="topic"))
    store_task(context.storage, task)
    return task


def evaluated(context: Context, task: Task, protocol: str, model: str, methods: list[str], acc: float) -> None:
    """Cells of a protocol's seeds, stored with an accuracy that grows by .01 from seed to seed."""
    chosen = load_params().chosen(protocol)
    for cell in cells(task, load_model(model), chosen, protocol_name=protocol):
        if cell.method.name in methods:
            value = acc + 0.01 * chosen.seeds.index(cell.seed)
            values = zip(tables.METRICS.values(), (value, value, value + 0.1), strict=True)
            scores = [("all", "topic", *one) for one in values]
            table = pd.DataFrame(scores, columns=["split", "level", "metric", "value"])
            entries = [{"epoch": float(e), "same_class_similarity": e / 10, "ns": 1 / e} for e in (1, 2, 3)]
            histories = {"all/topic": entries} if cell.method.name == "none/aecl" else None
            save_scored(context.storage, record(cell, "done"), with_replicates(table), histories=histories)


def test_what_is_printed() -> None:
    printed = tables.published_results()
    assert len(printed) == 2 * (6 * 8 + 2 * 3)
    best = printed[(printed["metric"] == "acc") & (printed["task"] == "biomedical")].set_index("method")["published"]
    assert best.idxmax() == "RSTC"  # AECL is not best everywhere
    for name in ("table_3", "table_4", "table_5"):
        table = tables.published_results(name).merge(printed, on=["method", "task", "metric"], suffixes=("", "_main"))
        assert (table["published"] == table["published_main"]).all() and len(table) == 4  # AECL's own, twice


def test_sizes_stand_beside_what_is_printed_wrong(context: Context, task: Task) -> None:
    (table,) = (table for table in PAPER.tables if table.name == "table_1")
    made = table.make(context).set_index(["task", "column"])
    assert made.loc[("tweet", "texts"), "measured"] == 6
    assert made.loc[("tweet", "imbalance"), "measured"] == 2
    assert made.loc[("tweet", "words"), "measured"] == pytest.approx(np.mean([2, 3, 5, 2, 1, 3]))
    assert "printed wrong: 8.6 is right" in made.loc[("tweet", "words"), "note"]
    assert made.loc[("agnews", "texts"), "note"] == "not read here"
    assert made["note"].str.contains("printed wrong").sum() == 2


def test_each_set_has_the_lambda_4_and_the_other_texts_that_are_published() -> None:
    protocols = load_params().protocols
    for name in (*tables.WITHOUT.values(), *tables.VARIANTS, *tables.WITHOUT_FROZEN.values()):
        found = {}
        for task in tables.TASKS:
            (aecl,) = (m for m in protocols[name].for_task(task).methods() if m.clusterer == "aecl")
            found[task] = (aecl.clusterer_params["balance"], aecl.clusterer_params["augmentation"])
        assert {task for task, (balance, _) in found.items() if balance == "even"} == {
            "agnews", "stackoverflow", "biomedical"
        }  # fmt: skip
        assert [task for task, (_, texts) in found.items() if texts != "published"] == ["googlenews_ts"]


def test_claims_name_the_schedule_of_the_frozen_encoder() -> None:
    (aecl,) = (m for m in load_params().protocols["aecl_frozen"].methods() if m.clusterer == "aecl")
    assert aecl.clusterer_params["stage_2"] == STAGE_2


def test_one_seed_has_no_deviation_and_several_have() -> None:
    assert np.isnan(deviation(pd.Series([50.0])))
    assert deviation(pd.Series([50.0, 52.0])) == pytest.approx(2**0.5)  # of a sample


def test_results_are_means_over_seeds_by_the_papers_names(context: Context, task: Task) -> None:
    evaluated(context, task, "aecl", "minilm", ["none/kmeans", "none/aecl"], 0.5)
    evaluated(context, task, "aecl", "bow", ["none/kmeans", "none/aecl"], 0.2)
    (table,) = (table for table in PAPER.tables if table.name == "table_2")
    made = table.make(context)
    acc = made[(made["task"] == "tweet") & (made["metric"] == "acc")].set_index("method")
    seeds = len(load_params().chosen("aecl").seeds)
    assert acc.loc["SBERT", "measured"] == pytest.approx(50 + (seeds - 1) / 2)
    assert acc.loc["SBERT", "sd"] == pytest.approx(np.std(range(seeds), ddof=1))
    assert (acc.loc["SBERT", "seeds"], acc.loc["SBERT", "base"]) == (seeds, "minilm")
    assert (acc.loc["BOW", "published"], acc.loc["BOW", "base"]) == (50.25, "")
    assert np.isnan(acc.loc["SCCL", "measured"])
    # a method of words has no encoder, so that nothing but the data could differ
    assert acc.loc[["BOW", "SBERT"], "same_encoder"].tolist() == ["yes", "no"]
    bow = show(made).loc["BOW"]
    assert bow.loc["ACC", "tweet"] == "21 ± 1.0▼ (50.2)"
    # as printed: the mean of its code, not the one of its equation, which the page does not show
    assert bow.loc["NMI", "tweet"] == "21 ± 1.0▼ (72.0)" and "NMI_GEOMETRIC" not in bow.index
    assert bow.loc["ACC", "agnews"] == "(28.7)"  # nothing of it is measured, and the row stands for what is
    assert "SCCL" not in show(made).index
    apart = made.assign(base=made["base"].mask(made["measured"].isna()))  # as where rows of another directory are kept
    assert show(apart).loc["SBERT"].equals(show(made).loc["SBERT"])
    one = made.assign(seeds=made["seeds"].mask(made["method"] == "BOW", 1), sd=np.nan)
    assert show(one).loc["BOW"].loc["ACC", "tweet"] == "21, 1 seed▼ (50.2)"


def show(made: pd.DataFrame) -> pd.DataFrame:
    return tables.format_table(made).set_index(["method", "metric"])


def test_other_schedules_and_precisions_of_aecl_have_rows_of_their_own(context: Context, task: Task) -> None:
    for protocol, acc in (("aecl", 0.6), ("aecl_bf16", 0.5), ("aecl_longer", 0.7)):
        evaluated(context, task, protocol, "minilm", ["none/aecl"], acc)
    acc = tables.results(context).query("task == 'tweet' and metric == 'acc'").set_index("method")["measured"]
    assert acc.to_dict() == pytest.approx({"AECL": 61, "AECL, bf16": 51, "AECL, longer stage 2": 71})


def test_with_a_frozen_encoder_three_methods_are_others_and_the_rest_stand_once(context: Context, task: Task) -> None:
    evaluated(context, task, "aecl", "minilm", ["none/kmeans"], 0.5)
    evaluated(context, task, "aecl_frozen", "minilm", ["none/kmeans", "none/stcc", "none/aecl"], 0.7)
    made = tables.results(context)
    acc = made[(made["task"] == "tweet") & (made["metric"] == "acc")].set_index("method")["measured"]
    assert acc.to_dict() == {"SBERT": pytest.approx(51), "AECL, frozen encoder": 71, "STCC, adapted": 71}
    assert (made["measured"].dtype, made["sd"].dtype) == (float, float)
    assert made["measured"].notna().all() and len(made) == 3 * 3


def test_on_vectors_of_words_from_elsewhere_a_method_is_the_papers(context: Context, task: Task) -> None:
    evaluated(context, task, "aecl_frozen", "minilm", ["none/stcc"], 0.7)
    evaluated(context, task, "aecl_glove", "minilm", ["none/stcc"], 0.6)
    made = tables.results(context).query("metric == 'acc'").set_index(["method", "base"])["measured"]
    assert made.to_dict() == pytest.approx({("STCC", "glove"): 61, ("STCC, adapted", "minilm"): 71})


def test_ablations_stand_beside_the_whole_with_the_encoder_trained_or_frozen(context: Context, task: Task) -> None:
    for protocol, acc in (("aecl", 0.6), ("aecl_frozen", 0.7), ("aecl_ablations.contrast=unguided", 0.5)):
        evaluated(context, task, protocol, "minilm", ["none/aecl"], acc)
    found = tables.ablation("table_3", context).query("metric == 'acc'").set_index("method")["measured"]
    expected = {"AECL": 61, "AECL, frozen encoder": 71, "No IC, frozen encoder": 51}
    assert found.to_dict() == pytest.approx(expected)


def test_stages_are_held_beside_the_whole_that_was_trained_with_them(context: Context, task: Task) -> None:
    for protocol, acc in (("aecl_ablations", 0.7), ("aecl_ablations.epochs=35", 0.6)):
        evaluated(context, task, protocol, "minilm", ["none/aecl"], acc)
    found = tables.ablation("table_4", context).query("metric == 'acc'").set_index("method")
    expected = {"AECL, frozen encoder": 71, "No Stage 3, frozen encoder": 61}
    assert found["measured"].to_dict() == pytest.approx(expected)
    assert found["verdict"].to_dict() == {"AECL, frozen encoder": "*", "No Stage 3, frozen encoder": "lower"}
    evaluated(context, task, "aecl_frozen", "minilm", ["none/aecl"], 0.8)  # with all of its field, and comes first
    found = tables.ablation("table_4", context).query("metric == 'acc'").set_index("method")
    assert found["measured"]["AECL, frozen encoder"] == pytest.approx(81)


@pytest.mark.slow
def test_trainings_are_drawn_as_they_went(context: Context, task: Task) -> None:
    figures_of: dict[str, Figure] = {figure.name: figure for figure in PAPER.figures}
    assert all(figure.draw(context) is None for figure in figures_of.values())
    assert "traube run --task tweet" in figures_of["figure_5"].make(context).content
    evaluated(context, task, "aecl", "minilm", ["none/aecl"], 0.5)
    drawing = figures.curves("ns", context)
    assert drawing is not None and drawing.data is not None
    assert drawing.data["mean"].tolist() == [1, 0.5, pytest.approx(1 / 3)]
    assert drawing.data["size"].eq(len(load_params().chosen("aecl").seeds)).all()


def test_attention_is_measured_in_the_end_and_after_the_contrast(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"method": "AECL", "task": "tweet", "base": "minilm", "same_class_similarity": 0.5}
    # stage 3 may have no pseudo-labels
    epochs = [(1, 0.9, None, None), (2, 0.4, None, None), (3, 0.2, 1.5, None), (4, 0.1, None, 1.2)]
    rows = [
        {**about, "seed": seed, "epoch": epoch, "ns": ns, "labels": labels, "clusters_contrast": contrast}
        for seed in (1, 2)
        for epoch, ns, labels, contrast in epochs
    ]
    monkeypatch.setattr(figures, "histories", lambda context: pd.DataFrame(rows))
    measured = figures.similarity(context).set_index("metric")
    assert measured["measured"].to_dict() == {"ns": 0.1, figures.NS_OF_CONTRAST: 0.4, "same_class_similarity": 0.5}
    assert set(measured["seeds"]) == {2}


def test_the_sweeps_own_training_is_drawn_where_the_protocol_has_none_and_once(context: Context, task: Task) -> None:
    evaluated(context, task, "aecl_ablations", "minilm", ["none/aecl"], 0.5)
    alone = figures.histories(context)
    assert alone["method"].unique().tolist() == ["AECL, frozen encoder"]
    evaluated(context, task, "aecl_frozen", "minilm", ["none/aecl"], 0.5)
    assert len(figures.histories(context)) == len(alone)


@pytest.mark.slow
def test_each_value_of_the_sweep_is_a_point_of_a_curve(context: Context, task: Task) -> None:
    sensitivity = {figure.name: figure for figure in PAPER.figures}
    assert "traube sweep aecl_sensitivity" in sensitivity["figure_8"].make(context).content
    for point, acc in (("", 0.7), (".stage_1=2", 0.6), (".label_weight=1.0", 0.5)):
        evaluated(context, task, f"aecl_sensitivity{point}", "minilm", ["none/aecl"], acc)
    evaluated(context, task, "aecl_ablations.contrast=confident", "minilm", ["none/aecl"], 0.4)
    drawn = {name: figure.draw(context) for name, figure in sensitivity.items() if name >= "figure_5"}
    stages = drawn["figure_8"].data
    # with the values that the protocol has, 10 epochs, there is one point for all parameters
    assert stages[stages["metric"] == "acc"][["value", "mean"]].values.tolist() == [[2, 61], [10, 71]]
    weights = drawn["figure_7"].data.set_index(["parameter", "value"])["mean"]
    assert (weights["label_weight", 1], weights["label_weight", 5], weights["instance_weight", 10]) == (51, 71, 71)
    assert set(drawn["figure_9"].data["parameter"]) == {"stage_2"}
    rival = drawn["figure_5"].data["method"].unique()
    assert list(rival) == ["AECL, confidence filter (CCSSL), frozen encoder"]


@pytest.mark.slow
def test_maps_stand_beside_each_other_and_pointing_at_a_text_shows_it(context: Context, task: Task) -> None:
    (figure,) = (figure for figure in PAPER.figures if figure.name == "figure_4")
    assert "traube run --task stackoverflow" in figure.make(context).content
    evaluated(context, task, "aecl_frozen", "minilm", ["none/aecl", "none/sccl"], 0.5)
    assert figure.draw(context) is None  # trainings of which nothing is kept
    cells = context.cells(["tweet"], "aecl_frozen")
    for cell in cells[cells["seed"] == 42].itertuples():  # of other seeds nothing is kept
        points = np.random.default_rng(cell.seed).normal(size=(6, 4)).astype(np.float16)
        store_matrix(context.storage, REPRESENTATIONS, cell.cell_id, points)
    drawing = figure.draw(context)
    assert drawing is not None
    assert drawing.facts["panels"] == "SCCL, frozen encoder, AECL, frozen encoder"
    tips = tips_of(drawing.content)
    assert len(tips) == 2 * 6 and tips.count("<b>pets</b><br>the cat sat") == 2
    # places are computed once, and lie with the rest of the cell
    first = cells[(cells["method"] == "none/aecl") & (cells["seed"] == 42)].iloc[0]
    store_matrix(context.storage, PLACES, first["cell_id"], np.full((6, 2), 0.25, dtype=np.float32))
    assert figure.draw(context).content != drawing.content
