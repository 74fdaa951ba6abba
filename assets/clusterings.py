"""`T/clusterings` and `T/deep_clusterings`: every missing cell of a task and a model, clustered. Those whose clusterer
trains have an asset of their own, which takes hours and the GPU; it is part of a run where one of its methods trains.
"""

import time
from collections import Counter
from typing import Any

import dagster as dg

from assets.common import model_asset, plan_of
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from traube.core.hashing import digest
from traube.core.progress import Progress
from traube.pipeline.cell import CLUSTERING_VERSION, Cell
from traube.pipeline.executors import Executor
from traube.pipeline.run import Clustered, Failed, run
from traube.reports.markdown import markdown
from traube.reports.studies import last_epochs
from traube.tasks.source import Source
from traube.tasks.task import Stage


def clusterings_asset(source: Source) -> dg.AssetsDefinition:
    description = "The clusters that each method finds in each split."
    return _asset(source, Stage.CLUSTERINGS, kinds={"scikitlearn"}, description=description)


def deep_clusterings_asset(source: Source) -> dg.AssetsDefinition:
    return _asset(
        source,
        Stage.DEEP_CLUSTERINGS,
        kinds={"torch"},
        description="The clusters that each method finds that trains on the texts of each split. A training that was "
        "stopped goes on where it was.",
        # of steps that share a GPU; runs follow each other, so no limit of its own is set (the UI can)
        pool="training",
        # what a GPU loses now and then; of other errors a cell says so itself
        retry_policy=dg.RetryPolicy(max_retries=1),
    )


def _asset(source: Source, stage: Stage, **about: Any) -> dg.AssetsDefinition:
    @model_asset(source, stage, ("embeddings", "splits"), code_version=CLUSTERING_VERSION, **about)
    def clustered(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        began = time.perf_counter()
        statuses, cells = Counter[str](), list[Cell]()
        plan = plan_of(source.name, context.partition_key, benchmark.request(), encoder, storage).only(stage)
        for event in run(plan, storage.workbench(workers), progress, context.run.run_id):
            assert isinstance(event, Clustered | Failed)
            status = "done" if isinstance(event, Clustered) else event.status
            statuses[status] += 1
            cells.append(event.cell)
            if event.reason:
                context.log.warning(f"{event.cell.title}: {status}: {event.reason}")

        metadata: dict[str, Any] = {"clustered_now": statuses["done"]}
        metadata |= {status: statuses[status] for status in ("failed", "unsupported", "unavailable")}
        metadata["seconds"] = time.perf_counter() - began
        if stage is Stage.DEEP_CLUSTERINGS:
            table = last_epochs(storage.open(), cells)
            epochs = "nothing was trained" if table.empty else markdown(table.round(4))
            metadata["last_epochs"] = dg.MetadataValue.md(epochs)
        version = digest(sorted(cell.cell_id for cell in plan.cells))
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return clustered
