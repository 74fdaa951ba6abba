"""`traube train`, `traube trainers` and `traube tune`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube._cli.given import name_given_task
from traube._cli.options import MOST_SEED, Json, Verbose
from traube._cli.printing import escape, fail_on, out, print_json, print_table, show_progress
from traube._cli.run import fetch
from traube._core import paths
from traube._core.errors import Invalid, Unavailable, Unsupported, unknown

if TYPE_CHECKING:
    from operations.launch import DagsterLauncher
    from traube.training import Trainer

app = typer.Typer()

TrainerName = Annotated[str, typer.Argument(help="Trainer; `traube trainers` lists them.", show_default=False)]
TaskName = Annotated[
    str, typer.Argument(callback=name_given_task, help="Task or file to train on.", show_default=False)
]
BaseName = Annotated[str, typer.Option("--model", "-m", help="Model to start from.")]
Recipe = Annotated[
    list[str] | None,
    typer.Option("--set", help="Value of the recipe, like epochs=3; repeat for more (`traube trainers NAME`)."),
]


@app.command(rich_help_panel="Training")
def train(
    trainer: TrainerName,
    task: TaskName,
    model: BaseName = "minilm",
    recipe: Recipe = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            "--seed",
            min=0,
            max=MOST_SEED,
            help="Seed; repeat for a training each. Default: the recipe's.",
            show_default=False,
        ),
    ] = None,
    unlabeled: Annotated[bool, typer.Option("--unlabeled", help="Also use texts of the task without labels.")] = False,
    verbose: Verbose = False,
) -> None:
    """Train a model on a task.

    Examples
    --------
    traube train tsdae tickets.csv
    traube train triplet tickets.csv --model gbert_base --set epochs=3
    traube train triplet tickets.csv --seed 1 --seed 2 --seed 3

    The result is a checkpoint in checkpoints/, a model like any other. A stopped training
    continues from its last saved step, with the same result.
    """
    from traube.tasks import get_source

    chosen, values = _find_trainer(trainer, task), _parse_values(recipe)
    if seed and "seed" in values:
        raise Invalid("--seed and --set seed=: give one of them")
    recipes = [values | {"seed": str(each)} for each in dict.fromkeys(seed)] if seed else [values]
    trained = [chosen.with_values(**each) for each in recipes]  # a misspelled value is an error at once

    def work(launcher: "DagsterLauncher") -> list[str]:
        # in turn, up to the first that fails: what the trainings have in common is kept in this process
        failures = (launcher.train(trainer, task, model, each, unlabeled) for each in recipes)
        return next(filter(None, failures), [])

    run_on_tasks([task], model, verbose, work)
    with_unlabeled = unlabeled and bool(get_source(task).read_unlabeled())
    for each in trained:
        left = each.load_checkpoint(task, model, paths.checkpoints(), with_unlabeled)
        scores = (
            f"{left.scores[0]:.4f} before, {left.scores[-1]:.4f} after the last step, {max(left.scores):.4f} at best"
        )
        out.print(f"{left.watched}: {scores}")
        out.print(f"{escape(str(left.last))} and {escape(left.best.name)}", soft_wrap=True)
    out.print("`traube run` evaluates the models in checkpoints/; while `traube dev` runs, that happens by itself.")


@app.command(rich_help_panel="Training")
def trainers(
    trainer: Annotated[str | None, typer.Argument(help="Trainer whose recipe is listed.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """List the trainers, or the values of one's recipe for --set.

    Examples
    --------
    traube trainers
    traube trainers triplet

    Where a default is Traube's own, the paper's value stands beside it.
    """
    from traube.training import TRAINERS

    if trainer is None:
        rows = [
            {"trainer": name, "learns from": t.learns_from, "tune": "yes" if t.searched else "", "section": t.section}
            for name, t in TRAINERS.items()
        ]
    else:
        chosen = _find_trainer(trainer)
        defaults = chosen.defaults
        rows = [
            {
                "value": name,
                "default": "" if getattr(defaults, name) is None else str(getattr(defaults, name)),
                "paper's": str(chosen.paper.get(name, "")),
                "what": field.description or "",
            }
            for name, field in type(defaults).model_fields.items()
        ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, fold={"what": 40, "section": 30}, optional=["section"])


@app.command(rich_help_panel="Training")
def tune(
    trainer: TrainerName,
    task: TaskName,
    model: BaseName = "minilm",
    trials: Annotated[
        int,
        typer.Option(min=1, help="Number of finished trials to reach, earlier ones included."),
    ] = 20,
    recipe: Recipe = None,
    verbose: Verbose = False,
) -> None:
    """Search for a trainer's best recipe on a task with Optuna.

    Examples
    --------
    traube tune cob tickets.csv
    traube tune cob tickets.csv --trials 50 --set epochs=2

    The validation splits judge, and poor trials are stopped early. The study is kept and can be
    continued.
    """
    from traube.training.study import locate_study, open_study, read_state

    chosen, values = _find_trainer(trainer, task, searched=True), _parse_values(recipe)
    chosen.with_values(**values)  # a misspelled value is an error at once
    run_on_tasks([task], model, verbose, lambda launcher: launcher.tune(trainer, task, model, trials, values))
    state = read_state(open_study(locate_study(paths.home() / "studies", trainer, task, model, values), trainer))
    best = {name: value for name, value in state.best.items() if name != "value"}
    options = " ".join(f"--set {name}={value:.4g}" for name, value in best.items())
    out.print(f"{state.trials} trials; {chosen.watched} {state.best.get('value', float('nan')):.4f} with {options}")


def _find_trainer(name: str, task: str | None = None, searched: bool = False) -> "type[Trainer[Any]]":
    """Return a trainer that can learn from the task, if there is one, and has a study, if `searched`."""
    from traube.tasks import get_source
    from traube.training import TRAINERS, searched_trainers

    known, kind = (searched_trainers(), "trainer with a study") if searched else (list(TRAINERS), "trainer")
    if name not in known:
        raise unknown(kind, name, known)
    if task is not None and (reason := TRAINERS[name].explain_unsuited(get_source(task))):
        raise Unsupported(reason)
    return TRAINERS[name]


def _parse_values(recipe: list[str] | None) -> dict[str, str]:
    values = [value.partition("=") for value in recipe or ()]
    for name, sign, _ in values:
        if not sign:
            raise Invalid(f"--set {name}: write a name and a value, like epochs=3")
    return {name: value for name, _, value in values}


def run_on_tasks(tasks: list[str], model: str, verbose: bool, work: Callable[["DagsterLauncher"], list[str]]) -> None:
    """Run work on a model and tasks; tasks that are not ingested are read first."""
    from operations.launch import DagsterLauncher
    from traube._pipeline.survey import find_not_ingested
    from traube._storage import open_storage

    fetch(tasks, [model])
    new, unavailable = find_not_ingested(tasks, open_storage(paths.home()))
    for name, reason in unavailable.items():
        raise Unavailable(f"{name} is unavailable: {reason}")
    with show_progress(hidden=verbose) as (progress, _), DagsterLauncher(progress, verbose) as launcher:
        errors = (launcher.datasets(new) if new else []) or work(launcher)
    fail_on(errors)
