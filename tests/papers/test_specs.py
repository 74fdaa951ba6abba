"""Papers as specs: found by themselves, measured beside published, and figures that say what is missing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from traube._core import paths
from traube._reports.papers import Context, Drawing, Figure, Paper, Table, papers
from traube._reports.papers.published import Published
from traube._reports.papers.spec import SAME, describe_test, format_table, join_printed
from traube.comparison.verdict import Undecided, Verdict
from traube.tasks import PAIRS, sources

PRINTED = pd.DataFrame({"model": ["a", "a", "b"], "task": ["x", "y", "x"], "published": [1.0, 2.0, 3.0]})


def test_a_paper_is_made_of_tasks_that_there_are() -> None:
    for paper in papers().values():
        assert set(paper.tasks) <= {*sources(), *sources(PAIRS)}


def test_names_of_a_papers_tables_and_figures_are_unique() -> None:
    for paper in papers().values():
        names = [spec.name for spec in (*paper.tables, *paper.figures)]
        assert len(names) == len(set(names))


def test_measured_stands_beside_published_in_the_printed_order() -> None:
    measured = pd.DataFrame(
        {"model": ["c", "b", "a", "b"], "task": ["x", "z", "y", "x"], "measured": [9.0, 8.0, 2.5, 3.5], "seeds": 1}
    )
    table = join_printed(PRINTED, measured, "not here")
    assert list(table.columns) == ["model", "task", "published", "measured", "seeds", "note"]
    places = list(zip(table["model"], table["task"], strict=True))
    # printed rows first; what else is measured of such a row stays with it, and other rows come last
    assert [model for model, _ in places] == ["a", "a", "b", "b", "c"]
    at = table.set_index(["model", "task"]).loc
    assert at[("a", "y")][["published", "measured"]].tolist() == [2.0, 2.5]
    assert pd.isna(at[("a", "x")]["measured"]) and at[("a", "x")]["note"] == "not here"
    assert pd.isna(at[("c", "x")]["published"]) and at[("c", "x")]["note"] == ""


def test_nothing_measured_leaves_the_printed_table() -> None:
    table = join_printed(PRINTED, pd.DataFrame(columns=["model", "task", "measured"]), "not here")
    assert table["published"].tolist() == [1.0, 2.0, 3.0]
    assert set(table["note"]) == {"not here"}


def test_several_measurements_of_a_number_are_rows_beside_it() -> None:
    measured = pd.DataFrame({"model": "a", "task": "x", "recipe": ["one", "two"], "measured": [1.1, 1.2]})
    table = join_printed(PRINTED, measured, "")
    both = table[(table["model"] == "a") & (table["task"] == "x")]
    assert both["published"].tolist() == [1.0, 1.0]
    assert both["recipe"].tolist() == ["one", "two"]


def test_notes_name_raw_files_relative_to_their_folder() -> None:
    """A table is the same on every machine."""
    measured = PRINTED[["model", "task"]].assign(measured=None, note=f"{paths.raw()}/words/words.csv is not there")
    assert set(join_printed(PRINTED, measured, "")["note"]) == {"TRAUBE_RAW/words/words.csv is not there"}


def test_what_is_printed_wrong_stays_and_has_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "toypaper" / "published"
    folder.mkdir(parents=True)
    (tmp_path / "toypaper" / "__init__.py").touch()
    (folder / "table1.csv").write_text("# Of a toy paper.\nmodel,x,y\na,1,2\nb,3,\n")
    (folder / "errata.csv").write_text(
        "table,row,column,printed,right,why\ntable_1,a,y,2.0,2.25,a typo\ntable_9,b,x,3.0,4.0,of another table\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = Published("toypaper").grid("table1", "model", "task")
    assert table[["model", "task", "published"]].equals(PRINTED)
    assert table["erratum"].tolist() == ["", "printed wrong: 2.25 is right (a typo)", ""]
    measured = PRINTED[["model", "task"]].assign(measured=1.0, note="mean of two")
    assert join_printed(table, measured, "")["note"][1] == "mean of two; printed wrong: 2.25 is right (a typo)"
    measure = lambda _: measured.assign(note="others say: printed wrong")  # noqa: E731
    assert Table("t", "A table.", lambda: table, measure).list_errata() == ["printed wrong: 2.25 is right (a typo)"]
    assert Table("t", "A table.", lambda: PRINTED, measure).list_errata() == []
    nothing = join_printed(table, measured[:0], "no weights")
    assert nothing["note"].tolist() == ["no weights", "no weights; printed wrong: 2.25 is right (a typo)", "no weights"]


def test_people_see_a_grid_or_else_the_rows() -> None:
    table = join_printed(PRINTED, pd.DataFrame({"model": ["a"], "task": ["x"], "measured": [1.5]}), "not here")
    assert format_table(table).to_dict("list") == {"model": ["a"], "x": ["1.5 (1)"], "y": ["(2)"]}
    ours = join_printed(PRINTED, pd.DataFrame({"model": ["c"], "task": ["x"], "measured": [1.5]}), "not here")
    assert format_table(ours)["model"].tolist() == ["c (our row)"]  # the paper has no such row
    two_encoders = pd.DataFrame({"model": "a", "task": "x", "base": ["e5", "minilm"], "measured": [1.0, 2.0]})
    grid = format_table(join_printed(PRINTED, two_encoders, "not here"))
    assert grid[["base", "x"]].values.tolist() == [["e5", "1 (1)"], ["minilm", "2 (1)"]]


def test_a_row_says_whether_its_data_and_encoder_are_the_papers() -> None:
    rows = join_printed(PRINTED, pd.DataFrame({"model": ["a"], "task": ["x"], "measured": [1.5]}), "not here")
    table = Table("t", "T.", lambda: PRINTED, lambda _: rows, same_encoder=lambda given: given["model"] == "b")
    marked = table.mark_same(rows).set_index(["model", "task"])
    assert marked.loc[("a", "x"), list(SAME)].tolist() == ["yes", "no"]
    assert marked.loc[("b", "x"), list(SAME)].isna().all()  # nothing was measured there
    given = table.mark_same(rows.assign(same_data=["no", None, None]))  # the measurement itself knows better
    assert given.loc[given["measured"].notna(), "same_data"].tolist() == ["no"]


def test_a_row_of_one_training_has_a_difference_and_no_test() -> None:
    verdict = Verdict("a", "b", difference=0.1, error=0.02, df=19, splits=5)
    difference, p, detectable, comparisons, better = describe_test(verdict, 100)
    assert (difference, p, comparisons, better) == (10, verdict.p, 1, "higher") and detectable > 0
    for undecided in (Undecided.ONE_TRAINING, Undecided.ONE_SEED):
        one = describe_test(replace(verdict, undecided=undecided), 100)
        assert one[0] == 10 and np.isnan(one[1:4]).all() and one[4] == ""


def test_a_table_that_no_paper_printed_is_what_is_measured(context: Context) -> None:
    measured = pd.DataFrame({"a": [1]})
    assert Table("extra", "More.", None, lambda context: measured).make(context).equals(measured)


def test_a_figure_without_data_says_what_is_missing(context: Context) -> None:
    says = "No model of <b> is trained yet & none is evaluated.\nTo train one: traube train wwm blurbs_s2s"
    drawing = Figure("figure_1", "A figure.", lambda context: None, says).make(context)
    assert "traube train wwm blurbs_s2s" in drawing.content
    assert "&lt;b&gt;" in drawing.content
    assert drawing.facts == {"missing": says}
    drawn = Drawing("<p>", {"models": 2})
    assert Figure("figure_1", "A figure.", lambda context: drawn, says).make(context) == drawn


def test_every_figure_of_a_new_home_is_a_file_that_can_be_opened(context: Context) -> None:
    for paper in papers().values():
        for figure in paper.figures:
            content = figure.make(context).content
            assert "traube " in content  # what to run
            assert content.lower().startswith("<!doctype html>")


@pytest.mark.slow
def test_every_table_of_a_new_home_is_as_printed(context: Context) -> None:
    for paper in papers().values():
        for table in paper.tables:
            rows = table.make(context)
            if table.published is None:
                assert rows.empty
            else:
                assert rows["measured"].isna().all() or table.name == "table_2"  # of qrels, where they are there
                assert rows["published"].notna().sum() == table.published()["published"].notna().sum()
                assert table.shown(rows).empty == rows["measured"].isna().all()


def test_a_paper_may_have_nothing_but_a_reference() -> None:
    assert Paper("Toy").tables == ()
