"""`traube annotate`: best-worst scaling by volunteers, from items to scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube._cli.given import make_format
from traube._cli.options import MOST_SEED, Encoding, Json, NoHeader, Quote, Separator, Sheet
from traube._cli.printing import err, escape, format_number, out, pluralize, print_json, print_notes, print_table
from traube._core.errors import Invalid, unknown
from traube._core.escaping import format_csv
from traube._core.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from traube.papers.giccs.agreement import Floats, Judgments, Scoring

DESIGN = "design.csv"
SHOWN = 10  # faulty rows that are printed; all of them are written to a file

app = typer.Typer()
_annotate = typer.Typer(
    no_args_is_help=True,
    help="Score items by best-worst scaling: forms for annotators, and scores from their answers.\n\n"
    "Examples\n--------\ntraube annotate design utterances.csv\ntraube annotate score answers/*.csv\n\n"
    "Annotators see a few items at a time and name the best and the worst. That is easier than giving each a number, "
    "and the scores are more reliable.",
)
app.add_typer(_annotate, name="annotate", rich_help_panel="Pairs and annotation")
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Random seed.")]

ItemTable = Annotated[
    Path, typer.Argument(help="Table with columns item and text, perhaps group and context.", show_default=False)
]
Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]
Size = Annotated[int, typer.Option(min=2, help="Number of items that are judged at once.")]
PerItem = Annotated[float, typer.Option(help="Tuples drawn for each item; 1.5 to 2 are enough.")]
Annotators = Annotated[int, typer.Option("--annotators", "-n", min=1, help="Number of annotators.")]
Each = Annotated[int | None, typer.Option(min=1, help="Annotators of each tuple. Default: all.")]
Language = Annotated[str, typer.Option(help="Language of the forms: en or de.")]
BestWord = Annotated[str | None, typer.Option("--best", help="Wording of the best, as the form asks.")]
WorstWord = Annotated[str | None, typer.Option("--worst", help="Wording of the worst.")]
Title = Annotated[str | None, typer.Option(help="Title of the forms.")]
Instructions = Annotated[str | None, typer.Option(help="Instructions that the forms show.")]

Answers = Annotated[
    list[Path],
    typer.Argument(help="Files that annotators saved: csv, tsv, jsonl, xlsx or parquet.", show_default=False),
]
Design = Annotated[Path | None, typer.Option(help=f"The {DESIGN} of the tuples; others are refused.")]
Items = Annotated[Path | None, typer.Option(help="Table of the items, whose columns --by may name.")]
By = Annotated[list[str] | None, typer.Option(help="Column of --items: agreement within each of its values.")]
Expert = Annotated[Path | None, typer.Option(help="Table item, above: is the score above 0.5 (yes, no)?")]
ColumnNames = Annotated[
    str | None, typer.Option("--columns", help="Names of columns: best=...,worst=...,annotator=...,items=a+b+c+d")
]
Repetitions = Annotated[int, typer.Option(min=1, help="Number of random split halves.")]
Curve = Annotated[bool, typer.Option("--curve", help="Add the reliability of 1, 2, 4, ... annotators.")]
SpearmanBrown = Annotated[
    bool, typer.Option("--spearman-brown", help="Correct split halves to the whole size: 2r / (1 + r).")
]
Value = Annotated[bool, typer.Option("--value", help="Add value scoring (Hollis) and its split halves.")]
ScoresFile = Annotated[Path, typer.Option("--output", "-o", help="CSV file of scores to write.")]


@_annotate.command()
def design(
    items: ItemTable,
    output: Folder = Path("annotation"),
    size: Size = 4,
    per_item: PerItem = 2.0,
    annotators: Annotators = 5,
    each: Each = None,
    language: Language = "en",
    best: BestWord = None,
    worst: WorstWord = None,
    title: Title = None,
    instructions: Instructions = None,
    separator: Separator = None,
    quote: Quote = None,
    no_header: NoHeader = False,
    encoding: Encoding = None,
    sheet: Sheet = None,
    seed: Seed = 42,
) -> None:
    """Draw tuples of items, and write a form for each annotator.

    Examples
    --------
    traube annotate design utterances.csv
    traube annotate design utterances.csv --size 3 -n 5 --language de

    Each annotator gets an .html form that needs no network, and the same as a .csv. With a
    column group, only items of the same group meet.
    """
    import pandas as pd

    from traube.papers.giccs.annotation_sheets import (
        WORDINGS,
        draw_designs,
        format_sheet,
        make_sheets,
        read_items,
        sheet_form,
    )

    if language not in WORDINGS:
        raise unknown("language", language, WORDINGS)
    given = {"best": best, "worst": worst, "title": title, "instructions": instructions}
    wording = WORDINGS[language] | {name: text for name, text in given.items() if text is not None}
    known = read_items(items, make_format(separator, quote, no_header, encoding, sheet))
    tuples = draw_designs(known, size, per_item, seed=seed)
    columns = [f"item_{i + 1}" for i in range(size)]
    write_text(output / DESIGN, format_csv(pd.DataFrame(tuples, columns=columns)))
    for annotator_sheet in make_sheets(tuples, annotators, each, seed=seed):
        write_text(output / f"{annotator_sheet.annotator}.html", sheet_form(annotator_sheet, known, wording))
        write_text(output / f"{annotator_sheet.annotator}.csv", format_sheet(annotator_sheet, known))
    if best is None and not any(item.context for item in known.values()):
        err.print(
            "[yellow]no item has a context:[/] the forms ask which text is most similar, and to what is left open; "
            "--best, --worst and --instructions say what you ask"
        )
    judged = len(tuples) * (each or annotators)
    out.print(
        f"{pluralize(len(tuples), 'tuple')} of {size} of {pluralize(len(known), 'item')}, "
        f"{pluralize(judged, 'judgment')} by {pluralize(annotators, 'annotator')}: written to {escape(str(output))}"
    )


@_annotate.command()
def score(
    files: Answers,
    design: Design = None,
    items: Items = None,
    by: By = None,
    expert: Expert = None,
    columns: ColumnNames = None,
    repetitions: Repetitions = 100,
    curve: Curve = False,
    spearman_brown: SpearmanBrown = False,
    value: Value = False,
    separator: Separator = None,
    quote: Quote = None,
    no_header: NoHeader = False,
    encoding: Encoding = None,
    sheet: Sheet = None,
    output: ScoresFile = Path("scores.csv"),
    seed: Seed = 42,
    as_json: Json = False,
) -> None:
    """Score the items, and report the agreement of the annotators.

    Examples
    --------
    traube annotate score answers/*.csv
    traube annotate score answers/*.csv --design annotation/design.csv --curve

    Rows that cannot be used are listed, and the rest counts. docs/how-to/annotation.md explains
    the columns.
    """
    from traube.papers.giccs.agreement import counting_scores
    from traube.papers.giccs.best_worst import read_design, read_judgments, scores_table

    form = make_format(separator, quote, no_header, encoding, sheet)
    answers = read_judgments(files, _parse_columns(columns), None if design is None else read_design(design), form)
    judged = answers.judgments
    _print_faults(answers.faults, output)

    scorings: dict[str, Scoring] = {"": counting_scores}
    values = None
    if value:
        from traube.papers.giccs.value_scoring import value_scores

        scorings["value_"] = value_scores
        values = value_scores(judged)
    table = scores_table(judged, counting_scores(judged), values)
    write_text(output, format_csv(table))
    halving = Halving(repetitions, seed, spearman_brown, scorings)
    rows = [_measure_reliability("all", judged, halving)]
    for column in by or ():
        rows += _measure_groups(judged, items, column, halving)
    halves = _measure_curve(judged, halving) if curve else []
    known = None if expert is None else _compare_with_expert(expert, table)

    if as_json:
        wrong = [] if known is None else known[known["contradicted"]][["item", "score", "expert"]].to_dict("records")
        print_json({"reliability": rows, "curve": halves, "expert": wrong, "faults": list(answers.faults)})
        return
    _print_reliability(rows, halves)
    if known is not None:
        _print_expert(known)
    out.print(f"{pluralize(len(judged), 'judgment')}; scores written to {escape(str(output))}")


def _print_faults(faults: Sequence[str], output: Path) -> None:
    """Print the first rows that cannot be used; if there are more, write all to a file beside the output."""
    print_notes(faults[:SHOWN], "left out")
    if len(faults) > SHOWN:
        path = output.with_name(f"{output.stem}.faults.txt")
        write_text(path, "\n".join(faults) + "\n")
        err.print(f"[yellow]left out:[/] {len(faults) - SHOWN} more rows, all in {escape(str(path))}")


def _compare_with_expert(expert: Path, table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the scores of items that the expert judged, with the judgment and whether it contradicts the score."""
    from traube.papers.giccs.agreement import find_contradicted
    from traube.papers.giccs.best_worst import read_expert

    above = read_expert(expert)
    known = table.loc[table["item"].isin(list(above)), ["item", "score"]]
    is_above = [above[item] for item in known["item"]]
    words = ["above 0.5" if up else "below 0.5" for up in is_above]
    return known.assign(expert=words, contradicted=find_contradicted(known["score"], is_above))


def _print_reliability(rows: list[dict[str, Any]], halves: list[dict[str, Any]]) -> None:
    """Print how far annotators agree, and the split halves of few annotators."""
    print_table([_format_row(row) for row in rows], optional=("tuples", "items", "people"))
    if rows[0]["alpha"] is None:
        out.print("[dim]alpha and strong agreement need tuples that several annotators judged; there are none[/]")
    out.print(
        f"compliance: annotators order {rows[0]['compliance']:.1%} of their pairs as the scores do, "
        f"the least compliant {rows[0]['compliance_min']:.1%}"
    )
    if halves:
        cells = [{"annotators": row["annotators"], **_format_halves(row)} for row in halves]
        print_table(cells, title="Split half, by annotators of each half")


def _print_expert(known: "pd.DataFrame") -> None:
    contradicted = known[known["contradicted"]]
    items = pluralize(len(known), "item")
    out.print(f"the expert judged {items} that have scores, and contradicts {len(contradicted)}")
    for row in contradicted.itertuples(index=False):
        out.print(f"the expert contradicts {escape(row.item)}: {row.score:.3f}, not {row.expert}")


def _parse_columns(text: str | None) -> Any:
    """Parse the names of columns from `best=...,items=a+b`."""
    from traube.papers.giccs.best_worst import Columns

    given: dict[str, Any] = {}
    for part in (text or "").split(",") if text else []:
        key, separator, value = part.partition("=")
        if not separator or key not in ("best", "worst", "annotator", "items"):
            raise Invalid(
                f"--columns: '{part}': expected best=, worst=, annotator= or items=a+b+c, with commas between"
            )
        given[key] = tuple(value.split("+")) if key == "items" else (value or None)
    return Columns(**given)


@dataclass(frozen=True)
class Halving:
    """The way split halves are drawn, scored and corrected.

    The keys of `scorings` are prefixes of the names of their results.
    """

    repetitions: int
    seed: int
    brown: bool
    scorings: Mapping[str, "Scoring"]

    def correlate(self, split: Callable[["Scoring"], "Floats"]) -> dict[str, float | None]:
        """Return mean and standard deviation of the split-half correlations that `split` computes, for each scoring."""
        from traube.papers.giccs.agreement import spearman_brown, summarize

        correlations: dict[str, float | None] = {}
        for prefix, scoring in self.scorings.items():
            mean, deviation = summarize(split(scoring))
            corrected = float(spearman_brown(mean)) if self.brown else mean
            correlations[f"{prefix}split_half"] = None if isnan(corrected) else corrected
            correlations[f"{prefix}split_half_sd"] = None if self.brown or isnan(deviation) else deviation
        return correlations


def _measure_reliability(name: str, judged: "Judgments", halving: Halving) -> dict[str, Any]:
    from traube.papers.giccs.agreement import reliability, split_half

    measures = vars(reliability(judged, repetitions=0))  # halves are drawn below
    known = {key: None if value != value else value for key, value in measures.items()}  # JSON has no NaN
    halves = halving.correlate(lambda scoring: split_half(judged, halving.repetitions, halving.seed, scoring))
    return {"group": name, **known, **halves}


def _measure_groups(judged: "Judgments", items: Path | None, column: str, halving: Halving) -> list[dict[str, Any]]:
    import numpy as np

    from traube.papers.giccs.best_worst import read_ids
    from traube.tasks.reading import read_rows

    if items is None:
        raise Invalid(f"--by {column}: give the items' table too: --items FILE")
    table = read_rows(items)
    ids, column_values = (read_ids(table, name) for name in ("item", column))
    value_of = dict(zip(ids, column_values, strict=True))
    values = np.array([value_of.get(item, "") for item in judged.items])
    groups = [(value, judged.select_items(values == value)) for value in dict.fromkeys(column_values)]
    left = len(judged) - sum(len(group_judgments) for _, group_judgments in groups)
    if left:
        err.print(
            f"[yellow]--by {escape(column)}:[/] {pluralize(left, 'judgment')} of tuples whose items have several values of it, "
            f"or are not in {escape(str(items))}, are in no group"
        )
    return [
        _measure_reliability(f"{column} {value}", group_judgments, halving)
        for value, group_judgments in groups
        if len(group_judgments)
    ]


def _measure_curve(judged: "Judgments", halving: Halving) -> list[dict[str, Any]]:
    """Return split-half reliability for 1, 2, 4, ... annotators, and for half of all."""
    import numpy as np

    from traube.papers.giccs.agreement import split_half_of_annotators

    half = len(np.unique(judged.annotators)) // 2
    sizes = [2**i for i in range(half.bit_length()) if 2**i < half]
    rows = []
    for size in [*sizes, half] if half else []:
        draw = partial(split_half_of_annotators, judged, size, halving.repetitions, halving.seed)
        correlations = halving.correlate(draw)
        if correlations["split_half"] is not None:  # halves without an item in common tell nothing
            rows.append({"annotators": size, **correlations})
    return rows


def _format_row(row: dict[str, Any]) -> dict[str, str]:
    return {
        "of": row["group"],
        "items": str(row["items"]),
        "tuples": str(row["tuples"]),
        "people": str(row["annotators"]),
        "judged": str(row["judgments"]),
        "alpha": format_number(row["alpha"]),
        "strong (best/worst)": f"{format_number(row['strong_best'])} / {format_number(row['strong_worst'])}",
        **_format_halves(row),
    }


def _format_halves(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of split halves, and of value scoring too if that was requested."""
    cells = {}
    for prefix, title in (("", "split half"), ("value_", "split half (value)")):
        if f"{prefix}split_half" in row:
            sd = row[f"{prefix}split_half_sd"]
            cells[title] = format_number(row[f"{prefix}split_half"]) + (f" ± {sd:.3f}" if sd is not None else "")
    return cells
