"""`papers/german/`: the tables of the German Text Embedding Clustering Benchmark, measured beside published."""

import dagster as dg
import pandas as pd

from assets.papers.common import folder, table_asset, write_table
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import markdown
from resources.storage import StorageResource
from traube.benchmark.plan import Request, unavailable
from traube.foundation import paths
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_text
from traube.papers.german import tables as german
from traube.report.figures import curves
from traube.report.wins import split_scores
from traube.report.wins import wins as pair_wins
from traube.store import Store


def german_assets() -> list[dg.AssetsDefinition]:
    return [
        table_asset(
            "german", "table_1", "The data sets: samples, splits, sizes, classes and characters.", _table_1, _wide
        ),
        table_asset("german", "table_2", "Mini-batch k-means: model by task.", _table_2, _wide),
        table_asset("german", "table_3", "Method by task, the mean of models.", _table_3, _wide),
        table_5,
        figure_1,
        figure_2,
        wins,
        embedding_spread,
    ]


@dg.asset(
    key=["papers", "german", "table_5"],
    group_name="papers",
    kinds={"csv"},
    description="Adaptive pre-training: V-measure after the last step, mean of seeds, beside published.",
)
def table_5(storage: StorageResource) -> dg.MaterializeResult:
    found = german.table_5(german.adapted(paths.checkpoints()))
    path = write_table(storage, "german", "table_5", found)
    return dg.MaterializeResult(
        metadata={"table": dg.MetadataValue.md(markdown(found.round(2))), "path": dg.MetadataValue.path(path)}
    )


@dg.asset(
    key=["papers", "german", "figure_1"],
    deps=["leaderboard"],
    group_name="papers",
    kinds={"html"},
    description="Maps: the vectors of a task's largest split by UMAP, a panel a model, one category highlighted; hover shows the text.",
)
def figure_1(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
    from traube.report.maps import kept_maps, page

    maps = kept_maps(storage.store, benchmark.protocols(), german.MAPPED, german.PROTOCOL)
    path = folder(storage, "german") / "figure_1.html"
    write_text(path, page(maps, german.HIGHLIGHTED))
    return dg.MaterializeResult(
        metadata={
            "models": ", ".join(m.model for m in maps) or f"none has a UMAP map of {german.MAPPED} yet",
            "page": dg.MetadataValue.url(path.as_uri()),
        }
    )


@dg.asset(
    key=["papers", "german", "wins"],
    deps=["leaderboard"],
    group_name="papers",
    kinds={"csv"},
    description="For each pair of models the splits on which each wins, by level, their size and classes; whole texts against titles.",
)
def wins(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
    scores = split_scores(storage.store, benchmark.protocols(), list(german.TASKS))
    found = pair_wins(scores)
    path = write_table(storage, "german", "wins", found)
    kmeans = found[found["method"] == german.KMEANS]
    whole = german.p2p_against_s2s(german.scores(storage.store, benchmark.protocols()))
    write_table(storage, "german", "p2p_against_s2s", whole)
    return dg.MaterializeResult(
        metadata={
            "k-means": dg.MetadataValue.md(markdown(kmeans.round(3))),
            "pairs": len(found),
            "whole texts against titles, k-means": dg.MetadataValue.md(
                markdown(whole[whole["method"] == german.KMEANS].round(2))
            ),
            "path": dg.MetadataValue.path(path),
        }
    )


@dg.asset(
    key=["papers", "german", "spread"],
    deps=["leaderboard"],
    group_name="papers",
    kinds={"csv"},
    description="How evenly each encoder's vectors are spread (isotropy, norm, effective rank), next to its k-means scores, S2S and P2P.",
)
def embedding_spread(
    context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource, encoder: EncoderResource
) -> dg.MaterializeResult:
    from traube.metrics.spread import spread

    workbench = storage.workbench
    scores = german.scores(storage.store, benchmark.protocols())
    rows = []
    for row in scores[scores["method"] == german.KMEANS].itertuples(index=False):
        try:
            model = encoder.model(row.model, "fp32")
            if model.corpus_bound:
                continue
            task = workbench.task(row.task)
            vectors = workbench.vectors(task, model)  # kept from the evaluation
        except TraubeError as error:  # the model is gone; its scores are not
            context.log.warning(f"{row.model}: {error}")
            continue
        rows.append(
            {
                "model": row.model,
                "task": row.task,
                "v_measure": row.measured,
                **spread(vectors.subset(task.scored).load()),
            }
        )
    found = pd.DataFrame(rows)
    path = write_table(storage, "german", "spread", found)
    return dg.MaterializeResult(
        metadata={"table": dg.MetadataValue.md(markdown(found.round(3))), "path": dg.MetadataValue.path(path)}
    )


@dg.asset(
    key=["papers", "german", "figure_2"],
    group_name="papers",
    kinds={"svg"},
    description="Adaptive pre-training: V-measure against epochs (also the paper's figure 4: a panel for each base model).",
)
def figure_2(storage: StorageResource) -> dg.MaterializeResult:
    trainings = german.adapted(paths.checkpoints())
    path = folder(storage, "german") / "figure_2.svg"
    write_text(path, str(curves(trainings)))
    return dg.MaterializeResult(
        metadata={"trainings": int(trainings["checkpoint"].nunique()), "path": dg.MetadataValue.path(path)}
    )


def _table_1(storage: StorageResource, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_1(storage.store)


def _table_2(storage: StorageResource, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_2(german.scores(storage.store, benchmark.protocols()), _unavailable(storage.store, benchmark))


def _table_3(storage: StorageResource, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_3(german.scores(storage.store, benchmark.protocols()), _unavailable(storage.store, benchmark))


def _unavailable(store: Store, benchmark: BenchmarkResource) -> dict[str, str]:
    """Why a task or a model of the paper cannot be had here."""
    asked = benchmark.request()
    models = list(german.published("table2")["model"])
    return unavailable(Request(german.TASKS, models, asked.protocol_name, asked.protocol), store)


def _wide(found: pd.DataFrame) -> dict[str, dg.MetadataValue]:
    notes = found.loc[found["note"].str.contains("printed wrong"), "note"]
    return {
        "published | measured": dg.MetadataValue.md(markdown(german.wide(found))),
        "printed_wrong": dg.MetadataValue.md("\n".join(f"- {n}" for n in notes) or "nothing"),
    }
