"""GiCCS' tables and figure: what is printed, what of it cannot be right, and the same numbers measured on a
hand-written sample with simulated judgments (which is not GiCCS: see tests/giccs_like.py)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import giccs_like
from tests.made import page_data, run_missing, store_task
from traube._pipeline.evaluate import score_missing
from traube._pipeline.kinds.pairs import make_pair_cells
from traube._pipeline.request import Request
from traube._pipeline.workbench import Given
from traube._reports.papers import Context, Table, papers
from traube.metrics.correlation import spearman
from traube.models import Model
from traube.papers.giccs.multiple_choice import save_choices
from traube.papers.giccs.richness import lexical_tokens, mtld
from traube.papers.giccs.tables import FEWEST, pair_scores, published, published_words
from traube.tasks import load_pairs
from traube.tasks.stored import Manifest
from traube.tasks.task import Task

PAPER = papers()["giccs"]
TABLES = {table.name: table for table in PAPER.tables}


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TRAUBE_RAW, with nothing in it."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    return tmp_path


@pytest.fixture
def sample(raw: Path) -> Path:
    """TRAUBE_RAW with the sample, its simulated judgments, and its items."""
    giccs_like.write(raw)
    giccs_like.judgments().to_csv(raw / "giccs" / "judgments.csv", index=False)
    items = [
        {"item": f"{d.name}{letter}", "source": "hand-written sample", "turns": len(d.turns)}
        for d in giccs_like.DIALOGUES
        for letter in "abcde"
    ]
    pd.DataFrame(items).to_csv(raw / "giccs" / "items.csv", index=False)
    return raw


def measured(table: Table, context: Context) -> pd.DataFrame:
    rows = table.make(context)
    return rows[rows["measured"].notna()]


@pytest.mark.parametrize("table", [t for t in PAPER.tables if t.published], ids=lambda table: table.name)
def test_without_data_a_table_is_as_printed_and_says_what_is_missing(table: Table, context: Context, raw: Path) -> None:
    rows = table.make(context)
    assert rows["published"].notna().all() and rows["measured"].isna().all()
    assert (rows["note"] != "").all()


def test_what_is_printed_is_as_many_numbers_as_in_the_paper() -> None:
    sizes = {name: len(t.published()) for name, t in TABLES.items() if t.published}
    of_paper = {"table_1": 12, "table_2": 60, "table_3": 4, "table_4": 2, "table_5": 14, "table_6": 4}
    assert sizes == {**of_paper, "stsb_de": 5}


def test_the_means_that_the_text_states_are_those_of_the_tables() -> None:
    halves = published("table3")["split_half"]
    assert halves[:2].mean() == pytest.approx(0.973, abs=1e-3) and halves[2:].mean() == pytest.approx(0.949, abs=1e-3)
    assert published("table1")["alpha"].mean() == pytest.approx(0.74, abs=5e-3)


def test_numbers_of_table_2_that_are_hardly_of_one_text_are_marked_with_the_arithmetic() -> None:
    notes = published_words().set_index(["dialogues", "measure"])["note"]
    assert notes["find_cinema 3-turn", "rttr"] == (
        "doubtful: as of one text, RTTR 1.43 of 128 tokens means 1.43 * sqrt(128) = 16.2 types, "
        "and 39 lemmas have at least 39 types"
    )
    impossible = notes[notes.str.contains("at least")].reset_index()
    assert impossible["dialogues"].nunique() == 10 and set(impossible["measure"]) == {"rttr", "lemmas"}
    assert "2.8 for each of 21 lemmas" in notes["find_restaurant 3-turn", "lemmas"]  # hard to believe, not impossible
    assert notes["find_restaurant 5-turn", "rttr"] == ""
    assert (notes[:, "tokens"] == "").all() and (notes[:, "mtld"] == "").all()


def test_tokens_and_turn_lengths_of_table_2_are_of_sixty_dialogues() -> None:
    table = published("table2")
    dialogues = table["tokens"] / table["turn_length"] / table["turns"]
    np.testing.assert_allclose(dialogues, dialogues.round(), atol=0.02)
    assert dialogues.round().groupby(table["turns"]).sum().tolist() == [30, 30]


def test_agreement_is_measured_where_there_are_judgments(context: Context, sample: Path) -> None:
    table = measured(TABLES["table_1"], context).set_index(["source", "measure"])["measured"]
    assert len(table) == 10  # of two sources: alpha in three readings, strong agreement on best and on worst
    for turns in (3, 5):
        group = f"hand-written sample {turns}-turn"
        assert 0.5 < table[group, "alpha"] < 1
        assert 50 < table[group, "strong_best"] <= 100
    halves = measured(TABLES["table_3"], context)
    assert (halves["measured"] > 0.9).all()  # a noise of .15 beside steps of .25


def test_words_of_the_dialogues_are_counted(context: Context, sample: Path) -> None:
    table = measured(TABLES["table_2"], context).set_index(["dialogues", "measure"])["measured"]
    turns = giccs_like.DIALOGUES[0].turns
    tokens = " ".join(turns).split()
    assert table["find_restaurant 3-turn", "tokens"] == len(tokens)
    lexical = lexical_tokens(" ".join(turns))
    assert table["find_restaurant 3-turn", "rttr"] == pytest.approx(len(set(lexical)) / len(lexical) ** 0.5)
    assert table["find_restaurant 3-turn", "mtld"] == pytest.approx(mtld(lexical))
    assert table["find_restaurant 3-turn", "turn_length"] == pytest.approx(len(tokens) / 3)


def compare(context: Context, task: Task, model: Model) -> None:
    """Score a pair task's cells of a model."""
    manifest = Manifest.of(task)
    workbench = replace(context.workbench, given={task.name: Given(task)})
    cells = make_pair_cells(manifest, model)
    scored = score_missing(cells, model, workbench)
    assert len(scored[["comparison", "history"]].drop_duplicates()) == len(cells)


def test_correlations_are_those_of_the_stored_cells(context: Context, sample: Path) -> None:
    assert measured(TABLES["table_5"], context).empty
    task, model = load_pairs("giccs"), context.model("tfidf", None)
    compare(context, task, model)
    rows = measured(TABLES["table_5"], context).set_index("metric")
    stored = pair_scores(context, "giccs").iloc[0]
    assert stored["comparison"] == "cosine" and not stored["history"]
    expected = ["tfidf", stored["pearson"], stored["pearson_low"]]
    assert rows.loc["pearson", ["model", "measured", "low"]].tolist() == expected
    # other data: what was computed of the former does not count
    giccs_like.write(sample).write_text((sample / "giccs" / "giccs.jsonl").read_text().replace("Wann", "Um wann"))
    assert measured(TABLES["table_5"], context).empty


def test_choices_are_those_that_were_kept(context: Context, sample: Path) -> None:
    kept = pd.DataFrame(
        [(3, True, "sum", 0.25, 0.1, 0.2, 4), (3, True, "pmi", 0.5, 0.1, 0.2, 4)],
        columns=["n_turns", "context", "score", "accuracy", "error", "chance", "questions"],
    )
    save_choices(context.storage, load_pairs("giccs"), "ai-forever/mGPT", "abc", kept)
    rows = TABLES["table_6"].make(context).set_index("column")
    assert rows.loc["3-turn with context", ["published", "measured"]].tolist() == [0.133, 0.25]
    assert "below the 0.2 that guessing gives" in rows.loc["3-turn with context", "note"]


def test_the_figure_counts_scores_in_tenths(context: Context, sample: Path) -> None:
    drawing = PAPER.figures[0].make(context)
    (bars,) = page_data(drawing.content)[0]["traces"]
    assert sum(bars["y"]) == 40 and bars["x"][0] == "0.0-0.1"
    assert drawing.data is not None and drawing.data["pairs"].sum() == 40 and len(drawing.data) == 10


def test_without_data_the_figure_says_what_is_missing(context: Context, raw: Path) -> None:
    assert "GiCCS has not been read" in PAPER.figures[0].make(context).content


@pytest.mark.slow
def test_whether_similarity_predicts_clustering_is_measured_for_models_that_have_both(
    context: Context, sample: Path, tiny_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(context, protocol="mteb-v1")
    spec, pairs = TABLES["similarity_and_clustering"], load_pairs("giccs")
    task = Task(tiny_task.card.model_copy(update={"name": "tweet"}), tiny_task.corpus, tiny_task.splits)
    store_task(context.storage, task)
    for name in ("bow", "tfidf", "lsa"):
        assert spec.make(context).empty  # fewer than three models tell nothing
        run_missing(context.workbench, Request(["tweet"], [name], "mteb-v1", context.protocols["mteb-v1"]))
        compare(context, pairs, context.model(name, None))
    (row,) = spec.make(context).to_dict("records")
    assert (row["pair_task"], row["task"], row["models"], row["which"]) == ("giccs", "tweet", FEWEST, "bow, lsa, tfidf")
    own = context.cells(["tweet"], "mteb-v1")
    scored = context.storage.read_scores(own, [row["metric"]]).merge(own[["cell_id", "model"]])
    scores = scored.groupby("model")["value"].mean()
    alike = pair_scores(context, "giccs").set_index("model")["spearman"]
    assert row["rho"] == pytest.approx(spearman(alike[scores.index], scores), nan_ok=True)
    assert np.isnan(row["low"]) and "3 models are too few" in row["note"]
    monkeypatch.setattr("traube.metrics.correlation.FEWEST", FEWEST)
    (row,) = spec.make(context).to_dict("records")
    assert not row["note"] and (np.isnan(row["rho"]) or row["low"] <= row["rho"] <= row["high"])
