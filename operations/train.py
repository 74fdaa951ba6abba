"""`traube train`, `traube trainers` and `traube tune`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from traube.cli.given import name_given_task
from traube.cli.options import Json, Verbose
from traube.cli.printing import bars, escape, fail_on, out, print_json, print_table
from traube.cli.run import fetch
from traube.core import paths
from traube.core.errors import TraubeError, unknown

if TYPE_CHECKING:
    from operations.launch import Launcher
    from traube.training import Trainer

app = typer.Typer()

VALUES = {
    "train": "A value of the recipe, like epochs=3; repeat for more. `traube trainers NAME` lists them.",
    "tune": "A fixed value, like epochs=2; repeat for more.",
}

TrainerName = Annotated[str, typer.Argument(show_default=False)]
TaskName = Annotated[
    str, typer.Argument(callback=name_given_task, help="The task to train on, or a file of texts.", show_default=False)
]
BaseName = Annotated[str, typer.Option("--model", "-m", help="The model to start from.")]


class TrainerCommand(TyperCommand):
    """A command whose help names the trainers, which take a second to import and are imported for that help alone."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names of the trainers."""
        from traube.training import TRAINERS, searched_trainers

        parameters: dict[str | None, Any] = {parameter.name: parameter for parameter in self.params}
        argument, values = parameters["trainer"], parameters["recipe"]
        known = searched_trainers() if self.name == "tune" else list(TRAINERS)
        own = [f"{name} ({', '.join(TRAINERS[name].paper)})" for name in known if TRAINERS[name].paper]
        but = f", but Traube's own for {' and '.join(own)}" if own else ""
        values.help = f"{VALUES[str(self.name)]} Default: the paper's{but}."
        if self.name == "tune":
            argument.help = f"A trainer with values to search: {', '.join(known)}."
        else:
            words = {"texts": "Without labels", "splits": "On gold clusterings", "pairs": "On pairs of texts"}
            names = {kind: [name for name, t in TRAINERS.items() if t.learns_from == kind] for kind in words}
            lists = [f"{words[kind]}: {', '.join(of_kind)}." for kind, of_kind in names.items() if of_kind]
            argument.help = " ".join(lists)
        super().format_help(ctx, formatter)


@app.command(cls=TrainerCommand)
def train(
    trainer: TrainerName,
    task: TaskName,
    model: BaseName = "minilm",
    recipe: Annotated[list[str] | None, typer.Option("--set", help=VALUES["train"])] = None,
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
    from traube.tasks import get_source

    chosen, values = _trainer(trainer, task), _values(recipe)
    trained = chosen.with_values(**values)
    on_tasks([task], model, verbose, lambda launcher: launcher.train(trainer, task, model, values, unlabelled))
    left = trained.left(task, model, paths.checkpoints(), unlabelled and bool(get_source(task).unlabelled()))
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

    Where a default is Traube's own, the paper's value stands beside it.

    traube trainers cob
    """
    from traube.training import TRAINERS

    if trainer is None:
        rows = [
            {"trainer": name, "learns from": t.learns_from, "tune": "yes" if t.searched else "", "section": t.section}
            for name, t in TRAINERS.items()
        ]
    else:
        chosen = _trainer(trainer)
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


@app.command(cls=TrainerCommand)
def tune(
    trainer: TrainerName,
    task: TaskName,
    model: BaseName = "minilm",
    trials: Annotated[
        int,
        typer.Option(min=1, help="The number of finished trials that the study is to reach, counting earlier ones."),
    ] = 20,
    recipe: Annotated[list[str] | None, typer.Option("--set", help=VALUES["tune"])] = None,
    verbose: Verbose = False,
) -> None:
    """Search for a trainer's best recipe on a task with Optuna.

    The validation splits judge, and poor trials are stopped early. The study
    is kept and can be continued. Pass what it finds to `traube train` with
    --set.
    """
    from traube.training.study import known, open_study, study_file

    chosen, values = _trainer(trainer, task, searched=True), _values(recipe)
    chosen.with_values(**values)  # a misspelt value is an error at once
    on_tasks([task], model, verbose, lambda launcher: launcher.tune(trainer, task, model, trials, values))
    state = known(open_study(study_file(paths.home() / "studies", trainer, task, model, values), trainer))
    best = {name: value for name, value in state.best.items() if name != "value"}
    options = " ".join(f"--set {name}={value:.4g}" for name, value in best.items())
    out.print(f"{state.trials} trials; {chosen.watched} {state.best.get('value', float('nan')):.4f} with {options}")


def _trainer(name: str, task: str | None = None, searched: bool = False) -> "type[Trainer[Any]]":
    """Return a trainer that can learn from the task, if there is one, and has a study, if `searched`."""
    from traube.tasks import get_source
    from traube.training import TRAINERS, searched_trainers

    known, kind = (searched_trainers(), "trainer with a study") if searched else (list(TRAINERS), "trainer")
    if name not in known:
        raise unknown(kind, name, known)
    if task is not None and (reason := TRAINERS[name].unsuited(get_source(task))):
        raise TraubeError(reason)
    return TRAINERS[name]


def _values(recipe: list[str] | None) -> dict[str, str]:
    values = [value.partition("=") for value in recipe or ()]
    for name, sign, _ in values:
        if not sign:
            raise TraubeError(f"--set {name}: write a name and a value, like epochs=3")
    return {name: value for name, _, value in values}


def on_tasks(tasks: list[str], model: str, verbose: bool, work: Callable[["Launcher"], list[str]]) -> None:
    """Run work on a model and tasks; tasks that are not ingested are read first."""
    from operations.launch import Launcher
    from traube.pipeline.survey import unread
    from traube.storage import open_storage

    fetch(tasks, [model])
    new, unavailable = unread(tasks, open_storage(paths.home()))
    for name, reason in unavailable.items():
        raise TraubeError(f"{name} is unavailable: {reason}")
    with bars(hidden=verbose) as (progress, _), Launcher(progress, verbose) as launcher:
        errors = (launcher.datasets(new) if new else []) or work(launcher)
    fail_on(errors)
