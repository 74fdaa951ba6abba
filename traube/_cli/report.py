"""`traube report`: the page of a task in a browser."""

from typing import Annotated

import typer

from traube._cli.given import name_given_task
from traube._cli.printing import escape, out
from traube._core import paths
from traube._core.errors import Missing

app = typer.Typer()


@app.command()
def report(
    task: Annotated[
        str | None,
        typer.Argument(callback=name_given_task, help="Task, or file that was evaluated. Default: all tasks."),
    ] = None,
    imported: Annotated[
        bool, typer.Option("--imported", help="Open the report of imported results (`traube import`).")
    ] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Make the report and print its path only.")] = False,
) -> None:
    """Open the report of a task, or of all tasks, in a browser.

    Examples
    --------
    traube report tickets.csv
    traube report --imported --print

    The report of a task is one file that needs no network: leaderboard, scores against cost,
    ranks, linked maps, confusions and history.
    """
    import webbrowser

    from traube._pipeline.params import load_params
    from traube._pipeline.workbench import Workbench
    from traube._reports.imported import PAGE
    from traube._reports.pages import FOLDER, INDEX, make_page
    from traube.comparison.standings import is_stored

    home = paths.home()
    if task:
        bench = Workbench.at(home)
        is_stored(bench.storage, task)  # refuses a task of pairs, and a name that is no task's
        path = make_page(bench, load_params().protocols, task, home)
    else:
        path = home / FOLDER / (PAGE if imported else INDEX)
    if not path.exists():
        raise Missing(
            "nothing is imported yet: `traube import`" if imported else "nothing is published yet: `traube run`"
        )
    out.print(escape(str(path)), soft_wrap=True, highlight=False)
    if not only_print and not webbrowser.open(path.as_uri()):
        out.print("[dim]No browser was found here; open the file in one.[/]")
