"""`traube pairs`: how well models tell how alike two texts are."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import Json, Models
from cli.printing import bars, escape, out, print_json, print_table, print_unavailable
from traube.foundation.errors import Unavailable

app = typer.Typer()


@app.command()
def pairs(
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="A pair task; repeat for more. Without one, they are listed."),
    ] = None,
    model: Models = None,
    part: Annotated[str, typer.Option(help="Which pairs: test, validation or train.")] = "test",
    comparison: Annotated[
        str | None,
        typer.Option(help="How vectors are compared: cosine, euclidean or dot. Default: cosine, or the model's own."),
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Also by domain, number of turns and the like.")] = False,
    as_json: Json = False,
) -> None:
    """Compare models' similarities with gold scores of pairs of texts.

    traube pairs -t stsb_de -m minilm -m tfidf -m lsa

    Pearson's r and Spearman's rho with 95 % intervals, from a bootstrap over
    dialogues (or over pairs, where there are no dialogues). Pairs with a
    history are scored without it and with it joined to both texts. What was
    computed before is not computed again.
    A table of your own needs a card with the key `pairs`; see cards/README.md.
    """
    from traube.benchmark.params import load_params
    from traube.tasks import get_pair_source

    if not task:
        _list()
        return
    named = list(model or load_params().models)
    rows: list[dict[str, Any]] = []
    for name in task:
        source = get_pair_source(name)
        source.fetch()
        rows += _rows(source.load(), named, part, comparison, groups)
    if as_json:
        print_json(rows)
        return
    histories = any(row["history"] for row in rows)
    print_table([_in_words(row, groups, histories) for row in rows], optional=("comparison", "pairs"))


def _rows(task: Any, models: list[str], part: str, comparison: Any, groups: bool) -> Iterator[dict[str, Any]]:
    from traube.engine.pair_cells import pair_cells, score_missing
    from traube.engine.pair_scores import ALL, usual_comparison
    from traube.engine.workbench import Workbench
    from traube.foundation import paths
    from traube.models import load_model
    from traube.store.pairs import PairStore

    workbench = Workbench.at(paths.home())
    with bars() as (progress, _):
        for name in models:
            model = load_model(name)
            try:
                model.fetch()
            except Unavailable as error:
                if len(models) == 1:
                    raise
                print_unavailable({name: str(error)})
                continue
            cells = pair_cells(task, model, [comparison or usual_comparison(model)], part)
            score_missing(task, model, cells, workbench, progress=progress)
            for row in PairStore.of(workbench.store).scores(cells).to_dict("records"):
                if groups or row["group"] == ALL:
                    yield {str(key): value for key, value in row.items()}


def _list() -> None:
    from traube.tasks import pair_sources

    for name, source in pair_sources().items():
        reason = source.missing()
        out.print(
            f"[bold]{name}[/]: {escape(source.card.description)}"
            + (f" [yellow]missing:[/] {escape(reason)}" if reason else "")
        )


def _in_words(row: dict[str, Any], groups: bool, histories: bool) -> dict[str, str]:
    shown = {key: str(row[key]) for key in ("task", "model", "comparison")}
    if histories:
        shown["history"] = "joined" if row["history"] else ""
    if groups:
        shown["of"] = f"{row['group']} {row['value']}".strip()
    shown["pairs"] = str(row["pairs"])
    for kind in ("pearson", "spearman"):
        low, high = (f"{row[f'{kind}_{end}']:.2f}".replace("0.", ".") for end in ("low", "high"))
        shown[kind] = f"{row[kind]:.3f} [{low}, {high}]"
    return shown
