"""`T/clusterings` and `T/deep_clusterings`: every missing cell of a task and a model, clustered. Those
whose clusterer trains have an asset of their own: it takes hours where the other takes minutes, and
the GPU; it is part of a run where one of its methods trains.

What is stored is not clustered again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from assets.common import FILL, MODELS, TRAINING_STAGE, asset_key, claimed
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.benchmark.plan import CLUSTERING_VERSION, Cell
from traube.benchmark.record import Recorder
from traube.engine.executors import Executor
from traube.engine.progress import Progress
from traube.engine.stages import cluster_missing
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest
from traube.report.markdown import markdown
from traube.report.trainings import last_epochs
from traube.store import Store
from traube.tasks.source import Source

POOL = "training"  # of steps that share a GPU; runs follow each other, so no limit of its own is set (the UI can)


def clusterings_asset(source: Source) -> dg.AssetsDefinition:
    return _asset(
        source,
        "clusterings",
        lambda cell: not cell.method.trains,
        lambda store, cells: {},
        kinds={"scikitlearn"},
        description="The clusters that each method finds in each split.",
    )


def deep_clusterings_asset(source: Source) -> dg.AssetsDefinition:
    return _asset(
        source,
        TRAINING_STAGE,
        lambda cell: cell.method.trains,
        _trainings,
        kinds={"torch"},
        description="The clusters that each method finds that trains on the texts of each split. A training that was "
        "stopped goes on where it was.",
        pool=POOL,
        # what a GPU loses now and then; of other errors a cell says so itself
        retry_policy=dg.RetryPolicy(max_retries=1),
    )


def _trainings(store: Store, cells: Sequence[Cell]) -> dict[str, dg.MetadataValue]:
    table = last_epochs(store, cells)
    return {"last_epochs": dg.MetadataValue.md("nothing was trained" if table.empty else markdown(table.round(4)))}


def _asset(
    source: Source,
    stage: str,
    is_of: Callable[[Cell], bool],
    told: Callable[[Store, Sequence[Cell]], dict[str, dg.MetadataValue]],
    **about: Any,
) -> dg.AssetsDefinition:
    """An asset of the cells that are of it.

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
        store, workbench = storage.store, storage.workbench_with(workers)
        try:
            request = benchmark.request()
            model = encoder.model(context.partition_key, request.protocol.precision)
            recorder = Recorder(store, run_id=context.run.run_id)
            made = cluster_missing(
                source.name,
                model,
                request,
                workbench,
                recorder,
                is_of=is_of,
                warn=context.log.warning,
                progress=progress,
            )
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            data_version=dg.DataVersion(
                digest([workbench.manifest(source.name).data_version, made.dimensions, sorted(made.unscored)])
            ),
            metadata={
                "clustered_now": made.statuses["done"],
                "failed": made.statuses["failed"],
                "unsupported": made.statuses["unsupported"],
                "unavailable": made.statuses["unavailable"],
                "seconds": time.perf_counter() - began,
                **told(store, made.cells),
            },
        )

    return clustered
