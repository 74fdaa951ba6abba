"""`traube train` and `traube tune`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from traube.cli.options import Json, Verbose
from traube.cli.printing import bars, escape, fail_on, out, print_json, print_table
from traube.cli.run import fetch
from traube.cli.trainers import TrainCommand, TuneCommand, recipe_rows, trainer_for, trainer_named, trainer_rows
from traube.foundation.errors import TraubeError

if TYPE_CHECKING:
    from operations.launch import Launcher

app = typer.Typer()


@app.command(cls=TrainCommand)
def train(
    trainer: Annotated[str, typer.Argument(show_default=False)],
    task: Annotated[str, typer.Argument(help="The task to train on.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="The model to start from.")] = "minilm",
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A value of the recipe, like epochs=3; repeat for more. `traube trainers NAME` lists them. Default: the paper's.",
        ),
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Also use the task's texts without labels.")] = False,
    verbose: Verbose = False,
) -> None:
    """Train a model on a task.

    The result is a checkpoint in checkpoints/, which is a model like any
    other. Trainers without labels continue the model's pre-training on the
    texts of the task. Those on gold clusterings learn from the labels of its
    train splits and are validated on its validation splits. A stopped
    training continues from its last saved step, with the same result.
    """
    from traube.foundation import paths
    from traube.tasks import get_source

    chosen = trainer_for(trainer, task).with_values(**_values(recipe))
    _on_task(
        task, model, verbose, lambda launcher, name: launcher.train(trainer, name, model, _values(recipe), unlabelled)
    )
    left = chosen.left(task, model, paths.checkpoints(), unlabelled and bool(get_source(task).unlabelled()))
    out.print(
        f"{left.watched}: {left.scores[0]:.4f} before, {left.scores[-1]:.4f} after the last step, {max(left.scores):.4f} at best"
    )
    out.print(f"{escape(str(left.last))} and {escape(left.best.name)}", soft_wrap=True)
    out.print("`traube run` evaluates the models in checkpoints/; while `traube dev` runs, that happens by itself.")


@app.command()
def trainers(
    trainer: Annotated[
        str | None, typer.Argument(help="Of which the values of the recipe are listed.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the trainers; or the values of one's recipe, for --set.

    traube trainers cob
    """
    from traube.training import TRAINERS

    rows = trainer_rows() if trainer is None else recipe_rows(trainer_named(trainer, TRAINERS))
    if as_json:
        print_json(rows)
    else:
        print_table(rows, fold={"what": 40, "section": 30}, optional=["section"])


@app.command(cls=TuneCommand)
def tune(
    trainer: Annotated[str, typer.Argument(show_default=False)],
    task: Annotated[str, typer.Argument(help="The task to train on.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="The model to start from.")] = "minilm",
    trials: Annotated[
        int,
        typer.Option(min=1, help="The number of finished trials that the study is to reach, counting earlier ones."),
    ] = 20,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--set", help="A fixed value, like epochs=2; repeat for more. Default: the paper's."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Search for a trainer's best recipe on a task with Optuna.

    The validation splits judge, and poor trials are stopped early. The study
    is kept and can be continued. Pass what it finds to `traube train` with
    --set.
    """
    from traube.foundation import paths
    from traube.training.study import known, open_study, study_file

    chosen = trainer_for(trainer, task, searched=True)
    chosen.with_values(**_values(recipe))  # a misspelt value is an error at once
    _on_task(task, model, verbose, lambda launcher, name: launcher.tune(trainer, name, model, trials, _values(recipe)))
    state = known(open_study(study_file(paths.home() / "studies", trainer, task, model, _values(recipe)), trainer))
    best = {name: value for name, value in state.best.items() if name != "value"}
    options = " ".join(f"--set {name}={value:.4g}" for name, value in best.items())
    out.print(f"{state.trials} trials; {chosen.watched} {state.best.get('value', float('nan')):.4f} with {options}")


def _values(recipe: list[str] | None) -> dict[str, str]:
    values = [value.partition("=") for value in recipe or ()]
    for name, sign, _ in values:
        if not sign:
            raise TraubeError(f"--set {name}: write a name and a value, like epochs=3")
    return {name: value for name, _, value in values}


def _on_task(task: str, model: str, verbose: bool, work: Callable[["Launcher", str], list[str]]) -> None:
    """Do some work on a task, which is read first if it was not, and a model."""
    from operations.launch import Launcher
    from traube.benchmark.plan import unread
    from traube.foundation import paths
    from traube.store import Store
    from traube.tasks import get_source

    name = get_source(task).name
    fetch([name], [model])
    new, unavailable = unread([name], Store(paths.home() / "store"))
    if unavailable:
        raise TraubeError(f"{name} is unavailable: {unavailable[name]}")
    with bars(hidden=verbose) as (progress, _), Launcher(progress, verbose) as launcher:
        errors = (launcher.datasets(new) if new else []) or work(launcher, name)
    fail_on(errors)
