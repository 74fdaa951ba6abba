"""`traube cluster`: group one's own texts."""

import math
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from traube.cli import platform
from traube.cli.given import name_given_task, write_given_model
from traube.cli.options import MOST_SEED, Json
from traube.cli.printing import bars, counted, err, escape, out, print_json, print_notes, shown_number
from traube.core.disk import check_outputs
from traube.core.errors import TraubeError
from traube.core.escaping import format_csv
from traube.core.files import write_text

if TYPE_CHECKING:
    from traube.components.apply import Matrix
    from traube.grouping.cluster_texts import Clustering
    from traube.grouping.edits import GroupEdits
    from traube.tasks.reading import Rows

app = typer.Typer()
LISTED = 20  # groups
NUMBERS, SHORTEST = 34, 12  # characters that a line has for numbers and frames, and those for words at least
SHOWN = 200  # characters of a typical text, where the line is wide enough


@app.command()
def cluster(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of texts: .txt (one text a line), .csv, .tsv, .jsonl, .json, .xlsx or .parquet; "
            "- for standard input.",
            show_default=False,
        ),
    ],
    column: Annotated[
        str | None,
        typer.Option(
            "--text",
            help="The column that holds the texts. Default: the obvious one, which is said.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            callback=write_given_model,
            help="A model: a name of `traube models`, ORG/MODEL of the Hugging Face hub, or a folder. Default: minilm.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            help="What the texts were found for. For a model that compares texts for a query: minilm_query_space, "
            "or a trained similarity, which `traube models` lists as pairwise.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A method: reducer/clusterer; `traube methods` lists them. Default: none/stable_kmeans; for a "
            "similarity, which gives distances, none/agglomerative_average."
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="The number of groups. Default: the one that is found again most steadily in samples of the texts. "
            "With -k nothing says how clear the groups are: their score is left out (null in --json).",
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="The layer of groups that is taken, in place of -k: coarse, fine, or its number from 0, the coarsest, on."
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(help="A groups.yaml: groups that are renamed, merged and split (docs/how-to/group_texts.md)."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_SEED, help="The seed of everything random. Default: 42.", show_default=False),
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        typer.Option(help="Of a transformer. auto: bf16 where it is faster on this machine and agrees with fp32."),
    ] = "auto",
    noise: Annotated[
        bool, typer.Option("--noise", help="Set texts apart that fit no group (group -1). No other text moves.")
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(help="A table of texts that have groups: each text of FILE joins the nearest of these groups."),
    ] = None,
    group_column: Annotated[str, typer.Option("--group", help="The column of --like that holds the groups.")] = "group",
    champion: Annotated[
        str | None,
        typer.Option(
            callback=name_given_task,
            help="A task: each text joins a group of the clustering that the registry serves for it.",
        ),
    ] = None,
    name_with: Annotated[
        str | None,
        typer.Option(
            help="A causal language model on this machine (a folder, or a name of the hub) that names the groups."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file to write: a labeled map, the groups and the texts. Default: FILE.clusters.html.",
            show_default=False,
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    map_file: Annotated[
        Path | None,
        typer.Option("--map", help="Another HTML file to write: the labeled map alone.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The CSV file to write. Default: FILE.clusters.csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Group your own texts, and print what each group is about.

    Says how clear the groups are, and how steady each is: from 0 to 1, how well it is
    found again in other samples of the texts. Writes a CSV file: the columns of
    FILE, and for each text its group, the group's name, the distance to the mean of
    its group, and the group's stability.

    With --query, texts are grouped by what they say to it, by a model that compares them for a query:

    traube cluster found.csv --query "life at sea" --model minilm_query_space

    The distance is then the mean one to the group's other texts, where the
    most alike of all pairs is 0 apart and the least alike 1.

    Texts can join groups that are there: those of labelled texts, or a champion's:

    traube cluster new.csv --like labelled.csv --group topic

    traube cluster new.csv --champion TASK
    """
    from traube.grouping.edits import read_edits
    from traube.grouping.naming import named_by
    from traube.grouping.result_table import result_table
    from traube.models.likelihood import CausalModel
    from traube.reports.cluster_report import FEWEST, NOT_INSTALLED, can_draw
    from traube.tasks.files import STDIN, save_stdin

    is_piped = str(file) == STDIN
    file = save_stdin([column] if column else []) if is_piped else file
    beside = Path(file.name) if is_piped else file
    target = output or beside.with_name(f"{file.name}.clusters.csv")
    pages = {map_file: False} if map_file else {}  # whether groups and texts are listed beside the map
    wants_report = not no_report and (champion is None or report is not None)
    lacks_map = wants_report and not can_draw()
    if report is not None or (wants_report and not lacks_map):  # a champion's texts are encoded where it is served
        pages[report or beside.with_name(f"{file.name}.clusters.html")] = True
    check_outputs([target, *pages], [path for path in (file, like, groups) if path])
    rows, texts, text_column = _read_texts(file, column)
    # first: a name that is wrong costs no work
    namer = None if name_with is None else CausalModel.load(name_with, local=True)
    given = {"--model": model, "--method": method, "-k": k, "--layer": layer, "--groups": groups}
    given |= {"--seed": seed, "--query": query, "--like": like}
    if k is not None and layer is not None:
        raise TraubeError("-k and --layer both say where to cut: leave one of them out")
    edits = None if groups is None else read_edits(groups)
    with bars(of=f"encoding and clustering {counted(len(texts), 'text')}") as (progress, _):
        settings = {"model": model or "minilm", "query": query, "precision": precision, "progress": progress}
        if champion is not None:
            _refuse("--champion", given | {"--noise": noise or None, "--report": report, "--map": map_file}, allowed=())
            result, by = _by_champion(texts, champion)
        elif like is not None:
            _refuse("--like", given, allowed=("--model", "--query", "--like"))
            result, by = _by_examples(texts, like, column, group_column, **settings)
        else:
            result, by = _found(texts, method, k=k, seed=42 if seed is None else seed, **settings)
        if layer is not None:
            result = result.at_layer(layer)
        made = result.fingerprint
        if edits is not None:
            result = result.edit(edits, 42 if seed is None else seed)
        if noise:
            result = result.without_strays()
        if namer is not None:
            result = named_by(result, texts, namer, progress)
        if few := sum(bool(text.strip()) for text in texts) < FEWEST:
            pages = {}
        if pages:
            vectors = _vectors(texts, model or "minilm", precision)
            for page, panel in pages.items():
                write_text(page, _page(rows, texts, text_column, result, by, vectors, panel))
    written = [target, *pages]
    table = result_table(rows, result)
    write_text(target, format_csv(table))
    if as_json:
        print_json(
            _described(texts, result, by)
            | {"clustering": made, "k_given": k, "file": str(target), "pages": [str(page) for page in written[1:]]}
        )
        return
    if champion is None:
        _print_language(texts, model or "minilm", file)
    _print_groups(texts, result, by)
    _print_notes(result, by, k)
    if champion is None and like is None:
        _print_layers(result, made, edits)
    moved = [name for name in table if str(name).startswith("traube_") and name not in rows.columns]
    if moved:
        out.print(f"{file.name} has such columns already, so ours are {escape(', '.join(moved))}", highlight=False)
    if few:
        out.print(f"no report: a map needs at least {FEWEST} texts")
    if lacks_map and not pages:
        out.print(escape(f"no report: {NOT_INSTALLED}"), highlight=False, soft_wrap=True)
    out.print(f"written to {' and '.join(escape(str(path)) for path in written)}")


def _read_texts(file: Path, column: str | None) -> tuple["Rows", list[str], str]:
    """Return a table, the texts of the named or obvious column, and its name.

    Prints how the file was read if that may be wrong.
    """
    from traube.tasks.columns import guess_text_column
    from traube.tasks.files import read_file
    from traube.tasks.readers.table import read_column

    read = read_file(file)
    chosen = column or guess_text_column(read.rows)
    said = [f"texts in '{chosen}'"] if column is None and chosen != "text" else []
    if said or read.notes:
        err.print(escape(f"{file.name}: {', '.join([*said, *read.notes])}"))
    return read.rows, read_column(read.rows, chosen), chosen


def _print_language(texts: list[str], model: str, file: Path) -> None:
    """Print a note if the model is made for another language than the texts'."""
    from traube.reports.languages import fit_languages
    from traube.tasks.languages import detect_languages

    fit = fit_languages(detect_languages(texts), [model])
    if fit.warning:
        first = f"traube cluster {quote(str(file))} -m {fit.left_out[0].name}" if fit.left_out else ""
        use = f" To use the first: [bold]{escape(first)}[/]" if first else ""
        out.print(f"[yellow]{escape(fit.warning)}[/]{use}", highlight=False, soft_wrap=True)


def _refuse(option: str, given: dict[str, Any], allowed: tuple[str, ...]) -> None:
    """Refuse options that `option`, which puts texts into existing groups, does not allow."""
    other = [name for name, value in given.items() if value is not None and name not in allowed]
    if other:
        raise TraubeError(f"{option} puts texts into groups that are there: leave out {', '.join(other)}")


def _found(texts: list[str], method: str | None, **settings: Any) -> tuple["Clustering", str]:
    from traube.components import CLUSTERERS
    from traube.grouping.cluster_texts import STABLE, cluster_texts, usual_method
    from traube.models import load_model
    from traube.pipeline.params import load_params

    model, query = settings["model"], settings["query"]
    usual = usual_method(load_model(model))
    chosen = load_params().chosen().method(usual if method is None else method)
    if settings["k"] is not None and not (CLUSTERERS[chosen.clusterer].takes_k or chosen.name == STABLE):
        raise TraubeError(f"{chosen.name} finds the number of clusters by itself: leave out -k, or use {usual}")
    by = f"by {model}, {chosen.name}{f', for: {query}' if query else ''}"
    settings |= {"n_clusters": settings.pop("k"), "random_state": settings.pop("seed")}
    return cluster_texts(texts, algorithm=chosen, **settings), by


def _by_examples(
    texts: list[str], like: Path, column: str | None, group_column: str, **settings: Any
) -> tuple["Clustering", str]:
    from traube.grouping.known_groups import check_groups, labelled, put_like
    from traube.tasks.readers.table import read_column

    rows, candidates, _ = _read_texts(like, column)
    examples, groups = labelled(candidates, read_column(rows, group_column, "--group"))
    if left_out := len(rows) - len(examples):
        print_notes([f"{like.name}: {left_out} of {counted(len(rows), 'row')} left out: without a text or a group"])
    check_groups(groups, f"{like}: column '{group_column}'")
    return put_like(texts, examples, groups, **settings), f"of {like.name}, by {settings['model']}"


def _by_champion(texts: list[str], task: str) -> tuple["Clustering", str]:
    from traube.grouping.known_groups import put_by

    champion_of = platform.part("champion")
    if champion_of is None:
        raise TraubeError(
            "--champion: the registry of clusterings is part of the platform, which runs from a checkout of Traube"
        )
    served = champion_of(task)
    return put_by(served, texts), f"of {task}'s champion, by {served.card.name}, {served.method.name}"


def _vectors(texts: list[str], model: str, precision: Literal["auto", "fp32", "bf16"]) -> "Matrix":
    """Return the embeddings of texts that are not blank; they are cached since the texts were clustered."""
    from traube.grouping.cluster_texts import encoded, filled
    from traube.models import load_model

    return encoded(load_model(model, precision=precision), [texts[i] for i in filled(texts)])


def _page(
    rows: "Rows", texts: list[str], column: str, result: "Clustering", by: str, vectors: "Matrix", panel: bool
) -> str:
    import pandas as pd

    from traube.grouping.cluster_texts import CLEAR

    own = {name: values for name, values in rows.columns.items() if name != column and len(rows.columns) > 1}
    title = f"{rows.path.name}: {counted(len(result.sizes()), 'group')} of {counted(len(texts), 'text')}"
    notes = [f"Grouped {by}."]
    if result.clearness:
        notes.append(f"{result.clearness.capitalize()}: score {result.score:.2f}; from {CLEAR} on groups are clear.")
    columns = pd.DataFrame(own, dtype=object, index=range(len(texts)))
    return result.to_html(texts, vectors, title=title, notes=notes, columns=columns, panel=panel)


def _described(texts: list[str], result: "Clustering", by: str) -> dict[str, Any]:
    return {
        "by": by,
        "groups": [
            {
                "group": c,
                "name": result.name(c),
                "texts": size,
                "stability": result.stability.get(c),
                "words": result.words[c],
                "typical": [texts[i] for i in result.typical.get(c, [])],
            }
            for c, size in result.sizes().items()
        ],
        "noise": result.noise,
        "empty": result.blank,
        "strays": result.unsettled,
        "clearness": result.clearness or None,
        "score": None if math.isnan(result.score) else result.score,
        "about_as_good": result.about_as_good,
    }


def _print_groups(texts: list[str], result: "Clustering", by: str) -> None:
    """Print the largest groups, with a line for each typical text."""
    from rich.table import Table

    sizes = result.sizes()
    rated = bool(result.stability)
    shown = Table(title=f"{counted(len(sizes), 'group')} {escape(by)}", title_justify="left")
    for name in ("group", "texts", *(["stability"] if rated else [])):
        shown.add_column(name, justify="right", no_wrap=True)
    half = max(SHORTEST, (out.width - NUMBERS) // 2)
    shown.add_column("name and key words", max_width=half)
    cut = out.is_terminal  # a file has room for more lines
    shown.add_column("typical texts", max_width=half, no_wrap=cut, overflow="ellipsis" if cut else "fold")
    for c, size in list(sizes.items())[:LISTED]:
        examples = "\n".join(escape(" ".join(texts[i][:SHOWN].split())) for i in result.typical.get(c, []))
        steady = [shown_number(result.stability.get(c), 2)] if rated else []
        words = escape(", ".join(result.words[c]))
        given = f"[bold]{escape(result.names[c])}[/]\n" if result.names.get(c) else ""
        shown.add_row(str(c), str(size), *steady, given + words, examples)
    if sizes:
        out.print(shown)
    if len(sizes) > LISTED:
        out.print(f"and {counted(len(sizes) - LISTED, 'smaller group')}: in the file, or with --json")


def _print_notes(result: "Clustering", by: str, k: int | None) -> None:
    """Print the notes on the groups; `k` is None if their number was found."""
    apart, blank, strays = result.noise, result.blank, result.unsettled
    if blank:
        texts = counted(len(result.labels), "text")
        out.print(f"{blank} of {texts} {'is empty: it is' if blank == 1 else 'are empty: they are'} in no group")
    if apart and not result.sizes():
        out.print(
            f"no group {escape(by)}: all {counted(apart, 'text')} are noise (group -1), too few or too unlike for this "
            "method; none/stable_kmeans puts every text into a group"
        )
    elif apart:
        out.print(f"{counted(apart, 'text')} in no group (noise, group -1)")
    if strays:
        fit, them = ("fits", "it") if strays == 1 else ("fit", "them")
        out.print(f"{counted(strays, 'text')} {fit} no group well: --noise sets {them} apart")
    if k is not None and len(result.sizes()) < k:
        out.print(f"{counted(k, 'group')} asked for, {len(result.sizes())} found: the texts are too alike for more")
    if k is not None and result.stability:
        out.print("no score with -k: without it, how clear the groups are is said too")
    if result.clearness:
        out.print(_told(result), highlight=False)
    elif result.k_table is not None:
        measure = result.k_table.columns[1]
        of_what = " of the distances with being in different groups" if measure == "correlation" else ""
        fits = ", ".join(f"{k}: {fit:.3f}" for k, fit in result.k_table.itertuples(index=False))
        out.print(f"k was chosen by {measure}{of_what}: {fits}")


def _print_layers(result: "Clustering", made: str, edits: "GroupEdits | None") -> None:
    """Print the layers, the changes by a groups.yaml, and the name of the clustering."""
    if result.layers:
        numbers = [len(set(layer.labels.tolist()) - {-1}) for layer in result.layers]
        sizes = ", ".join(f"[bold]{n}[/]" if i == result.level else str(n) for i, n in enumerate(numbers))
        out.print(
            f"layers of {sizes} groups: --layer 0 (coarse) to {len(numbers) - 1} (fine) takes another", highlight=False
        )
    if edits is not None:
        name = escape(str(edits.path))
        out.print(f"{name}: {counted(len(edits.edits), 'edit')} applied to clustering {made}", highlight=False)
    else:
        out.print(
            f"--groups FILE renames, merges and splits them; numbers in it are of clustering {made}", highlight=False
        )


def _told(result: "Clustering") -> str:
    """Describe how clear the groups are, and which other numbers of groups are about as good."""
    from traube.grouping.cluster_texts import CLEAR

    assert result.k_table is not None
    scale = f"0 in texts without groups, from {CLEAR} on they are clear"
    said = f"[bold]{result.clearness}[/] (score {result.score:.2f}: {scale})"
    if len(result.k_table) == 1:
        return "[bold]no clear groups[/]: there are too few texts to tell; -k NUMBER makes as many as you want"
    if result.clearness == "no clear groups":
        return f"{said}: what is shown may be chance; -k NUMBER makes as many as you want"
    if len(near := result.about_as_good) > 1:
        return f"{said}; {min(near)} to {max(near)} groups are about as steady: -k NUMBER chooses"
    return said
