"""Commands that list: tasks, models, methods, and the tables of the papers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traube._cli.given import name_given_model, name_given_task
from traube._cli.options import Json
from traube._cli.printing import escape, out, print_json, print_table
from traube._core import paths
from traube._core.cards import name_card
from traube._core.errors import TraubeError, Unavailable, unknown
from traube._core.escaping import escape_controls
from traube._core.references import cite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traube.models import ModelCard

MOST_CODES = 3  # languages that a row names; of more it says how many

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
    traube tasks pydocs_s2s
    """
    from traube.tasks import card_errors, get_source, sources

    if task is not None:
        source = get_source(task)
        fields = ("description", "family", "language", "license", "source", "citation")
        about = {"task": source.name, **{name: getattr(source.card, name) for name in fields}}
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
        {"task": name_card(path), "family": "own", "language": "", "license": "", "status": str(e)}
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
    max_megabytes: Annotated[
        int | None, typer.Option(min=1, help="Only models whose download is known to be no larger.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models and whether their weights are on this machine.

    Examples
    --------
    traube models gbert_base
    traube models --language de --max-megabytes 600

    With --language, models come first that cluster best in it by MTEB's published scores (mean
    v-measure in percent); others follow by size. What is fitted on your texts is left out.
    """
    from traube.models import load_model, model_cards, split_cut
    from traube.models.choosing import sort_by_score

    cards = model_cards()
    if model is not None:
        if split_cut(model)[0] not in cards:
            raise unknown("model", model, cards)
        cards[model] = load_model(model).card
    if language:
        cards = {name: card for name, card in cards.items() if card.languages and card.is_made_for(language)}
    if max_megabytes:
        cards = {name: card for name, card in cards.items() if card.megabytes and card.megabytes <= max_megabytes}
    if model is not None:
        card = cards[model]
        about = _describe(card, language or ()) | _describe_prompts(card)
        _print_one(about | {"description": card.description, "citation": cite(card.citation)}, as_json)
        return
    rows = [_describe(card, language or ()) for card in sort_by_score(cards.values(), language or ())]
    if as_json:
        print_json(rows)
        return
    cells = [{key: _to_cell(key, value) for key, value in row.items() if key != "score" or language} for row in rows]
    optional = ["revision", "source", "kind", "released", "parameters", "dimensions", "longest input", "license"]
    print_table(cells, fold={"source": 30, "status": 16}, optional=[*optional, "languages"])


def _to_cell(key: str, value: Any) -> str:
    from traube._reports.languages import describe_count

    if isinstance(value, list):  # of dimensions: a Matryoshka model's from the least to the full ones
        return "-".join(dict.fromkeys([str(value[0]), str(value[-1])])) if value else ""
    if key == "languages":
        codes = value.split()
        return value if len(codes) <= MOST_CODES else f"{len(codes)} languages"
    if key == "score" and value is not None:
        return f"{value:.1f}"
    return describe_count(value) if key == "parameters" else str("" if value is None else value)


def _describe(card: "ModelCard", languages: "Sequence[str]") -> dict[str, Any]:
    """Return a row on a model: what a person chooses by, and whether it is on this machine."""
    from traube.models.choosing import find_score
    from traube.models.similarity import TrainedSimilarity
    from traube.models.weights import check_present, locate

    status = "ready"
    try:
        if card.kind in ("packaged", "transformer", "pairwise"):
            check_present(card)
        if card.kind == "pairwise":
            TrainedSimilarity.at(locate(card))
    except Unavailable:
        status = "to be downloaded" if card.package is None else "not installed"
    except TraubeError as error:
        status = str(error)
    terms = f", {card.features} terms" if card.features else ""
    source = card.weights or f"fitted on each task's texts{terms}"
    source += f", compared by {card.similarity}" if card.similarity else ""
    return {
        "model": card.name,
        "score": find_score(card, languages),
        "MB": card.megabytes,
        "parameters": card.parameters,
        "dimensions": list(card.vector_sizes) if card.dimensions is None else [card.dimensions],
        "longest input": card.max_length or card.longest_input,
        "languages": " ".join(card.languages) or "-",
        "license": card.license,
        "released": card.released and f"{card.released}",
        "kind": card.kind,
        "source": source,
        "revision": card.revision or "",
        "status": status,
    }


def _describe_prompts(card: "ModelCard") -> dict[str, str]:
    """Return the prompts of a model whose weights are here: for clustering, and for pairs if that is another one."""
    from traube.models import model_of
    from traube.models.prompts import for_pairs, get_model_prompt

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
    from traube._reports.papers.results import results_page, write_results
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    if output is None:
        print(escape_controls(results_page(storage)), end="")  # noqa: T201
    else:
        write_results(storage, output)
        out.print(f"Written to {escape(str(output))}")
