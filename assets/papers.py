"""`papers/<paper>/<name>`: the papers' tables and figures, made from the specs in `traube.papers`;
what a paper has is said there.
"""

from collections.abc import Sequence

import dagster as dg
import pandas as pd

from assets.common import OF_TASKS
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.engine.executors import Executor
from traube.engine.progress import Progress
from traube.foundation import paths
from traube.foundation.hashing import frame_digest
from traube.papers import Context, Figure, Table, papers
from traube.papers.files import write_figure, write_table
from traube.report.markdown import markdown

BESIDE = "Published and measured side by side; empty where there is no number."


def paper_assets() -> list[dg.AssetsDefinition]:
    """An asset for each table and figure of each paper."""
    return [
        asset
        for name, paper in papers().items()
        for asset in (
            *(_table(name, t, paper.tasks) for t in paper.tables),
            *(_figure(name, f, paper.tasks) for f in paper.figures),
        )
    ]


def _table(paper: str, table: Table, tasks: Sequence[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=["papers", paper, table.name],
        deps=["leaderboard"],
        group_name="papers",
        metadata={OF_TASKS: list(tasks)} if tasks else {},
        kinds={"csv"},
        description=f"{table.description} {BESIDE}" if table.published else table.description,
    )
    def made(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        benchmark: BenchmarkResource,
        encoder: EncoderResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        measured_from = _context(context, storage, benchmark, encoder, workers, progress)
        rows, path = write_table(storage.root, paper, table, measured_from)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(rows)),
            metadata={
                "table": dg.MetadataValue.md(markdown(table.shown(rows))),
                **(_beside(rows) if table.published else {}),
                "path": dg.MetadataValue.path(path),
            },
        )

    return made


def _beside(rows: pd.DataFrame) -> dict[str, int | dg.MetadataValue]:
    """What people are told of numbers beside published ones: how many there are, and what is
    printed wrong.
    """
    wrong = rows.loc[rows["note"].str.contains("printed wrong"), "note"].drop_duplicates()
    return {
        "measured": int(rows["measured"].notna().sum()),
        "of": int(rows["published"].notna().sum()),
        "printed_wrong": dg.MetadataValue.md("\n".join(f"- {note}" for note in wrong) or "nothing"),
    }


def _figure(paper: str, figure: Figure, tasks: Sequence[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=["papers", paper, figure.name],
        deps=["leaderboard"],
        group_name="papers",
        metadata={OF_TASKS: list(tasks)} if tasks else {},
        kinds={figure.kind},
        description=figure.description,
    )
    def drawn(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        benchmark: BenchmarkResource,
        encoder: EncoderResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        measured_from = _context(context, storage, benchmark, encoder, workers, progress)
        drawing, path = write_figure(storage.root, paper, figure, measured_from)
        metadata: dict[str, str | int | dg.MetadataValue] = {
            **drawing.facts,
            "figure": dg.MetadataValue.url(path.as_uri()),
        }
        if drawing.data is not None:
            metadata["data"] = dg.MetadataValue.md(markdown(drawing.data.round(3)))
        return dg.MaterializeResult(metadata=metadata)

    return drawn


def _context(
    context: dg.AssetExecutionContext,
    storage: StorageResource,
    benchmark: BenchmarkResource,
    encoder: EncoderResource,
    workers: Executor,
    progress: Progress,
) -> Context:
    return Context(
        workbench=storage.workbench_with(workers),
        protocols=benchmark.protocols(),
        protocol=benchmark.request().protocol_name,
        checkpoints=paths.checkpoints(),
        studies=storage.root / "studies",
        model=encoder.model,
        warn=context.log.warning,
        progress=progress,
    )
