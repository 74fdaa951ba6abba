"""`traube compare`: is one model really better than another?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube.cli.options import Json, ProtocolName, Tasks
from traube.cli.printing import err, escape, out, print_json

if TYPE_CHECKING:
    from traube.comparison.standings import Comparison

app = typer.Typer()


@app.command()
def compare(
    a: Annotated[
        str, typer.Argument(help="A model, or a model and a method: minilm:umap/hdbscan.", show_default=False)
    ],
    b: Annotated[str, typer.Argument(help="The model to compare it with, in the same form.", show_default=False)],
    task: Tasks = None,
    protocol: ProtocolName = None,
    metric: Annotated[
        str | None, typer.Option(help="A metric, like ari or acc/noise_dropped. Default: each task's main one.")
    ] = None,
    own_choice: Annotated[
        bool, typer.Option("--own-choice", help="Also use methods and seeds that are not part of the protocol.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Test whether model A is better than model B.

    Without a method, each model's best one on the task is used: the verdict is
    that of the task's leaderboard, whose pairs of models are compared together.
    With methods, the tasks are compared together. The test takes into account
    that splits share texts. On a task with a single split, the test needs two
    seeds or more: in the protocol (`seeds` in params.yaml), or from
    `traube run --seed` for both models, and --own-choice here.
    """
    from traube.comparison.standings import compare_on
    from traube.core import paths
    from traube.metrics import full_name
    from traube.pipeline.params import load_params
    from traube.storage import open_storage

    params = load_params()
    name = protocol or params.protocol_for(task)
    storage = open_storage(paths.home())
    comparisons, left_out = compare_on(
        storage, task or params.tasks, name, params.chosen(name), a, b, metric and full_name(metric), own_choice
    )
    for task_name, reason in left_out.items():
        err.print(f"[yellow]left out:[/] {escape(task_name)}: {escape(reason)}")
    if as_json:
        print_json([_row(comparison) for comparison in comparisons])
        return
    for comparison in comparisons:
        _print_comparison(comparison)
    out.print(f"[dim]scores x100; p two-sided, corrected for the number of comparisons; protocol {name}[/]")


def _row(comparison: "Comparison") -> dict[str, Any]:
    sides = {
        side: {"model": c.model, "method": c.method, "fingerprint": c.fingerprint, "mean": c.mean, "cells": c.cells}
        for side, c in (("a", comparison.a), ("b", comparison.b))
    }
    return {
        "task": comparison.a.task,
        "metric": comparison.a.metric,
        "verdict": comparison.verdict.record(),
        **sides,
    }


def _print_comparison(comparison: "Comparison") -> None:
    from traube.comparison.promotion import more_seeds
    from traube.comparison.verdict import Undecided

    a, b, verdict = comparison.a, comparison.b, comparison.verdict
    out.print(f"[bold]{a.task}[/], {a.metric}: [bold]{escape(verdict.answer)}[/]")
    width = max(len(a.name), len(b.name))
    for side, candidate in (("A", a), ("B", b)):
        out.print(f"  {side}      {candidate.name:<{width}}  {100 * candidate.mean:6.2f}", highlight=False)
    if verdict.evidence:
        out.print(f"  A - B  {verdict.evidence}", highlight=False)
        out.print(f"         [dim]{verdict.test}, {verdict.splits} splits[/]")
    if verdict.undecided is Undecided.ONE_SEED:
        out.print(f"  [dim]{more_seeds(a.protocol)}[/]")
