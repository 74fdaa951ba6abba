"""`papers/<paper>/<name>`: the papers' tables and figures, made from the specs in `traube.papers`;
what a paper has is said there.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import dagster as dg
import pandas as pd

from assets.common import OF_TASKS
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.core import paths
from traube.core.hashing import frame_digest
from traube.core.progress import Progress
from traube.papers import Context, Figure, Table, papers
from traube.papers.files import write_figure, write_table
from traube.pipeline.executors import Executor
from traube.reports.markdown import markdown

BESIDE = "Published and measured side by side; empty where there is no number."


def paper_assets() -> list[dg.AssetsDefinition]:
    """An asset for each table and figure of each paper."""
    return [
        asset
        for name, paper in papers().items()
        for asset in (
            *(_asset(name, t, paper.tasks, "csv", partial(_table, name, t)) for t in paper.tables),
            *(_asset(name, f, paper.tasks, "html", partial(_figure, name, f)) for f in paper.figures),
        )
    ]


def _asset(
    paper: str,
    spec: Table | Figure,
    tasks: Sequence[str],
    kind: str,
    make: Callable[[Path, Context], dg.MaterializeResult],
) -> dg.AssetsDefinition:
    """An asset that makes a table or figure below a home, measured from a context."""
    has_printed = isinstance(spec, Table) and spec.published

    @dg.asset(
        key=["papers", paper, spec.name],
        deps=["leaderboard"],
        group_name="papers",
        metadata={OF_TASKS: list(tasks)} if tasks else {},
        kinds={kind},
        description=f"{spec.description} {BESIDE}" if has_printed else spec.description,
    )
    def made(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        benchmark: BenchmarkResource,
        encoder: EncoderResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        measured_from = Context(
            workbench=storage.workbench_with(workers),
            protocols=benchmark.protocols(),
            protocol=benchmark.request().protocol_name,
            checkpoints=paths.checkpoints(),
            studies=storage.root / "studies",
            model=encoder.model,
            warn=context.log.warning,
            progress=progress,
        )
        return make(storage.root, measured_from)

    return made


def _table(paper: str, table: Table, home: Path, measured_from: Context) -> dg.MaterializeResult:
    rows, path = write_table(home, paper, table, measured_from)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(frame_digest(rows)),
        metadata={
            "table": dg.MetadataValue.md(markdown(table.shown(rows))),
            **(_beside(rows) if table.published else {}),
            "path": dg.MetadataValue.path(path),
        },
    )


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


def _figure(paper: str, figure: Figure, home: Path, measured_from: Context) -> dg.MaterializeResult:
    drawing, path = write_figure(home, paper, figure, measured_from)
    metadata: dict[str, str | int | dg.MetadataValue] = {
        **drawing.facts,
        "figure": dg.MetadataValue.url(path.as_uri()),
    }
    if drawing.data is not None:
        metadata["data"] = dg.MetadataValue.md(markdown(drawing.data.round(3)))
    return dg.MaterializeResult(metadata=metadata)
