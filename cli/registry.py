"""Which clustering is served, and what the sensors shall look at again: `promote`, `rollback`, `retry`."""

from typing import Annotated

import typer

from cli.printing import out

app = typer.Typer()


@app.command()
def promote(
    task: str,
    version: Annotated[str | None, typer.Argument(help="Version of traube-TASK. Default: the challenger.")] = None,
) -> None:
    """Make a version of a task's registered model the champion, whatever the tests say."""
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is version {RegistryResource().promote(task, version)} now")


@app.command()
def rollback(task: str) -> None:
    """Make the champion before the present one champion again."""
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is version {RegistryResource().rollback(task)} again")


@app.command()
def retry(checkpoint: str) -> None:
    """Have the checkpoint sensor evaluate a checkpoint once more, after a failure."""
    from traube.models.checkpoints import ask_again

    out.print(f"attempt {ask_again(checkpoint)} of {checkpoint} is asked for; `make dev` has to be running")
