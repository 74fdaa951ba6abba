"""The best model: `traube best`, the page that `traube open` shows, and `traube compare`."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from traube.cli.given import name_given_side, name_given_task
from traube.cli.options import BothTasks, Json, Metric, ProtocolName, TaskName
from traube.cli.printing import counted, escape, out, print_json, print_unavailable
from traube.core import paths
from traube.core.errors import TraubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traube.reports.best import Best
    from traube.reports.languages import LanguageFit
    from traube.storage import Storage

app = typer.Typer()


@app.command()
def best(
    task: TaskName,
    protocol: ProtocolName = None,
    as_json: Json = False,
) -> None:
    """Say which model groups a task's texts best, and how sure that is.

    One sentence: model and method, by how much they lead, and whether the lead
    is significant (the leaderboard's tests). Then what would make it surer,
    which models for the texts' language were not compared, and the command
    that groups new texts in the same way.
    """
    from traube.pipeline.params import load_params
    from traube.reports.best import best_on
    from traube.storage import open_storage

    params = load_params()
    name = protocol or params.protocol_for([task])
    found = best_on(open_storage(paths.home()), task, name, params.chosen(name))
    if not as_json:
        print_answer(found)
        return
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
            "languages": found.fit and found.fit.languages,
            "made_for_others": found.fit and [card.name for card in found.fit.unfit],
            "not_compared": found.fit and [card.name for card in found.fit.left_out],
        }
    )


@app.command("open")
def open_page(
    task: Annotated[
        str | None,
        typer.Argument(
            callback=name_given_task, help="A task, or a file, that was evaluated. Default: the page of all tasks."
        ),
    ] = None,
    imported: Annotated[
        bool, typer.Option("--imported", help="The page of imported results (`traube import`).")
    ] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Only make the page, and say where it is.")] = False,
) -> None:
    """Open a task's page in a browser.

    Its leaderboard, scores against cost, who is tied, the texts as two models
    place them, which classes are confused with which, and what changed. One
    file, which needs no server and no network.
    """
    import webbrowser

    from traube.pipeline.params import load_params
    from traube.pipeline.workbench import Workbench
    from traube.reports.imported import PAGE
    from traube.reports.pages import FOLDER, INDEX, make_page
    from traube.tasks import CLUSTERING, get_source
    from traube.tasks.stored import get_card

    home = paths.home()
    if task:
        bench = Workbench.at(home)
        card = get_card(bench.storage, task)
        if card is None or card.type is not CLUSTERING:
            get_source(task)  # which names near ones, if there is no such task, and refuses one of pairs
        path = make_page(bench, load_params().protocols, task, home)
    else:
        path = home / FOLDER / (PAGE if imported else INDEX)
    if not path.exists():
        raise TraubeError(
            "nothing is imported yet: `traube import`" if imported else "nothing is published yet: `traube run`"
        )
    out.print(escape(str(path)), soft_wrap=True, highlight=False)
    if not only_print and not webbrowser.open(path.as_uri()):
        out.print("[dim]No browser was found here; open the file in one.[/]")


@app.command()
def compare(
    a: Annotated[
        str, typer.Argument(help="A model, or a model and a method: minilm:umap/hdbscan.", show_default=False)
    ],
    b: Annotated[str, typer.Argument(help="The model to compare it with, in the same form.", show_default=False)],
    task: BothTasks = None,
    protocol: ProtocolName = None,
    metric: Metric = None,
    own_choice: Annotated[
        bool, typer.Option("--own-choice", help="Also use methods and seeds that are not part of the protocol.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Test whether model A is better than model B.

    Without --task, on all tasks that both are scored on.
    Without a method, each model's best one on the task is used: the verdict is
    that of the task's leaderboard, whose pairs of models are compared together.
    With methods, the tasks of a protocol are compared together. The test takes into account
    that splits share texts. On a task with a single split, the test needs two
    seeds or more: in the protocol (`seeds` in params.yaml), or from
    `traube run --seed` for both models, and --own-choice here.
    """
    from traube.comparison.promotion import advise_more_seeds
    from traube.comparison.standings import Comparison, compare_on_tasks, list_common_tasks
    from traube.comparison.verdict import Undecided
    from traube.metrics import full_name
    from traube.pipeline.params import load_params
    from traube.storage import open_storage

    metric = full_name(metric) if metric else None
    a, b = name_given_side(a), name_given_side(b)
    params, storage = load_params(), open_storage(paths.home())
    # tasks of one's own and those of the benchmark have different protocols, each of which is a family of comparisons
    protocols: dict[str, list[str]] = {}
    for one in task or list_common_tasks(storage, a, b):
        protocols.setdefault(protocol or params.protocol_for(task or [one]), []).append(one)
    comparisons, left_out = list[Comparison](), dict[str, str]()
    for name, tasks in protocols.items():
        try:
            asked = (storage, tasks, name, params.chosen(name), a, b, metric, own_choice)
            of_protocol, without = compare_on_tasks(*asked)
        except TraubeError as error:
            if len(protocols) == 1:
                raise
            of_protocol, without = [], dict.fromkeys(tasks, str(error))
        comparisons += of_protocol
        left_out |= without
    if not comparisons:
        raise TraubeError("nothing to compare: " + "; ".join(left_out.values()))
    print_unavailable(left_out, "left out")

    if as_json:
        rows = []
        for found in comparisons:
            sides = {
                side: {name: getattr(c, name) for name in ("model", "method", "fingerprint", "mean", "cells")}
                for side, c in (("a", found.a), ("b", found.b))
            }
            rows.append({"task": found.a.task, "metric": found.a.metric, "verdict": found.verdict.record(), **sides})
        print_json(rows)
        return

    for comparison in comparisons:
        left, right, verdict = comparison.a, comparison.b, comparison.verdict
        out.print(f"[bold]{left.task}[/], {left.metric}: [bold]{escape(verdict.answer)}[/]")
        width = max(len(left.name), len(right.name))
        for side, candidate in (("A", left), ("B", right)):
            out.print(f"  {side}      {candidate.name:<{width}}  {100 * candidate.mean:6.2f}", highlight=False)
        if verdict.evidence:
            out.print(f"  A - B  {verdict.evidence}", highlight=False)
            out.print(f"         [dim]{verdict.test}, {counted(verdict.splits, 'split')}[/]")
        if verdict.undecided is Undecided.ONE_SEED:
            out.print(f"  [dim]{advise_more_seeds(left.protocol)}[/]")
    used = ", ".join(dict.fromkeys(found.a.protocol for found in comparisons))
    out.print(f"[dim]scores x100; p two-sided, corrected for the number of comparisons; protocol {used}[/]")


def print_answer(found: "Best") -> None:
    """Print the best model, and the command that clusters new texts likewise, on one line that can be copied.

    If only models were compared that are made for other languages than the texts', the first line says so.
    """
    task = found.winner.task
    command = with_column(found.command, task)
    warning = found.fit.warning if found.fit else ""
    if found.fit and warning:
        _print_fit(warning, found.fit, task)
    out.print(escape(found.said), highlight=False, soft_wrap=True)
    if found.fit and not warning and found.fit.left_out:
        _print_fit(found.fit.not_compared, found.fit, task)
    out.print(f"To group new texts in this way: [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def print_language(storage: "Storage", task: str, models: "Sequence[str]") -> None:
    """Print the models made for the language of a task without labels, those that were tried and others."""
    from traube.reports.languages import fit_languages, languages_of
    from traube.tasks.stored import read_task

    fit = fit_languages(languages_of(read_task(storage, task)), models)
    if line := fit.warning or fit.not_compared:
        _print_fit(line, fit, task)


def _print_fit(line: str, fit: "LanguageFit", task: str) -> None:
    command = fit.command(f"traube run -t {quote(task)}")
    add = f" To add them: [bold]{escape(command)}[/]" if command else ""
    style = "yellow" if line == fit.warning else "dim"
    out.print(f"[{style}]{escape(line)}[/]{add}", highlight=False, soft_wrap=True)


def with_column(command: str, task: str) -> str:
    """Return a command that clusters tables like the task's, with the column that the task's card names."""
    from traube.tasks import sources
    from traube.tasks.readers.table import Table

    source = sources().get(task)
    column = source.settings.text if isinstance(source, Table) else "text"
    return command if column == "text" else f"{command} --text {quote(column)}"
