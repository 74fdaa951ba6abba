"""`traube cluster`: group one's own texts."""

import math
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from traube._cli import platform
from traube._cli.given import make_format, name_given_task, write_given_model
from traube._cli.options import MOST_SEED, Budget, Encoding, Json, NoHeader, Quote, Separator, Sheet
from traube._cli.printing import err, escape, format_number, out, pluralize, print_json, print_notes, show_progress
from traube._core.disk import check_outputs
from traube._core.errors import Conflict, NotInstalled
from traube._core.escaping import format_csv
from traube._core.files import write_text
from traube._core.progress import Progress
from traube._core.words import INSTALL, lack_words

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from traube._grouping.clustering import Clustering
    from traube._grouping.edits import GroupEdits
    from traube._grouping.naming import Namer
    from traube.components.new_points import Matrix
    from traube.tasks.reading import Rows, TableFormat

app = typer.Typer()
LISTED = 20  # groups
NUMBERS, SHORTEST = 34, 12  # characters that a line has for numbers and frames, and those for words at least
SHOWN = 200  # characters of a typical text, where the line is wide enough
SEED = 42

Precision = Literal["auto", "fp32", "bf16"]
File = Annotated[
    Path,
    typer.Argument(help="Texts (txt, csv, tsv, jsonl, json, xlsx, xls, parquet), or -.", show_default=False),
]
Text = Annotated[str | None, typer.Option(help="Column of the texts. Default: the obvious one.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        callback=write_given_model,
        help="Model name, Hugging Face id, folder or URL#MODEL. Default: by language.",
    ),
]
Query = Annotated[
    str | None, typer.Option("--query", "-q", help="Query that texts are compared for; needs a pairwise model.")
]
MethodOption = Annotated[
    str | None,
    typer.Option("--method", help="Reducer and clusterer, like umap/hdbscan. Default: none/stable_kmeans."),
]
K = Annotated[int | None, typer.Option("-k", help="Number of groups. Default: the most stable number.")]
Layer = Annotated[str | None, typer.Option(help="Layer to cut at: coarse, fine, or a number from 0.")]
Groups = Annotated[
    Path | None, typer.Option(help="groups.yaml: groups to rename, merge and split (docs/how-to/group_texts.md).")
]
Seed = Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help=f"Random seed. Default: {SEED}.")]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="Precision of a transformer; auto: bf16 where it is faster.")
]
Noise = Annotated[bool, typer.Option("--noise", help="Put texts that fit no group into group -1.")]
Like = Annotated[Path | None, typer.Option(help="Table of labeled texts; each text joins the nearest group.")]
GroupColumn = Annotated[str, typer.Option("--group", help="Column of --like that holds the groups.")]
Champion = Annotated[
    str | None, typer.Option(callback=name_given_task, help="Task whose served clustering assigns the texts.")
]
NameWith = Annotated[
    str | None, typer.Option(help="Model that names the groups: an endpoint's URL#MODEL, or on this disk.")
]
NameBudget = Annotated[
    int, typer.Option("--name-budget", min=1, help="Most tokens that --name-with may read and write.")
]
Report = Annotated[Path | None, typer.Option(help="Report to write. Default: FILE.clusters.html.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no report.")]
MapFile = Annotated[Path | None, typer.Option("--map", help="HTML file for the labeled map alone.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="CSV file; formulas begin with an apostrophe. Default: FILE.clusters.csv.",
    ),
]


@dataclass(frozen=True)
class Options:
    """The way texts are grouped, as the command line asks for it."""

    text: str | None
    model: str | None
    query: str | None
    method: str | None
    k: int | None
    layer: str | None
    groups: Path | None
    seed: int | None
    precision: Precision
    noise: bool
    like: Path | None
    group: str
    champion: str | None
    name_with: str | None
    budget: int

    @property
    def model_name(self) -> str:
        """The model, or the usual one where none had to be chosen."""
        from traube._pipeline.default_model import DEFAULT

        return self.model or DEFAULT

    def refuse_with(self, option: str, allowed: Collection[str] = (), **others: Any) -> None:
        """Refuse options that `option`, which puts texts into existing groups, does not allow."""
        names = ("model", "method", "k", "layer", "groups", "seed", "query", "like", "name_with")
        given = {name: getattr(self, name) for name in names if name not in allowed} | others
        wrong = [
            "-k" if name == "k" else f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None
        ]
        if wrong:
            raise Conflict(f"{option} puts texts into existing groups: leave out {', '.join(wrong)}")


@dataclass(frozen=True)
class Grouped:
    """Texts with their groups, and what made them."""

    result: "Clustering"
    by: str  # the model and method, in words
    fingerprint: str  # of the clustering before edits, which a groups.yaml names
    edits: "GroupEdits | None" = None


@app.command()
def cluster(
    file: File,
    text: Text = None,
    separator: Separator = None,
    quote: Quote = None,
    no_header: NoHeader = False,
    encoding: Encoding = None,
    sheet: Sheet = None,
    model: ModelOption = None,
    query: Query = None,
    method: MethodOption = None,
    k: K = None,
    layer: Layer = None,
    groups: Groups = None,
    seed: Seed = None,
    precision: PrecisionOption = "auto",
    budget: Budget = None,
    noise: Noise = False,
    like: Like = None,
    group: GroupColumn = "group",
    champion: Champion = None,
    name_with: NameWith = None,
    name_budget: NameBudget = 20_000,
    report: Report = None,
    no_report: NoReport = False,
    map_file: MapFile = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Group your own texts, and print what each group is about.

    Examples
    --------
    traube cluster notes.txt
    traube cluster new.csv --text body --like labeled.csv --group topic

    Writes the groups to FILE.clusters.csv and a report with a labeled map to
    FILE.clusters.html. See docs/how-to/group_texts.md.
    """
    from traube._grouping.naming import load_namer
    from traube._grouping.result_table import result_table
    from traube._reports.cluster_report import FEWEST
    from traube.tasks.piped import is_piped, save_piped

    form = make_format(separator, quote, no_header, encoding, sheet)
    columns = [text] if text else []
    beside = file
    if is_piped(str(file)):
        file = save_piped(str(file), columns, form)
        beside = Path(file.name)  # where the command was called, not in the data directory
    if like and is_piped(str(like)):
        like = save_piped(str(like), [group, *columns])
    model_and_method = (text, model, query, method, k, layer, groups, seed, precision, noise)
    options = Options(*model_and_method, like, group, champion, name_with, name_budget)
    target = output or beside.with_name(f"{file.name}.clusters.csv")
    # a champion's texts are encoded where it is served
    default = None if no_report or champion is not None else beside.with_name(f"{file.name}.clusters.html")
    pages = _plan_pages(report, default, map_file)
    check_outputs([target, *pages], [path for path in (file, like, groups) if path])
    rows, texts, column = _read_texts(file, text, form)
    namer = None if name_with is None else load_namer(name_with)  # first: a wrong name costs no work
    if champion is not None:
        options.refuse_with("--champion", allowed=("name_with",), report=report, map=map_file)
    elif model is None:
        options = replace(options, model=_choose_model(texts))
    if sum(bool(text.strip()) for text in texts) < FEWEST:
        pages = {}
    with ThreadPoolExecutor(1) as other:  # the map is laid out while groups are found and named
        placing = _Placing(texts, other)
        with show_progress(of=f"encoding and clustering {pluralize(len(texts), 'text')}") as (progress, _):
            grouping = _group(texts, options, namer, replace(progress, encoded=placing.start) if pages else progress)
        table = result_table(rows, grouping.result)
        write_text(target, format_csv(table))
        if grouping.result.naming_note:
            print_notes([grouping.result.naming_note])
        if not as_json:
            _print_result(rows, table, texts, grouping, options)
        if pages:
            with show_progress(of="drawing the map"):
                _write_pages(pages, rows, texts, column, grouping, placing.wait(options))
    if as_json:
        print_json(_describe(texts, grouping) | {"k_given": k, "file": str(target), "pages": list(map(str, pages))})
        return
    if not pages and (report or default):
        out.print(f"no report: a map needs at least {FEWEST} texts")
    out.print(f"written to {' and '.join(escape(str(path)) for path in (target, *pages))}")


def _choose_model(texts: list[str]) -> str:
    """Return the default model for some texts; print why if that is not the usual one."""
    from traube._pipeline.default_model import choose_model
    from traube.tasks.languages import detect_languages

    chosen = choose_model(detect_languages(texts))
    if chosen.reason:
        err.print(escape(f"{chosen.reason}; -m names another"), highlight=False, soft_wrap=True)
    return chosen.name


def _plan_pages(report: Path | None, default: Path | None, map_file: Path | None) -> dict[Path, bool]:
    """Return the pages to write, and whether each lists groups and texts beside its map."""
    pages = {map_file: False} if map_file else {}
    if chosen := report or default:
        pages[chosen] = True
    return pages


def _group(texts: list[str], options: Options, namer: "Namer | None", progress: Progress) -> Grouped:
    """Group texts, or put them into existing groups; then cut, edit, clean and name them as the options say."""
    from traube._grouping.edits import read_edits

    if options.k is not None and options.layer is not None:
        raise Conflict("-k and --layer both say where to cut: leave one of them out")
    edits = None if options.groups is None else read_edits(options.groups)
    seed = SEED if options.seed is None else options.seed
    if options.champion is not None:
        result, by = _join_champion(texts, options.champion)
    elif options.like is not None:
        options.refuse_with("--like", allowed=("model", "query", "like"))
        result, by = _join_examples(texts, options.like, options, progress)
    else:
        result, by = _find_groups(texts, seed, options, progress)
    if options.layer is not None:
        result = result.at_layer(options.layer)
    if namer is not None:  # before the edits, which may call groups by these names
        result = result.name_clusters(namer, budget=options.budget, progress=progress)
    fingerprint = result.fingerprint
    if edits is not None:
        result = result.edit(edits, seed)
    if options.noise:
        result = result.without_strays()
    return Grouped(result, by, fingerprint, edits)


class _Placing:
    """The positions of texts on the map, found by a thread: UMAP's layout lets others work."""

    def __init__(self, texts: Sequence[str], other: ThreadPoolExecutor) -> None:
        self._texts, self._other = texts, other
        self._points: Future[NDArray[np.float32]] | None = None

    def start(self, vectors: "Matrix") -> None:
        """Place the texts, given the vectors of the distinct ones."""
        from threadpoolctl import threadpool_limits

        from traube._grouping.inputs import find_distinct
        from traube._reports.placing import import_layout, place_texts

        _, which = find_distinct(self._texts)
        import_layout()  # here: two threads that import at once can meet modules that are half there
        # until the end: whoever restores another limit meanwhile would change the layout's last digits
        self._limits = threadpool_limits(1, "blas")
        self._points = self._other.submit(place_texts, vectors[which[which >= 0]])

    def wait(self, options: Options) -> "NDArray[np.float32]":
        """Return the positions of the texts that are not blank; where nobody started, of their cached vectors."""
        from traube._grouping.inputs import encode_texts
        from traube.models import load_model

        if self._points is None:
            model = load_model(options.model_name, precision=options.precision)
            self.start(encode_texts(model, list(dict.fromkeys(filter(str.strip, self._texts)))))
        assert self._points is not None
        points = self._points.result()
        self._limits.restore_original_limits()
        return points


def _write_pages(
    pages: dict[Path, bool],
    rows: "Rows",
    texts: list[str],
    column: str,
    grouping: Grouped,
    points: "NDArray[np.float32]",
) -> None:
    """Write the pages (paths, and whether each has a panel)."""
    import pandas as pd

    from traube._grouping.clustering import CLEAR

    result = grouping.result
    other_columns = {name: values for name, values in rows.columns.items() if name != column and len(rows.columns) > 1}
    title = f"{rows.path.name}: {pluralize(len(result.sizes()), 'group')} of {pluralize(len(texts), 'text')}"
    notes = [f"Grouped {grouping.by}."]
    if result.clearness:
        notes.append(f"{result.clearness.capitalize()}: score {result.score:.2f}; from {CLEAR} on groups are clear.")
    columns = pd.DataFrame(other_columns, dtype=object, index=range(len(texts)))
    for page, panel in pages.items():
        write_text(page, result.to_html(texts, title=title, notes=notes, columns=columns, panel=panel, points=points))


def _print_result(rows: "Rows", table: "pd.DataFrame", texts: list[str], grouping: Grouped, options: Options) -> None:
    """Print the groups, and what to bear in mind of them."""
    if options.champion is None:
        _print_language(texts, options.model_name, rows.path)
    _print_groups(texts, grouping.result, grouping.by)
    if lack_words(texts):
        line = f"key words are n-grams of characters, for want of dictionaries: {INSTALL} gives words"
        out.print(escape(line), highlight=False, soft_wrap=True)
    _print_unknown(texts, grouping.result, options.model_name, rows.path)
    if grouping.result.long_texts:
        line = grouping.result.long_texts.describe(options.model_name)
        out.print(f"{escape(line)}: the rest was not read", highlight=False, soft_wrap=True)
    _print_caveats(grouping.result, grouping.by, options.k)
    if options.champion is None and options.like is None:
        _print_layers(grouping)
    moved = [name for name in table if str(name).startswith("traube_") and name not in rows.columns]
    if moved:
        names = escape(", ".join(moved))
        out.print(f"{rows.path.name} has such columns already, so ours are {names}", highlight=False)


def _read_texts(file: Path, column: str | None, form: "TableFormat | None" = None) -> tuple["Rows", list[str], str]:
    """Return a table, the texts of the named or obvious column, and its name.

    Prints how the file was read if that may be wrong.
    """
    from traube.tasks.columns import guess_text_column
    from traube.tasks.readers.table import read_column
    from traube.tasks.reading import read_rows

    rows = read_rows(file, form)
    chosen = column or guess_text_column(rows)
    notes = [f"texts in '{chosen}'"] if column is None and chosen != "text" else []
    if notes or rows.notes:
        err.print(escape(f"{file.name}: {', '.join([*notes, *rows.notes])}"))
    return rows, read_column(rows, chosen), chosen


def _print_language(texts: list[str], model: str, file: Path) -> None:
    """Print a note if the model is made for another language than the texts'."""
    from traube._reports.languages import fit_languages
    from traube.tasks.languages import detect_languages

    fit = fit_languages(detect_languages(texts), [model])
    if fit.warning:
        first = f"traube cluster {quote(str(file))} -m {fit.suggestions[0].name}" if fit.suggestions else ""
        use = f" To use the first: [bold]{escape(first)}[/]" if first else ""
        out.print(f"[yellow]{escape(fit.warning)}[/]{use}", highlight=False, soft_wrap=True)


def _print_unknown(texts: list[str], result: "Clustering", model: str, file: Path) -> None:
    """Print how many texts hold no word that the model knows, and a model for their language."""
    from traube._reports.languages import fit_languages
    from traube.tasks.languages import detect_languages

    if not result.unknown.any():
        return
    rows = result.unknown.nonzero()[0].tolist()
    of_all = f"{len(rows)} of {pluralize(len(texts), 'text')}"
    hold, are = ("holds", "it is") if len(rows) == 1 else ("hold", "they are")
    fit = fit_languages(detect_languages([texts[i] for i in rows]), [model])
    command = f"traube cluster {quote(str(file))} -m {fit.suggestions[0].name}" if fit.suggestions else ""
    use = f"; made for {fit.words}: [bold]{escape(command)}[/]" if command else ""
    line = f"{of_all} {hold} no word that {escape(model)} knows: {are} in no group (-1){use}"
    out.print(line, highlight=False, soft_wrap=True)


def _find_groups(texts: list[str], seed: int, options: Options, progress: Progress) -> tuple["Clustering", str]:
    """Cluster texts; return what made the groups, too."""
    from traube._grouping.cluster_texts import cluster_texts
    from traube._grouping.inputs import default_method
    from traube._pipeline.params import load_params
    from traube.components import CLUSTERERS
    from traube.models import load_model

    model = options.model_name
    usual = default_method(load_model(model))
    method = load_params().chosen().method(usual if options.method is None else options.method)
    if options.k is not None and CLUSTERERS[method.clusterer].n_clusters == "found":
        raise Conflict(f"{method.name} finds the number of clusters by itself: leave out -k, or use {usual}")
    result = cluster_texts(
        texts,
        n_clusters=options.k,
        model=model,
        algorithm=method,
        query=options.query,
        precision=options.precision,
        random_state=seed,
        progress=progress,
    )
    return result, f"by {model}, {method.name}{f', for: {options.query}' if options.query else ''}"


def _join_examples(texts: list[str], like: Path, options: Options, progress: Progress) -> tuple["Clustering", str]:
    """Put texts into the groups of labeled ones; return what made the groups, too."""
    from traube._grouping.known_groups import assign_by_examples, check_groups, keep_labeled
    from traube.tasks.readers.table import read_column

    model = options.model_name
    rows, candidates, _ = _read_texts(like, options.text)
    examples, groups = keep_labeled(candidates, read_column(rows, options.group, "--group"))
    if left_out := len(rows) - len(examples):
        print_notes([f"{like.name}: {left_out} of {pluralize(len(rows), 'row')} left out: without a text or a group"])
    check_groups(groups, f"{like}: column '{options.group}'")
    result = assign_by_examples(
        texts, examples, groups, model=model, query=options.query, precision=options.precision, progress=progress
    )
    return result, f"of {like.name}, by {model}"


def _join_champion(texts: list[str], task: str) -> tuple["Clustering", str]:
    """Put texts into the groups of a task's champion; return what made the groups, too."""
    from traube._grouping.known_groups import assign_by_served

    champion_of = platform.part("champion")
    if champion_of is None:
        raise NotInstalled(
            "--champion: the registry of clusterings is part of the platform, which runs from a checkout of Traube"
        )
    served = champion_of(task)
    return assign_by_served(served, texts), f"of {task}'s champion, by {served.card.name}, {served.method.name}"


def _describe(texts: list[str], grouping: Grouped) -> dict[str, Any]:
    """Return the groups as JSON takes them."""
    result = grouping.result
    return {
        "by": grouping.by,
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
        "unknown": int(result.unknown.sum()),
        "longer_than_read": result.long_texts.count if result.long_texts else 0,
        "strays": result.unsettled,
        "clearness": result.clearness or None,
        "score": None if math.isnan(result.score) else result.score,
        "about_as_good": result.about_as_good,
        "clustering": grouping.fingerprint,
    }


def _print_groups(texts: list[str], result: "Clustering", by: str) -> None:
    """Print the largest groups, with a line for each typical text."""
    from rich.table import Table

    sizes = result.sizes()
    rated = bool(result.stability)
    table = Table(title=f"{pluralize(len(sizes), 'group')} {escape(by)}", title_justify="left")
    for name in ("group", "texts", *(["stability"] if rated else [])):
        table.add_column(name, justify="right", no_wrap=True)
    half = max(SHORTEST, (out.width - NUMBERS) // 2)
    table.add_column("name and key words", max_width=half)
    cut = out.is_terminal  # a file has room for more lines
    table.add_column("typical texts", max_width=half, no_wrap=cut, overflow="ellipsis" if cut else "fold")
    for c, size in list(sizes.items())[:LISTED]:
        examples = "\n".join(escape(" ".join(texts[i][:SHOWN].split())) for i in result.typical.get(c, []))
        stability = [format_number(result.stability.get(c), 2)] if rated else []
        words = escape(", ".join(result.words[c]))
        given = f"[bold]{escape(result.names[c])}[/]\n" if result.names.get(c) else ""
        table.add_row(str(c), str(size), *stability, given + words, examples)
    if sizes:
        out.print(table)
    if len(sizes) > LISTED:
        out.print(f"and {pluralize(len(sizes) - LISTED, 'smaller group')}: in the file, or with --json")


def _print_caveats(result: "Clustering", by: str, k: int | None) -> None:
    """Print the notes on the groups; `k` is None if their number was found."""
    noise, blank, strays = result.noise, result.blank, result.unsettled
    if blank:
        texts = pluralize(len(result.labels), "text")
        out.print(f"{blank} of {texts} {'is empty: it is' if blank == 1 else 'are empty: they are'} in no group")
    if noise and not result.sizes():
        out.print(
            f"no group {escape(by)}: all {pluralize(noise, 'text')} are noise (group -1), too few or too unlike for this "
            "method; none/stable_kmeans puts every text into a group"
        )
    elif noise:
        out.print(f"{pluralize(noise, 'text')} in no group (noise, group -1)")
    if strays:
        fit, them = ("fits", "it") if strays == 1 else ("fit", "them")
        out.print(f"{pluralize(strays, 'text')} {fit} no group well: --noise sets {them} apart")
    if k is not None and len(result.sizes()) < k:
        out.print(f"{pluralize(k, 'group')} requested, {len(result.sizes())} found: the texts are too similar for more")
    if k is not None and result.stability:
        out.print("no score with -k: leave it out to see how clear the groups are")
    if result.clearness:
        out.print(_describe_clearness(result), highlight=False)
    elif result.k_table is not None:
        measure = result.k_table.columns[1]
        of_what = " of the distances with being in different groups" if measure == "correlation" else ""
        fits = ", ".join(f"{k}: {fit:.3f}" for k, fit in result.k_table.itertuples(index=False))
        out.print(f"k was chosen by {measure}{of_what}: {fits}")


def _print_layers(grouping: Grouped) -> None:
    """Print the layers, the changes by a groups.yaml, and the name of the clustering."""
    result, edits = grouping.result, grouping.edits
    if result.layers:
        numbers = [len(set(layer.labels.tolist()) - {-1}) for layer in result.layers]
        sizes = ", ".join(f"[bold]{n}[/]" if i == result.level else str(n) for i, n in enumerate(numbers))
        out.print(
            f"layers of {sizes} groups: --layer 0 (coarse) to {len(numbers) - 1} (fine) takes another", highlight=False
        )
    if edits is not None:
        applied = f"{escape(str(edits.path))}: {pluralize(len(edits.edits), 'edit')} applied to clustering"
        out.print(f"{applied} {grouping.fingerprint}", highlight=False)
    else:
        out.print(
            f"--groups FILE renames, merges and splits them; numbers in it are of clustering {grouping.fingerprint}",
            highlight=False,
        )


def _describe_clearness(result: "Clustering") -> str:
    """Describe how clear the groups are, and which other numbers of groups are about as good."""
    from traube._grouping.clustering import CLEAR

    assert result.k_table is not None
    scale = f"0 in texts without groups, from {CLEAR} on they are clear"
    clearness = f"[bold]{result.clearness}[/] (score {result.score:.2f}: {scale})"
    if len(result.k_table) == 1:
        return "[bold]no clear groups[/]: there are too few texts to tell; -k NUMBER makes as many as you want"
    if result.clearness == "no clear groups":
        return f"{clearness}: what is shown may be chance; -k NUMBER makes as many as you want"
    if len(near := result.about_as_good) > 1:
        return f"{clearness}; {min(near)} to {max(near)} groups are about as stable: -k NUMBER chooses"
    return clearness
