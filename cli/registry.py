"""Which clustering is served (`promote`, `rollback`), and a checkpoint that is to be evaluated
again (`retry`).
"""

from typing import Annotated

import typer

from cli.printing import out

app = typer.Typer()


@app.command()
def promote(
    task: Annotated[str, typer.Argument(help="A task.", show_default=False)],
    version: Annotated[
        str | None, typer.Argument(help="A version of the model traube-TASK. Default: the challenger.")
    ] = None,
) -> None:
    """Make a version of a task's registered model the champion.

    This overrules the tests.
    """
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is now version {RegistryResource().promote(task, version)}")


@app.command()
def rollback(task: Annotated[str, typer.Argument(help="A task.", show_default=False)]) -> None:
    """Make the previous champion of a task the champion again."""
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is again version {RegistryResource().rollback(task)}")


@app.command()
def retry(
    checkpoint: Annotated[str, typer.Argument(help="The name of a folder in checkpoints/.", show_default=False)],
) -> None:
    """Evaluate a checkpoint again after a failure.

    The sensor of `traube dev` does the work.
    """
    from traube.models.checkpoints import ask_again

    out.print(f"{checkpoint} is evaluated again (attempt {ask_again(checkpoint)}) as soon as `traube dev` runs")
