"""`traube sweep`: how a clusterer depends on its parameters."""

from typing import Annotated

import typer

from traube.cli.options import Seeds, Verbose
from traube.cli.printing import bars, counted, fail_on, out
from traube.cli.run import fetch

app = typer.Typer()


@app.command()
def sweep(
    name: Annotated[str, typer.Argument(help="A sweep of params.yaml.", show_default=False)],
    task: Annotated[list[str], typer.Option("--task", "-t", help="A task; repeat for more.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="The model whose vectors or encoder is used.")],
    seed: Seeds = None,
    verbose: Verbose = False,
) -> None:
    """Compute the points of a sweep: a clusterer with each value in turn of its parameters.

    traube sweep aecl_sensitivity -t tweet -m minilm_32 --seed 42

    Each point is stored like any cell, and a stopped sweep continues where it
    stopped. Points are no part of the leaderboard; figures of papers show
    them.
    """
    from operations.launch import Launcher
    from traube.benchmark.params import Point, load_params
    from traube.benchmark.plan import unread
    from traube.foundation import paths
    from traube.foundation.errors import TraubeError, unknown
    from traube.store import Store

    params = load_params()
    if name not in params.sweeps:
        raise unknown("sweep", name, params.sweeps)
    fetch(task, [model])
    new, unavailable = unread(task, Store(paths.home() / "store"))
    for absent, reason in unavailable.items():
        raise TraubeError(f"{absent} is unavailable: {reason}")
    with bars(hidden=verbose) as (progress, _), Launcher(progress, verbose) as launcher:
        errors = launcher.datasets(new) if new else []
        errors = errors or launcher.sweep(name, task, model, seed or []) or launcher.publish(task)
    fail_on(errors)
    points = sum(isinstance(protocol, Point) and protocol.sweep == name for protocol in params.protocols.values())
    out.print(f"{name}: {counted(points, 'point')} on {', '.join(task)}; figures are in {paths.home() / 'papers'}")
