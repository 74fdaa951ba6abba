"""`papers/<paper>/<name>`: the papers' tables and figures, made from the specs in `traube._reports.papers`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from assets.common import CHECKPOINTS, MADE_OF, NIGHTLY, PAPERS, describe_table, trainer_key
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from traube._core import paths
from traube._core.hashing import frame_digest
from traube._core.progress import Progress
from traube._pipeline.executors import Executor
from traube._reports.markdown import markdown
from traube._reports.papers import Context, Figure, Paper, Table
from traube._reports.papers.spec import NUMBERS, OTHERS, write_figure, write_table

BESIDE = "Published and measured side by side; empty where there is no number."


def paper_assets(papers: Mapping[str, Paper], checkpoints: Collection[dg.AssetKey]) -> list[dg.AssetsDefinition]:
    """Return an asset for each table and figure of each paper, downstream of the checkpoints it may show."""
    assets = []
    for name, paper in papers.items():
        paper_checkpoints = {trainer_key(trainer, CHECKPOINTS) for trainer in paper.trainers} & {*checkpoints}
        specs: tuple[Table | Figure, ...] = (*paper.tables, *paper.figures)
        assets += [_asset(name, spec, paper.tasks, paper_checkpoints) for spec in specs]
    return assets


def _asset(
    paper: str, spec: Table | Figure, tasks: Sequence[str], checkpoints: Iterable[dg.AssetKey]
) -> dg.AssetsDefinition:
    has_printed = isinstance(spec, Table) and spec.published

    @dg.asset(
        key=[PAPERS, paper, spec.name],
        deps=["leaderboard", *checkpoints],
        group_name=f"paper_{paper}",
        freshness_policy=NIGHTLY,
        metadata={MADE_OF: list(tasks)} if tasks else {},
        kinds={"csv" if isinstance(spec, Table) else "html"},
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
            workbench=storage.workbench(workers),
            protocols=benchmark.protocols(),
            protocol=benchmark.request().protocol_name,
            model=encoder.model,
            warn=context.log.warning,
            progress=progress,
        )
        metadata: dict[str, Any]
        if not isinstance(spec, Table):
            drawing, path = write_figure(paths.home(), paper, spec, measured_from)
            metadata = {**drawing.facts, "figure": dg.MetadataValue.url(path.as_uri())}
            if drawing.data is not None:
                metadata["data"] = dg.MetadataValue.md(markdown(drawing.data.round(3)))
            return dg.MaterializeResult(metadata=metadata)

        rows, path = write_table(paths.home(), paper, spec, measured_from)
        table = dg.MetadataValue.md(markdown(spec.shown(rows)))
        metadata = {**describe_table(rows, NUMBERS | OTHERS), "table": table}
        if spec.published:
            metadata |= {
                "measured": int(rows["measured"].notna().sum()),
                "of": int(rows["published"].notna().sum()),
                "printed_wrong": dg.MetadataValue.md(
                    "\n".join(f"- {line}" for line in spec.list_errata()) or "nothing"
                ),
            }
        metadata["path"] = dg.MetadataValue.path(path)
        return dg.MaterializeResult(data_version=dg.DataVersion(frame_digest(rows)), metadata=metadata)

    return made
