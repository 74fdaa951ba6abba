"""`T/clusterings`: every missing cell of a task and a model, clustered.

What is stored is not clustered again.
"""

import time
from collections import Counter

import dagster as dg

from assets.common import FILL, MODELS, asset_key
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.benchmark.plan import CLUSTERING_VERSION, missing_cells
from traube.benchmark.record import Recorder
from traube.engine.cluster import cluster
from traube.engine.progress import Progress
from traube.foundation.errors import TraubeError
from traube.foundation.files import digest
from traube.tasks.source import Source


def clusterings_asset(source: Source) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(source.name, "clusterings"),
        deps=[asset_key(source.name, "embeddings"), asset_key(source.name, "splits")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"scikitlearn"},
        code_version=CLUSTERING_VERSION,
        description="The clusters that each method finds in each split.",
    )
    def clusterings(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        began = time.perf_counter()
        store, workbench = storage.store, storage.workbench
        recorder = Recorder(store, run_id=context.run.run_id)
        statuses: Counter[str] = Counter()
        try:
            request = benchmark.request()
            model = encoder.model(context.partition_key, request.protocol.precision)
            cells = [
                c
                for c in missing_cells(source.name, model, request, store)
                if not store.sound_assignments(c.task, c.cell_id)
            ]
            task = workbench.task(source.name)
            vectors = workbench.vectors(task, model, progress)
            for result in cluster(task, vectors, cells, store, progress, model.similarity, model):
                statuses[result.status] += 1
                if result.assignments is not None:
                    if result.reason:
                        context.log.warning(f"{result.cell.title}: {result.reason}")
                    recorder.clustered(result.cell, result.assignments, result.seconds, result.cost)
                    continue
                context.log.warning(f"{result.cell.title}: {result.status}: {result.reason}")
                recorder.without_clusters(result.cell, result.status, result.reason)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        stored = [c.cell_id for c in missing_cells(source.name, model, request, store)]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(
                digest([workbench.manifest(source.name).data_version, vectors.dimensions, sorted(stored)])
            ),
            metadata={
                "clustered_now": statuses["done"],
                "failed": statuses["failed"],
                "unsupported": statuses["unsupported"],
                "unavailable": statuses["unavailable"],
                "seconds": time.perf_counter() - began,
            },
        )

    return clusterings
