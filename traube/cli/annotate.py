"""`traube annotate`: best-worst scaling by volunteers, from items to scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube.cli.options import MOST_SEED, Json
from traube.cli.printing import counted, err, escape, out, print_json, print_notes, print_table, shown_number
from traube.core.errors import TraubeError, unknown
from traube.core.escaping import format_csv
from traube.core.files import write_text

if TYPE_CHECKING:
    from traube.core.arrays import Floats
    from traube.metrics.agreement import Judgments, Scoring

DESIGN = "design.csv"
SHOWN = 10  # faulty rows that are printed; all of them are written to a file

app = typer.Typer()
_annotate = typer.Typer(
    no_args_is_help=True,
    help="Score items by best-worst scaling: `design` writes forms for annotators, `score` reads what they answered.\n\n"
    "Annotators see a few items at a time and name the best and the worst. That is easier than giving each a number, "
    "and the scores are more reliable.",
)
app.add_typer(_annotate, name="annotate")
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The seed of everything random.")]


@_annotate.command("design")
def design_(
    items: Annotated[
        Path,
        typer.Argument(
            help="A table with the columns item (an id) and text, perhaps group (a dialogue, say) and context.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("annotation"),
    size: Annotated[int, typer.Option("--size", min=2, help="How many items are judged at once.")] = 4,
    per_item: Annotated[
        float, typer.Option("--per-item", help="How many tuples are drawn for each item; 1.5 to 2 are enough.")
    ] = 2.0,
    annotators: Annotated[int, typer.Option("--annotators", "-n", min=1, help="How many people judge.")] = 5,
    each: Annotated[
        int | None, typer.Option("--each", min=1, help="How many of them judge each tuple. Default: all.")
    ] = None,
    language: Annotated[str, typer.Option(help="The forms' language: en or de.")] = "en",
    best: Annotated[str | None, typer.Option(help="What the best is, as the form asks it.")] = None,
    worst: Annotated[str | None, typer.Option(help="What the worst is.")] = None,
    title: Annotated[str | None, typer.Option(help="The forms' title.")] = None,
    instructions: Annotated[str | None, typer.Option(help="What the forms tell their readers.")] = None,
    seed: Seed = 42,
) -> None:
    """Draw tuples of items, and write a form for each annotator.

    traube annotate design utterances.csv --size 3 --annotators 5 --language de

    writes annotation/design.csv, and for each annotator an .html form, which
    needs no network: open it in a browser, answer, save. Who likes a
    spreadsheet better fills in the ids of best and worst in the .csv.
    Every item is in as many tuples as any other. With a column `group`,
    only items of the same group meet.
    """
    import pandas as pd

    from traube.reports.rendering import sheet_form
    from traube.tasks.annotation_sheets import WORDINGS, draw_designs, format_sheet, make_sheets, read_items

    if language not in WORDINGS:
        raise unknown("language", language, WORDINGS)
    said = {"best": best, "worst": worst, "title": title, "instructions": instructions}
    wording = WORDINGS[language] | {name: text for name, text in said.items() if text is not None}
    known = read_items(items)
    tuples = draw_designs(known, size, per_item, seed=seed)
    columns = [f"item_{i + 1}" for i in range(size)]
    write_text(output / DESIGN, format_csv(pd.DataFrame(tuples, columns=columns)))
    for sheet in make_sheets(tuples, annotators, each, seed=seed):
        write_text(output / f"{sheet.annotator}.html", sheet_form(sheet, known, wording))
        write_text(output / f"{sheet.annotator}.csv", format_sheet(sheet, known))
    if best is None and not any(item.context for item in known.values()):
        err.print(
            "[yellow]no item has a context:[/] the forms ask which text is most similar, and to what is left open; "
            "--best, --worst and --instructions say what you ask"
        )
    judged = len(tuples) * (each or annotators)
    out.print(
        f"{counted(len(tuples), 'tuple')} of {size} of {counted(len(known), 'item')}, "
        f"{counted(judged, 'judgement')} by {counted(annotators, 'annotator')}: written to {escape(str(output))}"
    )


@_annotate.command()
def score(
    files: Annotated[
        list[Path], typer.Argument(help="What annotators saved: csv, tsv, jsonl or parquet.", show_default=False)
    ],
    design: Annotated[
        Path | None, typer.Option("--design", help=f"The {DESIGN} of the tuples; others are then refused.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="The items' table, whose columns --by may name.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", help="A column of --items: agreement within each of its values.")
    ] = None,
    expert: Annotated[
        Path | None,
        typer.Option(help="A table item, above: whether an expert says that a score is above 0.5 (yes, no)."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Other names of the columns: best=...,worst=...,annotator=...,items=a+b+c+d")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Of the split halves.")] = 100,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also the split-half reliability of 1, 2, 4, ... annotators.")
    ] = False,
    brown: Annotated[
        bool, typer.Option("--spearman-brown", help="Correct split halves to the size of the whole: 2r / (1 + r).")
    ] = False,
    value: Annotated[
        bool, typer.Option("--value", help="Also value scoring (Hollis): its scores and their split halves; slower.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV file of scores to write.")] = Path(
        "scores.csv"
    ),
    seed: Seed = 42,
    as_json: Json = False,
) -> None:
    """Score the items, and say how far the annotators agree.

    traube annotate score answers/*.csv --design annotation/design.csv

    An item's score is the share of its judgements in which it was best, less
    that in which it was worst, moved to 0 to 1. Rows that cannot be used are
    told one by one, and the rest counts.

    alpha is Krippendorff's (1 perfect, 0 chance); strong: the share of tuples
    about which four of five annotators agree; compliance: the share of an
    annotator's pairs of items that are in the order of the scores; split half:
    Spearman's rho between the scores of two random halves of the judgements.
    """
    from traube.metrics.agreement import counting_scores, find_contradicted
    from traube.tasks.best_worst import read_design, read_expert, read_judgments, scores_table

    answers = read_judgments(files, _columns(columns), None if design is None else read_design(design))
    judged = answers.judgments
    print_notes(answers.faults[:SHOWN], "left out")
    if len(answers.faults) > SHOWN:
        path = output.with_name(f"{output.stem}.faults.txt")
        write_text(path, "\n".join(answers.faults) + "\n")
        err.print(f"[yellow]left out:[/] {len(answers.faults) - SHOWN} more rows, all in {escape(str(path))}")

    scorings: dict[str, Scoring] = {"": counting_scores}
    values = None
    if value:
        from traube.tasks.value_scoring import value_scores

        scorings["value_"] = value_scores
        values = value_scores(judged)
    table = scores_table(judged, counting_scores(judged), values)
    write_text(output, format_csv(table))
    halving = Halving(repetitions, seed, brown, scorings)
    rows = [_reliability("all", judged, halving)]
    for column in by or ():
        rows += _within(judged, items, column, halving)
    halves = _curve(judged, halving) if curve else []

    above = {} if expert is None else read_expert(expert)
    known = table.loc[table["item"].isin(list(above)), ["item", "score"]]
    is_above = [above[item] for item in known["item"]]
    known["expert"] = ["above 0.5" if up else "below 0.5" for up in is_above]
    contradicted = known[find_contradicted(known["score"], is_above)].to_dict("records")

    if as_json:
        print_json({"reliability": rows, "curve": halves, "expert": contradicted, "faults": list(answers.faults)})
        return
    print_table([_in_words(row) for row in rows], optional=("tuples", "items", "people"))
    if rows[0]["alpha"] is None:
        out.print("[dim]alpha and strong agreement need tuples that several annotators judged; there are none[/]")
    out.print(
        f"compliance: annotators order {rows[0]['compliance']:.1%} of their pairs as the scores do, "
        f"the least compliant {rows[0]['compliance_min']:.1%}"
    )
    if halves:
        shown = [{"annotators": row["annotators"], **_halves(row)} for row in halves]
        print_table(shown, title="Split half, by annotators of each half")
    if above:
        judged_too = counted(len(known), "item")
        out.print(f"the expert judged {judged_too} that have scores, and contradicts {len(contradicted)}")
    for row in contradicted:
        out.print(f"the expert contradicts {escape(row['item'])}: {row['score']:.3f}, not {row['expert']}")
    out.print(f"{counted(len(judged), 'judgement')}; scores written to {escape(str(output))}")


def _columns(text: str | None) -> Any:
    """Parse the names of columns from `best=...,items=a+b`."""
    from traube.tasks.best_worst import Columns

    given: dict[str, Any] = {}
    for part in (text or "").split(",") if text else []:
        key, found, value = part.partition("=")
        if not found or key not in ("best", "worst", "annotator", "items"):
            raise TraubeError(
                f"--columns: '{part}': expected best=, worst=, annotator= or items=a+b+c, with commas between"
            )
        given[key] = tuple(value.split("+")) if key == "items" else (value or None)
    return Columns(**given)


@dataclass(frozen=True)
class Halving:
    """The way split halves are drawn, scored and corrected.

    Scorings are keyed by what the names of their results begin with.
    """

    repetitions: int
    seed: int
    brown: bool
    scorings: Mapping[str, "Scoring"]

    def correlate(self, split: Callable[["Scoring"], "Floats"]) -> dict[str, float | None]:
        """Return mean and standard deviation of the split halves that a function draws, for each scoring."""
        from traube.metrics.agreement import spearman_brown, summarize

        found: dict[str, float | None] = {}
        for prefix, scoring in self.scorings.items():
            mean, deviation = summarize(split(scoring))
            corrected = float(spearman_brown(mean)) if self.brown else mean
            found[f"{prefix}split_half"] = None if isnan(corrected) else corrected
            found[f"{prefix}split_half_sd"] = None if self.brown or isnan(deviation) else deviation
        return found


def _reliability(name: str, judged: "Judgments", halving: Halving) -> dict[str, Any]:
    from traube.metrics.agreement import reliability, split_half

    found = vars(reliability(judged, repetitions=0))  # halves are drawn below
    known = {key: None if value != value else value for key, value in found.items()}
    halves = halving.correlate(lambda scoring: split_half(judged, halving.repetitions, halving.seed, scoring))
    return {"group": name, **known, **halves}


def _within(judged: "Judgments", items: Path | None, column: str, halving: Halving) -> list[dict[str, Any]]:
    import numpy as np

    from traube.tasks.best_worst import read_ids
    from traube.tasks.reading import read_rows

    if items is None:
        raise TraubeError(f"--by {column}: give the items' table too: --items FILE")
    table = read_rows(items)
    ids, found = (read_ids(table, name) for name in ("item", column))
    value_of = dict(zip(ids, found, strict=True))
    values = np.array([value_of.get(item, "") for item in judged.items])
    groups = [(value, judged.select_items(values == value)) for value in dict.fromkeys(found)]
    left = len(judged) - sum(len(own) for _, own in groups)
    if left:
        err.print(
            f"[yellow]--by {escape(column)}:[/] {counted(left, 'judgement')} of tuples whose items have several values of it, "
            f"or are not in {escape(str(items))}, are in no group"
        )
    return [_reliability(f"{column} {value}", own, halving) for value, own in groups if len(own)]


def _curve(judged: "Judgments", halving: Halving) -> list[dict[str, Any]]:
    """Return split-half reliability for 1, 2, 4, ... annotators, and for half of all."""
    import numpy as np

    from traube.metrics.agreement import split_half_of_annotators

    half = len(np.unique(judged.annotators)) // 2
    sizes = [2**i for i in range(half.bit_length()) if 2**i < half]
    rows = []
    for size in [*sizes, half] if half else []:
        draw = partial(split_half_of_annotators, judged, size, halving.repetitions, halving.seed)
        found = halving.correlate(draw)
        if found["split_half"] is not None:  # halves without an item in common tell nothing
            rows.append({"annotators": size, **found})
    return rows


def _in_words(row: dict[str, Any]) -> dict[str, str]:
    return {
        "of": row["group"],
        "items": str(row["items"]),
        "tuples": str(row["tuples"]),
        "people": str(row["annotators"]),
        "judged": str(row["judgements"]),
        "alpha": shown_number(row["alpha"]),
        "strong (best/worst)": f"{shown_number(row['strong_best'])} / {shown_number(row['strong_worst'])}",
        **_halves(row),
    }


def _halves(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of split halves, and of value scoring too if that was requested."""
    cells = {}
    for prefix, title in (("", "split half"), ("value_", "split half (value)")):
        if f"{prefix}split_half" in row:
            sd = row[f"{prefix}split_half_sd"]
            cells[title] = shown_number(row[f"{prefix}split_half"]) + (f" ± {sd:.3f}" if sd is not None else "")
    return cells
