"""`traube compare`: a test of one model against another."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube._cli.given import name_given_side
from traube._cli.options import BothTasks, Details, Json, Metric, ProtocolName
from traube._cli.printing import escape, out, print_json, print_unavailable
from traube._core import paths
from traube._core.errors import Missing, TraubeError

if TYPE_CHECKING:
    from traube._pipeline.params import Params
    from traube._storage import Storage
    from traube.comparison.standings import Comparison

app = typer.Typer()
OwnChoice = Annotated[
    bool, typer.Option("--own-choice", help="Also use methods and seeds that are not part of the protocol.")
]


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="Model, or model and method: minilm:umap/hdbscan.", show_default=False)],
    b: Annotated[str, typer.Argument(help="Model to compare it with, in the same form.", show_default=False)],
    task: BothTasks = None,
    protocol: ProtocolName = None,
    metric: Metric = None,
    own_choice: OwnChoice = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Test whether model A is better than model B.

    Examples
    --------
    traube compare minilm tfidf -t tickets.csv
    traube compare minilm:umap/hdbscan tfidf:none/kmeans

    Without a method, each model's best one is used, and p is corrected for all pairs of models
    of the leaderboard; with methods, for the tasks. A task with a single split needs two seeds
    or more: see docs/how-to/compare_models.md.
    """
    from traube._pipeline.params import load_params
    from traube._storage import open_storage
    from traube.comparison.standings import list_common_tasks
    from traube.metrics import full_name

    metric = full_name(metric) if metric else None
    a, b = name_given_side(a), name_given_side(b)
    params, storage = load_params(), open_storage(paths.home())
    # the user's own tasks and the benchmark's have different protocols; p is corrected within each protocol
    protocols: dict[str, list[str]] = {}
    for one in task or list_common_tasks(storage, a, b):
        protocols.setdefault(protocol or params.protocol_for(task or [one]), []).append(one)
    comparisons = _compare_on(storage, params, protocols, a, b, metric, own_choice)
    if as_json:
        print_json([_describe(comparison) for comparison in comparisons])
        return
    for comparison in comparisons:
        _print_comparison(comparison, details)
    used = ", ".join(dict.fromkeys(comparison.a.protocol for comparison in comparisons))
    out.print(f"[dim]scores x100; CI and p are corrected for the comparisons; protocol {used}[/]")


def _compare_on(
    storage: "Storage",
    params: "Params",
    protocols: dict[str, list[str]],
    a: str,
    b: str,
    metric: str | None,
    own_choice: bool,
) -> list["Comparison"]:
    """Compare two models on the tasks of each protocol, and print the tasks that had to be left out."""
    from traube.comparison.standings import compare_on_tasks

    comparisons: list[Comparison] = []
    left_out: dict[str, str] = {}
    for name, tasks in protocols.items():
        try:
            compared, unavailable = compare_on_tasks(
                storage, tasks, name, params.chosen(name), a, b, metric, own_choice
            )
        except TraubeError as error:
            if len(protocols) == 1:
                raise
            compared, unavailable = [], dict.fromkeys(tasks, str(error))
        comparisons += compared
        left_out |= unavailable
    if not comparisons:
        raise Missing("nothing to compare: " + "; ".join(left_out.values()))
    print_unavailable(left_out, "left out")
    return comparisons


def _describe(comparison: "Comparison") -> dict[str, Any]:
    """Return a comparison as a JSON object."""
    names = ("model", "method", "fingerprint", "mean", "cells")
    sides = {
        side: {name: getattr(candidate, name) for name in names}
        for side, candidate in (("a", comparison.a), ("b", comparison.b))
    }
    return {"task": comparison.a.task, "metric": comparison.a.metric, "verdict": comparison.verdict.record(), **sides}


def _print_comparison(comparison: "Comparison", details: bool) -> None:
    from traube.comparison.promotion import advise_more_seeds
    from traube.comparison.verdict import Undecided, format_score

    left, right, verdict = comparison.a, comparison.b, comparison.verdict
    out.print(f"[bold]{left.task}[/], {left.metric}: [bold]{escape(verdict.answer)}[/]")
    width = max(len(left.name), len(right.name))
    for side, candidate in (("A", left), ("B", right)):
        out.print(f"  {side}      {candidate.name:<{width}}  {format_score(candidate.mean):>6}", highlight=False)
    if verdict.evidence:
        out.print(f"  A - B  {verdict.evidence}", highlight=False)
    if details:
        out.print(f"         [dim]{verdict.details}[/]", highlight=False)
    if verdict.undecided is Undecided.ONE_SEED:
        out.print(f"  [dim]{advise_more_seeds(left.protocol)}[/]")
