"""`traube multiple-choice`: the answer a language model prefers."""

from typing import Annotated

import typer

from traube._cli.options import Json
from traube._cli.printing import format_number, print_json, print_table, show_progress
from traube._core import paths

app = typer.Typer()


@app.command(rich_help_panel="Pairs and annotation")
def multiple_choice(
    model: Annotated[str, typer.Argument(help="Causal language model: Hugging Face id or folder.", show_default=False)],
    task: Annotated[str, typer.Option("--task", "-t", help="Pair task of dialogues.")] = "giccs",
    as_json: Json = False,
) -> None:
    """Let a language model choose the candidate most similar to a dialogue's last turn.

    Examples
    --------
    traube multiple-choice ai-forever/mGPT
    traube multiple-choice ./my_model --task giccs --json

    The answer is the likeliest candidate: by the sum of its tokens' log probabilities, per
    token, per byte, or less what it has without a dialogue (pmi). Chance is what guessing
    gives.
    """
    from traube._storage import open_storage
    from traube.models.causal import CausalModel
    from traube.papers.giccs.multiple_choice import choose, list_questions, save_choices
    from traube.tasks import load_pairs
    from traube.tasks.scored_pairs import select_pairs

    pairs = load_pairs(task)
    tested = select_pairs(pairs, "test")
    list_questions(tested)  # a task without dialogues is an error at once
    with show_progress() as (progress, _):
        causal = CausalModel.load(model)
        table = choose(tested, causal, progress)
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
            "accuracy": f"{format_number(row['accuracy'])} ± {format_number(row['error'])}",
            "chance": f"{row['chance']:.3f}",
            "questions": str(row["questions"]),
        }
        for row in rows
    ]
    print_table(lines)
