"""`papers/german/`: the tables of the German Text Embedding Clustering Benchmark, measured beside published."""

from collections.abc import Callable

import dagster as dg
import pandas as pd

from resources.benchmark import BenchmarkResource
from resources.quality import markdown
from resources.storage import StorageResource
from traube import paths
from traube.files import frame_digest, write_text
from traube.papers import german
from traube.plan import Request, plan
from traube.report.figures import curves
from traube.store import Store

Make = Callable[[Store, BenchmarkResource], pd.DataFrame]


def german_assets() -> list[dg.AssetsDefinition]:
    return [
        _table("table_1", "The data sets: samples, splits, sizes, classes and characters.", _table_1),
        _table("table_2", "Mini-batch k-means: model by task.", _table_2),
        _table("table_3", "Method by task, the mean of models.", _table_3),
        table_5,
        figure_2,
    ]


@dg.asset(
    key=["papers", "german", "table_5"],
    group_name="papers",
    kinds={"csv"},
    description="Adaptive pre-training: V-measure after the last step, mean of seeds, beside published.",
)
def table_5(storage: StorageResource) -> dg.MaterializeResult:
    found = german.table_5(german.adapted(paths.checkpoints()))
    path = storage.root / "papers" / "german" / "table_5.csv"
    write_text(path, found.to_csv(index=False))
    return dg.MaterializeResult(
        metadata={"table": dg.MetadataValue.md(markdown(found.round(2))), "path": dg.MetadataValue.path(path)}
    )


@dg.asset(
    key=["papers", "german", "figure_2"],
    group_name="papers",
    kinds={"svg"},
    description="Adaptive pre-training: V-measure against epochs (also the paper's figure 4: a panel for each base model).",
)
def figure_2(storage: StorageResource) -> dg.MaterializeResult:
    trainings = german.adapted(paths.checkpoints())
    path = storage.root / "papers" / "german" / "figure_2.svg"
    write_text(path, str(curves(trainings)))
    return dg.MaterializeResult(
        metadata={"trainings": int(trainings["checkpoint"].nunique()), "path": dg.MetadataValue.path(path)}
    )


def _table_1(store: Store, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_1(store)


def _table_2(store: Store, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_2(german.scores(store, benchmark.protocols()), _unavailable(store, benchmark))


def _table_3(store: Store, benchmark: BenchmarkResource) -> pd.DataFrame:
    return german.table_3(german.scores(store, benchmark.protocols()), _unavailable(store, benchmark))


def _unavailable(store: Store, benchmark: BenchmarkResource) -> dict[str, str]:
    """Why a task or a model of the paper cannot be had here."""
    asked = benchmark.request()
    models = list(german.published("table2")["model"])
    return plan(Request(german.TASKS, models, asked.protocol_name, asked.protocol), store).unavailable


def _table(name: str, description: str, make: Make) -> dg.AssetsDefinition:
    @dg.asset(
        key=["papers", "german", name],
        deps=["leaderboard"],
        group_name="papers",
        kinds={"csv"},
        description=f"{description} Published and measured side by side; empty where there is no number.",
    )
    def table(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
        found = make(storage.store, benchmark)
        path = storage.root / "papers" / "german" / f"{name}.csv"
        write_text(path, found.to_csv(index=False))
        notes = found[found["note"].str.contains("printed wrong")]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(found)),
            metadata={
                "published | measured": dg.MetadataValue.md(markdown(german.wide(found))),
                "measured": int(found["measured"].notna().sum()),
                "of": int(found["published"].notna().sum()),
                "printed_wrong": dg.MetadataValue.md("\n".join(f"- {n}" for n in notes["note"]) or "nothing"),
                "path": dg.MetadataValue.path(path),
            },
        )

    return table
