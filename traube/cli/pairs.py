"""`traube pairs`: models as measures of similarity; `traube choose`: the answer a language model prefers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from traube.cli.options import Json, Models
from traube.cli.printing import bars, escape, out, print_json, print_table, print_unavailable, shown_number
from traube.core import paths
from traube.core.errors import Unavailable

app = typer.Typer()


@app.command()
def pairs(
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="A pair task; repeat for more. Without one, they are listed."),
    ] = None,
    model: Models = None,
    part: Annotated[str, typer.Option(help="Which pairs: test, validation or train.")] = "test",
    comparison: Annotated[
        str | None,
        typer.Option(help="How vectors are compared: cosine, euclidean or dot. Default: cosine, or the model's own."),
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Also by domain, number of turns and the like.")] = False,
    as_json: Json = False,
) -> None:
    """Compare models' similarities with gold scores of pairs of texts.

    traube pairs -t stsb_de -m minilm -m tfidf -m lsa

    Pearson's r and Spearman's rho with 95 % intervals, from a bootstrap over
    dialogues (or over pairs, where there are no dialogues); of fewer than
    six there is none. Pairs with a history are scored without it and with it joined to both texts. What was
    computed before is not computed again.
    A table of your own needs a card with the key `pairs`; see cards/README.md.
    """
    from traube.pipeline.params import load_params
    from traube.tasks import PAIRS, get_source, sources

    if not task:
        for name, source in sources(PAIRS).items():
            reason = source.missing()
            missing = f" [yellow]missing:[/] {escape(reason)}" if reason else ""
            out.print(f"[bold]{name}[/]: {escape(source.card.description)}{missing}")
        return
    named = list(model or load_params().models)
    rows: list[dict[str, Any]] = []
    for name in task:
        source = get_source(name, PAIRS)
        source.fetch()
        rows += _rows(source.load(), named, part, comparison, groups)
    if as_json:
        print_json(rows)
        return
    histories = any(row["history"] for row in rows)
    print_table([_in_words(row, groups, histories) for row in rows], optional=("comparison", "pairs"))


def _rows(task: Any, models: list[str], part: str, comparison: Any, groups: bool) -> Iterator[dict[str, Any]]:
    from traube.models import load_model
    from traube.pipeline.evaluate import score_missing
    from traube.pipeline.executors import make_executor
    from traube.pipeline.pairs import choose_comparison, make_pair_cells
    from traube.pipeline.workbench import Given, Workbench
    from traube.tasks.scored_pairs import ALL
    from traube.tasks.stored import Manifest

    with make_executor() as executor, bars() as (progress, _):
        workbench = replace(Workbench.at(paths.home(), executor), given={task.name: Given(task)})
        manifest = Manifest.of(task)
        for name in models:
            model = load_model(name)
            try:
                model.fetch()
            except Unavailable as error:
                if len(models) == 1:
                    raise
                print_unavailable({name: str(error)})
                continue
            cells = make_pair_cells(manifest, model, [comparison or choose_comparison(model)], part)
            table = score_missing(cells, model, workbench, progress)
            yield from (table if groups else table[table["group"] == ALL]).to_dict("records")


@app.command()
def choose(
    model: Annotated[
        str, typer.Argument(help="A causal language model: a Hugging Face id or a folder.", show_default=False)
    ],
    task: Annotated[str, typer.Option("--task", "-t", help="A pair task of dialogues.")] = "giccs",
    as_json: Json = False,
) -> None:
    """Let a language model choose the candidate most similar to a dialogue's last turn.

    traube choose ai-forever/mGPT --task giccs

    The prompt shows the dialogue, or its last turn alone, and the candidates;
    the answer is the candidate that is likeliest after it: by the sum of its
    tokens' log probabilities, as in the paper, which likes short answers;
    per token; per byte; or less what it has without any dialogue (pmi).
    Chance is what guessing gives: a model below it has learned nothing here.
    """
    from traube.models.likelihood import CausalModel
    from traube.pipeline.multiple_choice import choose as chosen
    from traube.pipeline.multiple_choice import list_questions, save_choices
    from traube.storage import open_storage
    from traube.tasks import load_pairs
    from traube.tasks.scored_pairs import select_pairs

    pairs = load_pairs(task)
    tested = select_pairs(pairs, "test")
    list_questions(tested)  # a task without dialogues is an error at once
    with bars() as (progress, _):
        causal = CausalModel.load(model)
        table = chosen(tested, causal, progress)
    save_choices(open_storage(paths.home()), pairs, model, causal.fingerprint, table)
    rows = table.to_dict("records")
    if as_json:
        print_json(rows)
        return
    lines = [
        {
            "turns": str(row["n_turns"]),
            "dialogue": "whole" if row["context"] else "last turn",
            "score": row["score"],
            "accuracy": f"{shown_number(row['accuracy'])} ± {shown_number(row['error'])}",
            "chance": f"{row['chance']:.3f}",
            "questions": str(row["questions"]),
        }
        for row in rows
    ]
    print_table(lines)


def _in_words(row: dict[str, Any], groups: bool, histories: bool) -> dict[str, str]:
    shown = {key: str(row[key]) for key in ("task", "model", "comparison")}
    if histories:
        shown["history"] = "joined" if row["history"] else ""
    if groups:
        shown["of"] = f"{row['group']} {row['value']}".strip()
    shown["pairs"] = str(row["pairs"])
    for kind in ("pearson", "spearman"):
        low, high = (shown_number(row[f"{kind}_{end}"], 2).replace("0.", ".") for end in ("low", "high"))
        shown[kind] = shown_number(row[kind]) + ("" if low == "-" else f" [{low}, {high}]")
    return shown
