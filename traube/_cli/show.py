"""Commands that list: tasks, models, methods, and the tables of the papers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from traube._cli.given import name_given_model, name_given_task
from traube._cli.options import Json
from traube._cli.printing import escape, out, print_json, print_table
from traube._core import paths
from traube._core.errors import TraubeError, Unavailable, unknown
from traube._core.escaping import escape_controls
from traube._core.references import cite

if TYPE_CHECKING:
    from traube.models import ModelCard

Format = Literal["table", "markdown", "latex", "csv", "json"]
SHOWN = 30  # models of a table, unless all are requested

app = typer.Typer()


@app.command()
def tasks(
    task: Annotated[
        str | None,
        typer.Argument(
            callback=name_given_task, help="Task to describe, and where to get its data.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the tasks and whether their raw data is on this machine.

    Examples
    --------
    traube tasks
    traube tasks tenkgnad_p2p
    """
    from traube.tasks import card_errors, get_source, sources

    if task is not None:
        source = get_source(task)
        shown = ("description", "family", "language", "license", "source", "citation")
        about = {"task": source.name, **{name: getattr(source.card, name) for name in shown}}
        about["citation"] = cite(source.card.citation)
        _print_one({**about, "status": source.missing() or "ready"}, as_json)
        return

    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "family": s.card.family,
            "language": "-" if s.card.language == "und" else s.card.language,
            "license": s.card.license,
            "status": s.missing() or "ready",
        }
        for name, s in sorted(sources().items(), key=lambda entry: entry[1].card.family != "own")
    ]
    rows += [
        {"task": Path(path).stem, "family": "own", "language": "", "license": "", "status": str(e)}
        for path, e in card_errors().items()
    ]
    if as_json:
        print_json(rows)
        return
    absent = [name for name, source in sources().items() if source.missing()]
    for row in rows:
        row["status"] = "not here" if row["task"] in absent else row["status"]
    print_table(rows, fold={"license": 14, "status": 31}, optional=["license", "language", "family"])
    if absent:
        out.print(f"[dim]`traube tasks {absent[0]}` says where to get what is not here[/]")


def _print_one(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json([about])
        return
    for name, value in about.items():
        if value:
            out.print(f"[bold]{name}[/]: {escape(str(value))}")


@app.command()
def models(
    model: Annotated[
        str | None, typer.Argument(callback=name_given_model, help="Model to describe.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Only models made for this language, like de; repeat for more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models and whether their weights are on this machine.

    Examples
    --------
    traube models gbert_base
    traube models --language de
    """
    from traube._reports.languages import describe_size
    from traube.models import load_model, model_cards, split_cut
    from traube.models._similarity import TrainedSimilarity
    from traube.models._weights import check_folder, locate

    cards = model_cards()
    if model is not None:
        if split_cut(model)[0] not in cards:
            raise unknown("model", model, cards)
        cards[model] = load_model(model).card
    if language:
        cards = {name: card for name, card in cards.items() if card.languages and card.is_made_for(language)}
    rows = []
    for name, card in cards.items() if model is None else [(model, cards[model])]:
        status = "ready"
        try:
            if card.kind in ("packaged", "transformer", "pairwise"):
                check_folder(locate(card), card)
            if card.kind == "pairwise":
                TrainedSimilarity.at(locate(card))
        except Unavailable:
            status = "to be downloaded"
        except TraubeError as error:
            status = str(error)
        terms = f", {card.features} terms" if card.features else ""
        source = card.weights or f"fitted on each task's texts{terms}"
        source += f", compared by {card.similarity}" if card.similarity else ""
        size = f" ({describe_size(card)})" if status == "to be downloaded" and card.megabytes else ""
        about = {"model": name, "kind": card.kind, "languages": " ".join(card.languages) or "-", "source": source}
        rows.append({**about, "revision": card.revision or "", "status": f"{status}{size}"})
    if model is not None:
        card = cards[model]
        more = {"description": card.description, "citation": cite(card.citation)}
        _print_one(rows[0] | _describe_prompts(card) | more, as_json)
    elif as_json:
        print_json(rows)
    else:
        print_table(rows, fold={"source": 30, "status": 16}, optional=["revision", "source", "kind", "languages"])


def _describe_prompts(card: "ModelCard") -> dict[str, str]:
    """Return the prompts of a model whose weights are here: for clustering, and for pairs if that is another one."""
    from traube.models import model_of
    from traube.models._prompts import for_pairs, get_model_prompt

    try:
        model = model_of(card)
        prompts = {"prompt": get_model_prompt(model), "prompt for pairs": get_model_prompt(for_pairs(model))}
    except TraubeError:  # the status says why
        return {}
    if prompts["prompt for pairs"] == prompts["prompt"]:
        del prompts["prompt for pairs"]
    return {name: repr(prompt) for name, prompt in prompts.items() if any(prompts.values())}


@app.command()
def methods(
    every: Annotated[bool, typer.Option("--all", help="Also list unsupported pairs, with the reason.")] = False,
    as_json: Json = False,
) -> None:
    """List reducers and clusterers, whose pairs are methods, like umap/hdbscan.

    Examples
    --------
    traube methods
    traube methods --all --json
    """
    from traube.components import CLUSTERERS, REDUCERS, grid

    components: list[dict[str, Any]] = [
        {"component": kind, "name": name, "parameters": ", ".join(f"{k}={v}" for k, v in component.params.items())}
        for kind, registry in (("reducer", REDUCERS), ("clusterer", CLUSTERERS))
        for name, component in registry.items()
    ]
    methods = grid(list(REDUCERS), list(CLUSTERERS))
    pairs: dict[str, str] = {m.name: reason for m in methods if (reason := m.unsupported())}
    if as_json:
        unsupported = [{"component": "unsupported", "name": n, "parameters": reason} for n, reason in pairs.items()]
        print_json([*components, *unsupported])
        return
    print_table(components, fold={"parameters": 31})
    if every:
        out.print()
        lines = [{"pair": name, "why it makes no sense": reason} for name, reason in pairs.items()]
        print_table(lines, fold={"why it makes no sense": 31})
    else:
        out.print(f"{len(pairs)} pairs make no sense; `traube methods --all` lists them with the reason")


@app.command()
def papers(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Markdown file to write. Default: print it.")
    ] = None,
) -> None:
    """Show the papers' tables: each printed number beside the measured one.

    Examples
    --------
    traube papers
    traube papers --output docs/results.md

    With --output the rows are written into a folder of that name, too. Numbers in it that this
    data directory lacks stay on the page.
    """
    from traube._papers.results import results_page, write_results
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    if output is None:
        print(escape_controls(results_page(storage)), end="")  # noqa: T201
    else:
        write_results(storage, output)
        out.print(f"Written to {escape(str(output))}")
