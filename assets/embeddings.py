"""`T/embeddings`: a model's vectors of a task's texts.

The value lies in the cache; what was encoded before is not encoded again.
"""

import time

import dagster as dg

from assets.common import FILL, MODELS, asset_key, claimed, refuse_failed_checks
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.engine.executors import Executor
from traube.engine.progress import Progress
from traube.engine.stages import VECTOR_CHECKS, WARNING_CHECKS, VectorCheck, encode
from traube.foundation.errors import TraubeError
from traube.quality import refuse_kept
from traube.store import Store
from traube.tasks.source import Source


def embeddings_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "embeddings")
    upstream = _data_checks(source)

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, "corpus"), asset_key(source.name, "splits")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"numpy"},
        description="A model's vectors of the unique texts of the test splits.",
        check_specs=_check_specs(key),
    )
    @claimed(source.name)
    def embeddings(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        quality: QualityResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        refuse_failed_checks(context, upstream, lambda: _check_data(source, storage.store, quality, workers))
        began = time.perf_counter()
        try:
            workbench = storage.workbench_with(workers)
            version = workbench.manifest(source.name).data_version
            refuse_kept(source.card, storage.store.checks(source.name), version, ("corpus", "splits"))
            model = encoder.model(context.partition_key, benchmark.request().protocol.precision)
            made = encode(source.name, model, workbench, progress)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        texts, encoded = len(made.vectors), made.encoded
        seconds = time.perf_counter() - began
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.fingerprint),
            metadata={
                "texts": texts,
                "dimensions": made.vectors.dimensions,
                "encoded_now": encoded,
                "from_cache": texts - encoded,
                "texts_per_second": encoded / seconds if encoded else 0.0,
                "device": workers.device(model, texts),
                "fingerprint": made.fingerprint,
                "seconds": seconds,
            },
            check_results=[_check_result(key, check) for check in made.checks],
        )

    return embeddings


def _data_checks(source: Source) -> list[dg.AssetCheckSpec]:
    """The checks of the tables that the texts come from."""
    return [
        spec
        for stage in ("corpus", "splits")
        for spec in check_specs(asset_key(source.name, stage), source.card, stage)
    ]


def _check_data(source: Source, store: Store, quality: QualityResource, workers: Executor) -> list[dg.AssetCheckResult]:
    """Make those checks."""
    task = store.task(source.card)
    corpus, splits = (asset_key(source.name, stage) for stage in ("corpus", "splits"))
    return [
        *quality.check_corpus(source.card, corpus, task.corpus, workers),
        *quality.check_splits(source.card, splits, task.splits, task.corpus, workers),
    ]


def _check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The checks of the vectors."""
    return [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name not in WARNING_CHECKS, partitions_def=MODELS)
        for name, text in VECTOR_CHECKS.items()
    ]


def _check_result(key: dg.AssetKey, check: VectorCheck) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check.name,
        passed=check.passed,
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        metadata=check.facts,
    )
