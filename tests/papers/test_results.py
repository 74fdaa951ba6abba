"""The results page is what was written of the papers' tables, and leaves no empty cell without a reason."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.errors import refused
from traube._cli.main import app
from traube._core import paths
from traube._core.errors import Invalid
from traube._reports.papers import Context, Figure, Paper, Table, papers, results
from traube._reports.papers.claims import Claim, Evidence, Holds
from traube._reports.papers.spec import format_table, locate_table, write_table

RUNNER = CliRunner()


def printed() -> pd.DataFrame:
    rows = [("a", "x", 1.5, ""), ("a", "y", 2.0, "printed wrong: 3 is right"), ("b", "x", 4.0, "")]
    return pd.DataFrame(rows, columns=["model", "task", "published", "note"])


def measured(context: Context) -> pd.DataFrame:
    return pd.DataFrame({"model": ["a", "c"], "task": ["x", "y"], "measured": [1.25, 7.0]})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """The one table of the one paper that there is, and what the paper does not have is not on the page."""
    made = Table("table_1", "V-measure.", printed, measured, absent="no weights")
    more = Table("more", "Of our own.", None, measured)
    card = Table("card", "Printed by others.", printed, measured, is_of_paper=False)  # not counted as the paper's
    tables = (made, more, card)
    monkeypatch.setattr(results, "papers", lambda: {"toy": Paper(reference="wehrli2023german", tables=tables)})
    return made


def test_what_was_written_stands_on_the_page_with_reasons(context: Context, table: Table, tmp_path: Path) -> None:
    assert "## Table 1\n\nV-measure.\n\nNot written yet" in results.results_page(context.storage)
    write_table(context.storage.folder, "toy", table, context)
    page = results.results_page(context.storage)
    assert "# Wehrli et al., German Text Embedding Clustering Benchmark (2023)" in page
    assert "| toy | 3 | 1 | 0 |" in page  # printed, like with like, otherwise
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert lines[-2:] == ["| a | 1.25 (1.5) | (2) | yes | yes |", "| c (our row) |  | 7 | yes | yes |"]
    assert "- b / x: no weights\n" in page and "- a / y: no weights; printed wrong: 3 is right\n" in page
    assert "More" not in page
    shown = RUNNER.invoke(app, ["papers"])
    result = RUNNER.invoke(app, ["papers", "--output", str(tmp_path / "results.md")])
    assert (shown.output, result.exit_code) == (page, 0)
    first, paper = (tmp_path / "results.md").read_text("utf-8"), (tmp_path / "results" / "toy.md").read_text("utf-8")
    assert "| [toy](results/toy.md) | 3 | 1 | 0 |" in first and paper in page


def test_a_table_of_one_metric_says_what_tests_find(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def scored(context: Context) -> pd.DataFrame:
        return measured(context).assign(detectable=[0.5, None])

    table = Table("table_1", "V-measure.", printed, scored)
    monkeypatch.setattr(results, "papers", lambda: {"toy": Paper(reference="wehrli2023german", tables=(table,))})
    write_table(context.storage.folder, "toy", table, context)
    assert "- Tests find: x 0.5.\n" in results.results_page(context.storage)


def test_a_page_says_what_tests_find_by_shown_metrics(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [("a", "acc", 3.5), ("b", "acc", 12.0), ("a", "hidden", 99.0), ("c", "acc", None)]

    def scored(context: Context) -> pd.DataFrame:
        return pd.DataFrame(sizes, columns=["model", "metric", "detectable"]).assign(measured=50.0)

    def printed() -> pd.DataFrame:
        return pd.DataFrame([("a", "acc", 49.0)], columns=["model", "metric", "published"])

    table = Table("table_1", "Tested.", printed, scored, shown=lambda rows: format_table(rows[rows["metric"] == "acc"]))
    claim = Claim("a beats b", "4.1", lambda _: Evidence(Holds.HOLDS, ["+2.0 points", "of one set"], "x"))
    paper = Paper(reference="wehrli2023german", tables=(table,), claims=(claim,))
    monkeypatch.setattr(results, "papers", lambda: {"toy": paper})
    write_table(context.storage.folder, "toy", table, context)
    page = results.results_page(context.storage)
    assert "- Tests find: ACC 3.5 to 12.\n" in page
    assert (
        "| 1 | a beats b | holds | +2.0 points | toy, 4.1 |" in page and "| 1 | +2.0 points; of one set | x |" in page
    )


def test_a_figure_is_on_the_page_where_there_is_a_picture_of_it(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures = tuple(Figure(f"figure_{n}", f"Curve {n}.", lambda _: None, "") for n in (1, 2))
    monkeypatch.setattr(results, "papers", lambda: {"toy": Paper(reference="wehrli2023german", figures=figures)})
    (tmp_path / "results" / "toy").mkdir(parents=True)
    (tmp_path / "results" / "toy" / "figure_2.png").write_bytes(b"")
    results.write_results(context.storage, tmp_path / "results.md")
    page = (tmp_path / "results" / "toy.md").read_text("utf-8")
    assert "![Figure 2](toy/figure_2.png)" in page and "Curve 1" not in page


def test_what_a_paper_prints_is_as_it_is_known_today(context: Context, table: Table, tmp_path: Path) -> None:
    write_table(context.storage.folder, "toy", table, context)
    results.write_results(context.storage, tmp_path / "results.md")
    locate_table(context.storage.folder, "toy", table).unlink()
    file = tmp_path / "results" / "toy" / "table_1.csv"
    rows = pd.read_csv(file)
    rows["published"] += 1  # a number that was misread
    rows.to_csv(file, index=False)
    results.write_results(context.storage, tmp_path / "results.md")
    assert pd.read_csv(file)["published"].dropna().tolist() == printed()["published"].tolist()


def test_a_number_that_was_measured_in_two_ways_is_printed_once(context: Context, table: Table) -> None:
    twice = pd.DataFrame({"model": "a", "task": "x", "recipe": ["0", "1"], "measured": [1.25, 1.5]})
    write_table(context.storage.folder, "toy", replace(table, measure=lambda _: twice), context)
    assert "| toy | 3 | 1 | 0 |" in results.results_page(context.storage)


def test_what_another_data_directory_measured_stays_there(context: Context, table: Table, tmp_path: Path) -> None:
    page, folder = tmp_path / "results.md", context.storage.folder
    write_table(folder, "toy", table, context)
    results.write_results(context.storage, page)
    first = page.read_text("utf-8")

    locate_table(folder, "toy", table).unlink()  # no cell of this paper was requested
    results.write_results(context.storage, page)
    assert page.read_text("utf-8") == first

    nothing = replace(table, measure=lambda _: measured(context).iloc[:0])
    write_table(folder, "toy", nothing, context)
    results.write_results(context.storage, page)
    assert page.read_text("utf-8") == first

    other = replace(table, measure=lambda _: measured(context).assign(measured=[1.5, 8.0], task=["x", "z"]))
    write_table(folder, "toy", other, context)
    results.write_results(context.storage, page)
    rows = pd.read_csv(tmp_path / "results" / "toy" / "table_1.csv")
    measured_rows = rows.loc[rows["measured"].notna(), ["model", "task", "measured"]]
    assert measured_rows.values.tolist() == [["a", "x", 1.5], ["c", "y", 7.0], ["c", "z", 8.0]]
    assert "| [toy](results/toy.md) | 3 | 1 | 0 |" in page.read_text("utf-8")


def test_a_kept_number_stands_beside_what_is_printed_today_and_each_encoder_has_its_own(tmp_path: Path) -> None:
    def written(name: str, *rows: tuple[object, ...]) -> pd.DataFrame:
        columns = ["n", "metric", "published", "base", "recipe", "measured", "note", results.WHEN]
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / name, index=False)
        return results._read(tmp_path / name)

    before = written(
        "before",
        (10, "ri", 0.5, "minilm", "012345", 0.75, "", "2026-01-01, cuda"),
        (10, "ri", 0.5, "e5", "123456", 0.8, "", "2026-01-01, cuda"),
        (10, "ari", 0.25, None, None, None, "not measured here", None),
    )
    now = written(
        "now",
        (10, "ri", 0.6, "minilm", "012345", 0.75, "", "2026-02-02, cpu"),
        (10, "ari", 0.25, "minilm", "012345", 0.3, "", "2026-02-02, cpu"),
        (None, "ri", 0.7, None, None, None, "not measured here", None),  # which makes a fraction of n
    )
    merged = results._merge_kept(now, before)
    assert results._merge_kept(merged, before).equals(merged)
    assert results._merge_kept(now, pd.concat([before, before])).equals(merged)
    shown = merged[["metric", "published", "recipe", "measured", results.WHEN]].astype(object)
    assert shown.where(shown.notna(), None).values.tolist() == [
        ["ri", 0.6, "012345", 0.75, "2026-01-01, cuda"],  # the same number: measured then
        ["ari", 0.25, "012345", 0.3, "2026-02-02, cpu"],
        ["ri", 0.6, "123456", 0.8, "2026-01-01, cuda"],
        ["ri", 0.7, None, None, None],
    ]


def test_a_verdict_stays_with_a_number_that_is_the_same_where_its_rival_is_absent(tmp_path: Path) -> None:
    columns = ["method", "published", "measured", "difference", "verdict", results.WHEN]

    def written(*rows: tuple[object, ...]) -> pd.DataFrame:
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "rows.csv", index=False)
        return results._read(tmp_path / "rows.csv")

    before = written(("tfidf", 0.5, 0.25, -0.3, "lower", "2026-01-01"), ("lsa", 0.5, 0.5, -0.1, "lower", "2026-01-01"))
    now = written(("tfidf", 0.5, 0.25, None, None, "2026-02-02"), ("lsa", 0.5, 0.6, None, None, "2026-02-02"))
    merged = results._merge_kept(now, before).astype(object)
    assert merged.where(merged.notna(), None)[columns].values.tolist() == [
        ["tfidf", 0.5, 0.25, -0.3, "lower", "2026-01-01"],
        ["lsa", 0.5, 0.6, None, None, "2026-02-02"],  # another number, of which the verdict was not
    ]


def test_a_test_of_today_is_no_higher_because_another_one_was(tmp_path: Path) -> None:
    """With more rivals in the family the same number is not significantly better any more."""
    columns = ["method", "published", "measured", "difference", "p", "comparisons", "verdict", results.WHEN]

    def written(*row: object) -> pd.DataFrame:
        pd.DataFrame([row], columns=columns).to_csv(tmp_path / "rows.csv", index=False)
        return results._read(tmp_path / "rows.csv")

    before = written("gsdmm", None, 0.5, 0.1, 0.04, 2, "higher", "2026-01-01")
    merged = results._merge_kept(written("gsdmm", None, 0.5, 0.1, 0.06, 3, None, "2026-02-02"), before)
    assert merged["p"].tolist() == [0.06] and merged["verdict"].isna().all()


def test_no_stored_verdict_contradicts_its_p() -> None:
    tables = {path: pd.read_csv(path) for path in (paths.PROJECT / "docs" / "results").glob("*/*.csv")}
    tested = {path: rows.dropna(subset="p") for path, rows in tables.items() if {"p", "verdict"} <= {*rows}}
    assert sum(map(len, tested.values())) > 100
    for path, rows in tested.items():
        assert (rows["verdict"].isin(["higher", "lower"]) == (rows["p"] < 0.05)).all(), path


def test_notes_name_their_numbers_where_they_are_few() -> None:
    rows = pd.DataFrame(
        [
            ("a", 30.0, 0.5, "many"),
            ("a", 35.0, 0.5, "many"),
            ("a", None, 0.5, "many"),
            ("b", 30.0, None, "a recipe"),
            ("c", None, 0.5, "no n"),
        ],
        columns=["method", "n", "published", "note"],
    )
    assert results._list_notes(rows) == ["- 3 numbers: many", "- b / 30: a recipe", "- c: no n"]


def test_a_page_that_would_lie_where_its_rows_do_is_refused(context: Context, tmp_path: Path) -> None:
    with refused(Invalid, ".md"):
        results.write_results(context.storage, tmp_path / "results")


def test_the_page_that_comes_with_traube_has_every_table() -> None:
    for name, paper in papers().items():
        page = (paths.PROJECT / "docs" / "results" / f"{name}.md").read_text("utf-8")
        for table in paper.tables:
            assert table.published is None or f"\n{table.description}\n" in page
        assert "Not written yet" not in page


def test_a_kept_number_keeps_its_last_digit(context: Context, table: Table, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    write_table(context.storage.folder, "toy", table, context)
    results.write_results(context.storage, page)
    file = tmp_path / "results" / "toy" / f"{table.name}.csv"
    kept = file.read_text("utf-8").replace("1.25", "34.449999999999996")  # pandas' fast parser reads 34.45
    file.write_text(kept, "utf-8")
    locate_table(context.storage.folder, "toy", table).unlink()
    results.write_results(context.storage, page)
    assert file.read_text("utf-8") == kept


def test_each_printed_number_that_is_not_measured_says_why() -> None:
    for file in sorted((paths.PROJECT / "docs" / "results").glob("*/*.csv")):
        rows = results._read(file)
        empty = rows[rows["published"].notna() & rows["measured"].isna()]
        assert empty["note"].notna().all(), file
