"""`traube cluster`: group one's own texts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cli.options import MOST_SEED
from cli.printing import err, escape, out
from traube.foundation.errors import TraubeError

app = typer.Typer()


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
            help="A method: reducer/clusterer; `traube methods` lists them. Default: none/kmeans; for a "
            "similarity, which gives distances, none/agglomerative_average."
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="The number of clusters. Default: the one that fits best.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The seed of everything random.")] = 42,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The CSV file to write. Default: FILE.clusters.csv.")
    ] = None,
) -> None:
    """Group your own texts, and print what each cluster is about.

    Writes the cluster of each text to a CSV file, and its distance to the mean of its cluster.

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
    from traube.serving.cluster_texts import cluster_texts, usual_method
    from traube.tasks.readers.table import read_texts

    texts = read_texts(file, column)
    usual = usual_method(load_model(model))
    chosen = load_params().chosen().method(usual if method is None else method)
    if k is not None and not CLUSTERERS[chosen.clusterer].takes_k:
        raise TraubeError(f"{chosen.name} finds the number of clusters by itself: leave out -k, or use {usual}")
    with err.status(f"encoding and clustering {len(texts)} texts"):
        result = cluster_texts(texts, model=model, method=chosen, k=k, seed=seed, query=query)
    target = output or file.with_name(file.name + ".clusters.csv")
    clustered = pd.DataFrame({"text": texts, "cluster": result.labels, "distance": result.distances})
    write_text(target, csv_text(clustered))
    shown = Table(
        "cluster",
        "texts",
        "key words",
        "typical text",
        title=f"{len(result.words)} clusters by {model}, {chosen.name}{f', for: {escape(query)}' if query else ''}",
        title_justify="left",
    )
    sizes = pd.Series(result.labels).value_counts()
    for c in sorted(result.words, key=lambda c: -sizes[c]):
        examples = "\n".join(escape(texts[i][:90].replace("\n", " ")) for i in result.typical[c])
        shown.add_row(str(c), str(sizes[c]), escape(", ".join(result.words[c])), examples)
    out.print(shown)
    if -1 in sizes:
        out.print(f"{sizes[-1]} texts belong to no cluster (noise, cluster -1)")
    if result.k_table is not None:
        out.print(
            f"k was chosen by {result.k_table.columns[1]}: "
            + ", ".join(f"{k}: {fit:.3f}" for k, fit in result.k_table.itertuples(index=False))
        )
    out.print(f"written to {escape(str(target))}")
