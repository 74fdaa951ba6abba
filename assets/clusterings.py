"""`T/clusterings` and `T/deep_clusterings`: every missing cell of a task and a model, clustered. Those
whose clusterer trains have an asset of their own: it takes hours where the other takes minutes, and
the GPU; it is part of a run where one of its methods trains.

What is stored is not clustered again.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from assets.common import FILL, MODELS, asset_key, claimed, plan_of
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.core.errors import TraubeError
from traube.core.hashing import digest
from traube.core.progress import Progress
from traube.pipeline.cell import CLUSTERING_VERSION, Cell
from traube.pipeline.executors import Executor
from traube.pipeline.run import Clustered, Failed, run
from traube.reports.markdown import markdown
from traube.reports.studies import last_epochs
from traube.storage import Storage
from traube.tasks.source import Source
from traube.tasks.task import Stage

POOL = "training"  # of steps that share a GPU; runs follow each other, so no limit of its own is set (the UI can)


def clusterings_asset(source: Source) -> dg.AssetsDefinition:
    return _asset(
        source,
        Stage.CLUSTERINGS,
        lambda storage, cells: {},
        kinds={"scikitlearn"},
        description="The clusters that each method finds in each split.",
    )


def deep_clusterings_asset(source: Source) -> dg.AssetsDefinition:
    return _asset(
        source,
        Stage.DEEP_CLUSTERINGS,
        _trainings,
        kinds={"torch"},
        description="The clusters that each method finds that trains on the texts of each split. A training that was "
        "stopped goes on where it was.",
        pool=POOL,
        # what a GPU loses now and then; of other errors a cell says so itself
        retry_policy=dg.RetryPolicy(max_retries=1),
    )


def _trainings(storage: Storage, cells: Sequence[Cell]) -> dict[str, dg.MetadataValue]:
    table = last_epochs(storage, cells)
    return {"last_epochs": dg.MetadataValue.md("nothing was trained" if table.empty else markdown(table.round(4)))}


def _asset(
    source: Source,
    stage: Stage,
    told: Callable[[Storage, Sequence[Cell]], dict[str, dg.MetadataValue]],
    **about: Any,
) -> dg.AssetsDefinition:
    """The asset of a stage that clusters.

    Parameters
    ----------
    told : what people are told of these cells besides
    """

    @dg.asset(
        key=asset_key(source.name, stage),
        deps=[asset_key(source.name, "embeddings"), asset_key(source.name, "splits")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        code_version=CLUSTERING_VERSION,
        **about,
    )
    @claimed(source.name)
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
        try:
            plan = plan_of(source.name, context.partition_key, benchmark.request(), encoder, storage).only(stage)
            for event in run(plan, storage.workbench_with(workers), progress, context.run.run_id):
                assert isinstance(event, Clustered | Failed)
                status = "done" if isinstance(event, Clustered) else event.status
                statuses[status] += 1
                cells.append(event.cell)
                if event.reason:
                    context.log.warning(f"{event.cell.title}: {status}: {event.reason}")
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            data_version=dg.DataVersion(digest(sorted(cell.cell_id for cell in plan.cells))),
            metadata={
                "clustered_now": statuses["done"],
                "failed": statuses["failed"],
                "unsupported": statuses["unsupported"],
                "unavailable": statuses["unavailable"],
                "seconds": time.perf_counter() - began,
                **told(storage.open(), cells),
            },
        )

    return clustered
