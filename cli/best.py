"""`traube best`: which model groups a task's texts best?"""

from typing import Annotated

import typer

from cli.options import Json, ProtocolName
from cli.printing import escape, out, print_json

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
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.report.best import best_on
    from traube.store import Store

    params = load_params()
    name = protocol or params.protocol_for([task])
    found = best_on(Store(paths.home() / "store"), task, name, params.chosen(name))
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
                "answer": found.answer,
                "advice": found.advice,
                "bargain": found.bargain,
                "command": found.command,
            }
        )
        return
    out.print(escape(found.said), highlight=False)
    out.print(f"To group new texts in this way: [bold]{escape(found.command)}[/]", highlight=False)
