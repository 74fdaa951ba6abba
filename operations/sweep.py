"""`traube sweep`: the effect of a clusterer's parameters."""

from typing import Annotated

import typer

from operations.train import run_on_tasks
from traube.cli.given import name_given_tasks
from traube.cli.options import Seeds, Verbose
from traube.cli.printing import counted, out
from traube.core import paths
from traube.core.errors import unknown

app = typer.Typer()


@app.command()
def sweep(
    name: Annotated[str, typer.Argument(help="A sweep of params.yaml.", show_default=False)],
    task: Annotated[
        list[str],
        typer.Option(
            "--task",
            "-t",
            callback=name_given_tasks,
            help="A task, or a file of texts; repeat for more.",
            show_default=False,
        ),
    ],
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
    from traube.pipeline.params import Point, load_params

    params = load_params()
    if name not in params.sweeps:
        raise unknown("sweep", name, params.sweeps)
    run_on_tasks(
        task, model, verbose, lambda launcher: launcher.sweep(name, task, model, seed or []) or launcher.publish(task)
    )
    points = sum(isinstance(protocol, Point) and protocol.sweep == name for protocol in params.protocols.values())
    out.print(f"{name}: {counted(points, 'point')} on {', '.join(task)}; figures are in {paths.home() / 'papers'}")
