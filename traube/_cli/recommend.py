"""`traube recommend`: the best model for a task's texts, and how sure its lead is."""

from shlex import quote
from typing import TYPE_CHECKING

import typer

from traube._cli.options import Details, Json, ProtocolName, TaskName
from traube._cli.printing import escape, out, print_json
from traube._core import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traube._reports.languages import LanguageFit
    from traube._reports.recommendation import Recommendation
    from traube._storage import Storage

app = typer.Typer()


@app.command()
def recommend(
    task: TaskName,
    protocol: ProtocolName = None,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Recommend the model and method that cluster a task's texts best, and say how sure that is.

    Examples
    --------
    traube recommend tickets.csv
    traube recommend pydocs_s2s --protocol own --json

    Also says what would decide between tied models, which models for the texts' language were
    not compared, and the command that groups new texts in the same way.
    """
    from traube._pipeline.params import load_params
    from traube._reports import recommendation
    from traube._storage import open_storage

    params = load_params()
    name = protocol or params.protocol_for([task])
    recommended = recommendation.recommend(open_storage(paths.home()), task, name, params.chosen(name))
    if not as_json:
        print_answer(recommended)
        for line in recommended.details if details else ():
            out.print(f"[dim]{escape(line)}[/]", highlight=False, soft_wrap=True)
        return
    print_json(
        {
            "task": task,
            "protocol": name,
            "metric": recommended.winner.metric,
            "model": recommended.winner.model,
            "method": recommended.winner.method,
            "score": recommended.winner.mean,
            "low": recommended.low,
            "high": recommended.high,
            "ties": [rival.candidate.model for rival in recommended.ties],
            "verdicts": [rival.verdict.record() for rival in recommended.rivals],
            "answer": recommended.answer,
            "advice": recommended.advice,
            "bargain": recommended.bargain,
            "dollars": recommended.money.get(recommended.winner.name),
            "command": with_column(recommended.command, task),
            "languages": recommended.fit and recommended.fit.languages,
            "made_for_others": recommended.fit and [card.name for card in recommended.fit.unfit],
            "not_compared": recommended.fit and [card.name for card in recommended.fit.left_out],
        }
    )


def print_answer(recommendation: "Recommendation") -> None:
    """Print the best model, and the command that clusters new texts likewise, on one line that can be copied.

    If only models were compared that are made for other languages than the texts', the first line says so.
    """
    task = recommendation.winner.task
    command = with_column(recommendation.command, task)
    warning = recommendation.fit.warning if recommendation.fit else ""
    if recommendation.fit and warning:
        _print_fit(warning, recommendation.fit, task)
    out.print(escape(recommendation.text), highlight=False, soft_wrap=True)
    if recommendation.fit and not warning and recommendation.fit.left_out:
        _print_fit(recommendation.fit.not_compared, recommendation.fit, task)
    out.print(f"To group new texts in this way: [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def print_language(storage: "Storage", task: str, models: "Sequence[str]") -> None:
    """Print the models made for the language of a task without labels, those that were tried and others."""
    from traube._pipeline.default_model import languages_of
    from traube._reports.languages import fit_languages
    from traube.tasks._stored import read_task

    fit = fit_languages(languages_of(read_task(storage, task)), models)
    if line := fit.warning or fit.not_compared:
        _print_fit(line, fit, task)


def _print_fit(line: str, fit: "LanguageFit", task: str) -> None:
    command = fit.command(f"traube run -t {quote(task)}")
    add = f" To add them: [bold]{escape(command)}[/]" if command else ""
    style = "yellow" if fit.warning else "dim"
    out.print(f"[{style}]{escape(line)}[/]{add}", highlight=False, soft_wrap=True)


def with_column(command: str, task: str) -> str:
    """Return a command that clusters tables like the task's, with the column that the task's card names."""
    from traube.tasks import sources
    from traube.tasks._readers.table import TableSource

    source = sources().get(task)
    column = source.settings.text if isinstance(source, TableSource) else "text"
    return command if column == "text" else f"{command} --text {quote(column)}"
