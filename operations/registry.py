"""Commands on the served clustering (`promote`, `rollback`) and on a failed checkpoint (`retry`)."""

from typing import TYPE_CHECKING, Annotated

import typer

from traube._cli.options import TaskName
from traube._cli.printing import out, print_json, print_table

if TYPE_CHECKING:
    from resources.registry import RegistryResource
    from traube._grouping.served import Served

app = typer.Typer()


def champion_of(task: str) -> "Served":
    """Return the clustering that serves a task."""
    return registry_of(task).load_champion(task)


def complete_served() -> None:
    """Write the code of restored champions, which no backup holds."""
    from resources.registry import CHAMPION, RegistryResource
    from traube._core import paths

    registry = RegistryResource(uri=f"sqlite:///{paths.home() / 'mlflow.db'}")
    for task in dict(registry.list_served()):
        if champion := registry.find_version(task, CHAMPION):
            registry.write_artifact(task, champion["version"])


def registry_of(task: str) -> "RegistryResource":
    """Return the registry, or refuse a name that no task has.

    The name is checked first, since making MLflow's database takes a while.
    """
    from operations.launch import prepare
    from resources.registry import RegistryResource
    from traube.tasks import get_source

    get_source(task)
    prepare()
    return RegistryResource()


def _note_change(registry: "RegistryResource") -> None:
    """Show the champions as they are now, and have the next run make the tables again: champions are compared with all."""
    from traube._core import paths
    from traube._reports.tables import mark_outdated
    from traube._storage import open_storage

    registry.note_champions()
    mark_outdated(open_storage(paths.home()))


@app.command(rich_help_panel="Platform")
def champions(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with all columns.")] = False,
) -> None:
    """Show the champion of each task, and why the next challenger is held.

    Examples
    --------
    traube champions
    traube champions --json
    """
    from operations.launch import prepare
    from resources.registry import RegistryResource

    prepare()
    read = RegistryResource().read_champions()
    if as_json:
        print_json(read.table.to_dict("records"))
        return
    if not read.now:
        out.print("no task has a champion yet: `traube run`")
    rows = [
        {
            "task": row.task,
            "champion": f"{row.model} with {row.method}" if row.model else "none yet",
            "since": row.formatted_since,
            "score": row.formatted["score"] or "-",
            "why it is champion": row.chosen,
            "challenger": f"{row.challenger}: {row.formatted['challenger_score']}" if row.challenger else "",
            "why it is held": row.reason,
            "measure": row.measure,
        }
        for row in read.now
    ]
    fold = {
        "champion": 12,
        "since": 10,
        "why it is champion": 18,
        "challenger": 12,
        "why it is held": 18,
        "measure": 12,
    }
    print_table(rows, fold=fold, optional=("why it is champion", "measure"), title="champions; scores times 100")


@app.command(rich_help_panel="Platform")
def promote(
    task: TaskName,
    version: Annotated[
        str | None, typer.Argument(help="Version of the model traube-TASK. Default: the challenger.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    only_artifact: Annotated[
        bool, typer.Option("--only-artifact", help="Only write what MLflow loads and serves of the version.")
    ] = False,
) -> None:
    """Make a version of a task's registered model the champion, whatever the tests say.

    Examples
    --------
    traube promote pydocs_s2s
    traube promote pydocs_s2s 3 --yes
    traube promote pydocs_s2s --only-artifact
    """
    from resources.registry import registered_name

    registry = registry_of(task)
    if only_artifact:
        written = registry.write_artifact(task, version)
        out.print(f"models:/{registered_name(task)}/{written} can be loaded and served")
        return
    out.print(registry.describe_change(task, version), soft_wrap=True)
    if not yes:
        typer.confirm("Promote it?", abort=True)
    promoted = registry.promote(task, version)
    _note_change(registry)
    out.print(f"{registered_name(task)}@champion is now version {promoted}")


@app.command(rich_help_panel="Platform")
def rollback(task: TaskName) -> None:
    """Make the previous champion of a task the champion again.

    Examples
    --------
    traube rollback pydocs_s2s
    traube rollback tickets.csv
    """
    from resources.registry import registered_name

    registry = registry_of(task)
    restored = registry.rollback(task)
    _note_change(registry)
    out.print(f"{registered_name(task)}@champion is again version {restored}")


@app.command(rich_help_panel="Platform")
def retry(
    checkpoint: Annotated[str, typer.Argument(help="Name of a folder in checkpoints/.", show_default=False)],
) -> None:
    """Evaluate a checkpoint again after a failure.

    Examples
    --------
    traube retry my_checkpoint
    traube retry my_checkpoint && traube dev

    The sensor of `traube dev` does the work.
    """
    from traube.models.checkpoints import request_again

    out.print(f"{checkpoint} is evaluated again (attempt {request_again(checkpoint)}) as soon as `traube dev` runs")
