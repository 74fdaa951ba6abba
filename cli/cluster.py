"""`traube cluster`: group one's own texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.options import MOST_SEED
from cli.printing import err, escape, out
from traube.foundation.errors import TraubeError

if TYPE_CHECKING:
    from traube.serving.cluster_texts import Clusters

app = typer.Typer()
NAMED_BY = 3  # key words
SHOWN = 60  # characters of a typical text
NEARLY = 0.02  # below the best score


@app.command()
def cluster(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of texts: .txt (one text a line), .csv, .tsv, .jsonl or .parquet.", show_default=False
        ),
    ],
    column: Annotated[str, typer.Option("--text", help="The column that holds the texts.")] = "text",
    model: Annotated[str, typer.Option("--model", "-m", help="A model; `traube models` lists them.")] = "minilm",
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
            help="The number of clusters. Default: the one that is found again most steadily in samples of the texts.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The seed of everything random.")] = 42,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The CSV file to write. Default: FILE.clusters.csv.")
    ] = None,
) -> None:
    """Group your own texts, and print what each cluster is about.

    Says how clear the groups are, and how steady each is: from 0 to 1, how well it is
    found again in other samples of the texts. Writes a CSV file: each text, its
    cluster, the cluster's name and stability, and the distance to the mean of its
    cluster.

    With --query, texts are grouped by what they say to it, by a model that compares them for a query:

    traube cluster found.csv --query "life at sea" --model minilm_query_space

    The distance is then the mean one to the cluster's other texts, where the
    most alike of all pairs is 0 apart and the least alike 1.
    """
    import pandas as pd

    from traube.benchmark.params import load_params
    from traube.foundation.files import write_text
    from traube.foundation.inert import csv_text
    from traube.methods import CLUSTERERS
    from traube.models import load_model
    from traube.serving.cluster_texts import STABLE, cluster_texts, usual_method
    from traube.tasks.readers.table import read_texts

    texts = read_texts(file, column)
    usual = usual_method(load_model(model))
    chosen = load_params().chosen().method(usual if method is None else method)
    if k is not None and not (CLUSTERERS[chosen.clusterer].takes_k or chosen.name == STABLE):
        raise TraubeError(f"{chosen.name} finds the number of clusters by itself: leave out -k, or use {usual}")
    with err.status(f"encoding and clustering {len(texts)} texts"):
        result = cluster_texts(texts, model=model, method=chosen, k=k, seed=seed, query=query)
    target = output or file.with_name(file.name + ".clusters.csv")
    names = {c: ", ".join(words[:NAMED_BY]) for c, words in result.words.items()}
    clustered = pd.DataFrame(
        {"text": texts, "cluster": result.labels, "name": [names.get(c, "") for c in result.labels]}
    )
    clustered["distance"] = result.distances
    if result.stability:
        clustered["stability"] = [result.stability[c] for c in result.labels]
    write_text(target, csv_text(clustered))
    by = f"by {model}, {chosen.name}{f', for: {escape(query)}' if query else ''}"
    _print_groups(texts, result, by)
    out.print(f"written to {escape(str(target))}")


def _print_groups(texts: list[str], result: "Clusters", by: str) -> None:
    import pandas as pd

    rated = bool(result.stability)
    number = f"{len(result.words)} cluster{'' if len(result.words) == 1 else 's'}"
    columns = ["cluster", "texts", *(["stability"] if rated else []), "key words", "typical text"]
    shown = Table(*columns, title=f"{number} {by}", title_justify="left")
    sizes = pd.Series(result.labels).value_counts()
    for c in sorted(result.words, key=lambda c: -sizes[c]):
        examples = "\n".join(escape(texts[i][:SHOWN].replace("\n", " ")) for i in result.typical[c])
        steady = [f"{result.stability[c]:.2f}"] if rated else []
        shown.add_row(str(c), str(sizes[c]), *steady, escape(", ".join(result.words[c])), examples)
    out.print(shown)
    if -1 in sizes:
        out.print(f"{sizes[-1]} texts belong to no cluster (noise, cluster -1)")
    if result.clearness:
        out.print(_told(result), highlight=False)
    elif result.k_table is not None:
        out.print(
            f"k was chosen by {result.k_table.columns[1]}: "
            + ", ".join(f"{k}: {fit:.3f}" for k, fit in result.k_table.itertuples(index=False))
        )


def _told(result: "Clusters") -> str:
    """How clear the groups are, and which other numbers of them are about as good."""
    assert result.k_table is not None
    said = (
        f"[bold]{result.clearness}[/] (score {result.score:.2f}: 0 in texts without groups, from 0.3 on they are clear)"
    )
    table = result.k_table
    near = [int(k) for k in table.loc[table["excess"] >= result.score - NEARLY, "k"] if k > 1]
    if len(table) == 1:
        return "[bold]no clear groups[/]: there are too few texts to tell; -k NUMBER makes as many as you want"
    if result.clearness == "no clear groups":
        return f"{said}: what is shown may be chance; -k NUMBER makes as many as you want"
    if len(near) > 1:
        return f"{said}; {min(near)} to {max(near)} groups are about as steady: -k NUMBER chooses"
    return said
