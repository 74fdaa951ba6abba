"""`traube compare`: is one model really better than another?"""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube.cli.options import Json, ProtocolName, Tasks
from traube.cli.printing import err, escape, out, print_json

if TYPE_CHECKING:
    from traube.comparison.candidates import Comparison

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

    One paired test per task, Holm-corrected over the tasks. Without a method,
    each model's best one on the task is used. The test takes into account
    that splits share texts. On a task with a single split, the test needs two
    seeds or more: in the protocol (`seeds` in params.yaml), or from
    `traube run --seed` for both models, and --own-choice here.
    """
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.metrics import full_name
    from traube.comparison.candidates import compare_on
    from traube.store import Store

    params = load_params()
    name = protocol or params.protocol_for(task)
    store = Store(paths.home() / "store")
    comparisons, left_out = compare_on(
        store, task or params.tasks, name, params.chosen(name), a, b, metric and full_name(metric), own_choice
    )
    for task_name, reason in left_out.items():
        err.print(f"[yellow]left out:[/] {escape(task_name)}: {escape(reason)}")
    level = params.promotion.level
    if as_json:
        print_json([_comparison_row(c, level) for c in comparisons])
        return
    for comparison in comparisons:
        _print_comparison(comparison, level)
    over = f", Holm-corrected over {len(comparisons)} tasks" if len(comparisons) > 1 else ""
    out.print(f"[dim]scores x100; p two-sided{over}; level {level:g}; protocol {name}[/]")


def _comparison_row(comparison: "Comparison", level: float) -> dict[str, Any]:
    from dataclasses import asdict

    sides = {
        side: {"model": c.model, "method": c.method, "fingerprint": c.fingerprint, "mean": c.mean, "cells": c.cells}
        for side, c in (("a", comparison.a), ("b", comparison.b))
    }
    test = asdict(comparison.test) if comparison.test else None
    if test:  # JSON knows no infinity
        test = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in test.items()}
    decided = test and not comparison.reason
    verdict = {"verdict": comparison.verdict(level), "p_holm": comparison.corrected if decided else None}
    return {"task": comparison.a.task, "metric": comparison.a.metric, **verdict, "test": test, **sides}


def _print_comparison(comparison: "Comparison", level: float) -> None:
    c, test = comparison, comparison.test
    out.print(f"[bold]{c.a.task}[/], {c.a.metric}: [bold]{escape(c.verdict(level))}[/]")
    width = max(len(c.a.name), len(c.b.name))
    for side, candidate in (("A", c.a), ("B", c.b)):
        out.print(f"  {side}      {candidate.name:<{width}}  {100 * candidate.mean:6.2f}", highlight=False)
    if test is not None:
        interval = f"95 % interval {100 * test.low:+.2f} to {100 * test.high:+.2f}"
        effect = f", effect {test.effect:.2f}" if math.isfinite(test.effect) else ""
        decided = f", p = {c.corrected:.3g}{effect}" if not c.reason else " by the texts alone"
        out.print(f"  A - B  {100 * test.difference:+.2f}, {interval}{decided}")
        out.print(f"         [dim]{test.name}, n = {test.n}[/]")
