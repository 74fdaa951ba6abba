"""`traube sweep`: the effect of a clusterer's parameters."""

from typing import Annotated

import typer

from operations.train import run_on_tasks
from traube._cli.given import name_given_tasks
from traube._cli.options import Seeds, Verbose
from traube._cli.printing import out, pluralize
from traube._core import paths
from traube._core.errors import unknown

app = typer.Typer()


@app.command(rich_help_panel="Training")
def sweep(
    name: Annotated[str, typer.Argument(help="Sweep of params.yaml.", show_default=False)],
    task: Annotated[
        list[str],
        typer.Option(
            "--task",
            "-t",
            callback=name_given_tasks,
            help="Task or file; repeat for more.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="Model whose vectors or encoder is used.")],
    seed: Seeds = None,
    verbose: Verbose = False,
) -> None:
    """Compute the points of a sweep: a clusterer with each value of its parameters.

    Examples
    --------
    traube sweep aecl_sensitivity -t tweet -m minilm_32
    traube sweep aecl_sensitivity -t tweet -m minilm_32 --seed 42

    Each point is stored like any cell. Points are in no leaderboard; figures of papers show
    them.
    """
    from traube._pipeline.params import Point, load_params

    params = load_params()
    if name not in params.sweeps:
        raise unknown("sweep", name, params.sweeps)
    run_on_tasks(
        task, model, verbose, lambda launcher: launcher.sweep(name, task, model, seed or []) or launcher.publish(task)
    )
    points = sum(isinstance(protocol, Point) and protocol.sweep == name for protocol in params.protocols.values())
    out.print(f"{name}: {pluralize(points, 'point')} on {', '.join(task)}; figures are in {paths.home() / 'papers'}")
