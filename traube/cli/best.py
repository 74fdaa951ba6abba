"""`traube best`: which model groups a task's texts best?"""

from typing import TYPE_CHECKING, Annotated

import typer

from traube.cli.options import Json, ProtocolName
from traube.cli.printing import escape, out, print_json

if TYPE_CHECKING:
    from traube.reports.best import Best

app = typer.Typer()


@app.command()
def best(
    task: Annotated[str, typer.Argument(help="A task that was evaluated.", show_default=False)],
    protocol: ProtocolName = None,
    as_json: Json = False,
) -> None:
    """Say which model groups a task's texts best, and how sure that is.

    One sentence: model and method, by how much they lead, and whether the lead
    is significant (the leaderboard's tests). Then what would make it surer, and
    the command that groups new texts in the same way.
    """
    from traube.core import paths
    from traube.pipeline.params import load_params
    from traube.reports.best import best_on
    from traube.storage import open_storage

    params = load_params()
    name = protocol or params.protocol_for([task])
    found = best_on(open_storage(paths.home()), task, name, params.chosen(name))
    if as_json:
        print_json(
            {
                "task": task,
                "protocol": name,
                "metric": found.winner.metric,
                "model": found.winner.model,
                "method": found.winner.method,
                "score": found.winner.mean,
                "low": found.low,
                "high": found.high,
                "ties": [rival.candidate.model for rival in found.ties],
                "verdicts": [rival.verdict.record() for rival in found.rivals],
                "answer": found.answer,
                "advice": found.advice,
                "bargain": found.bargain,
                "command": with_column(found.command, task),
            }
        )
        return
    print_answer(found)


def print_answer(found: "Best") -> None:
    """Which model is best, and the command that groups new texts in the same way. Neither is wrapped,
    so that commands can be copied.
    """
    command = with_column(found.command, found.winner.task)
    out.print(escape(found.said), highlight=False, soft_wrap=True)
    out.print(f"To group new texts in this way: [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def with_column(command: str, task: str) -> str:
    """A command that groups texts, for tables like the task's: it names the column that the task's card names."""
    from shlex import quote

    from traube.tasks import sources
    from traube.tasks.readers.table import Table

    source = sources().get(task)
    column = source.settings.text if isinstance(source, Table) else "text"
    return command if column == "text" else f"{command} --text {quote(column)}"
