"""`T/embeddings`: a model's vectors of a task's texts.

The value lies in the cache; what was encoded before is not encoded again.
"""

import time

import dagster as dg

from assets.common import FILL, MODELS, asset_key, claimed, plan_of, refuse_failed_checks
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.core.errors import TraubeError
from traube.core.progress import Progress
from traube.pipeline.executors import Executor
from traube.pipeline.run import Encoded, run
from traube.pipeline.stages import VECTOR_CHECKS, WARNING_CHECKS, VectorCheck
from traube.pipeline.validation import Table, refuse_kept
from traube.storage import Storage
from traube.tasks import CLUSTERING, Source
from traube.tasks.stored import read_task
from traube.tasks.task import Stage, TaskCard

DESCRIPTIONS = {
    "splits": "A model's vectors of the unique texts of the test splits.",
    "pairs": "A model's vectors of the texts of the test pairs, and of these with their histories.",
}


def embeddings_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "embeddings")
    upstream = _data_checks(source.card)

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, stage) for stage in ("corpus", source.card.type.table)],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"numpy"},
        description=DESCRIPTIONS[source.card.type.table],
        check_specs=_check_specs(key) if source.card.type is CLUSTERING else None,
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
        refuse_failed_checks(context, upstream, lambda: _check_data(source.card, storage.open(), quality, workers))
        began = time.perf_counter()
        try:
            workbench = storage.workbench_with(workers)
            plan = plan_of(source.name, context.partition_key, benchmark.request(), encoder, storage)
            version = plan.at_hand.tasks[source.name].data_version
            refuse_kept(storage.open(), source.card, version, ("corpus", source.card.type.table))
            (made,) = run(plan.only(Stage.EMBEDDINGS), workbench, progress)
            assert isinstance(made, Encoded)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        seconds, encoded = time.perf_counter() - began, made.encoded or 0
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.fingerprint),
            metadata={
                "texts": made.texts,
                "dimensions": made.dimensions,
                "encoded_now": encoded,
                "from_cache": made.texts - encoded,
                "texts_per_second": encoded / seconds,
                "device": made.device,
                "fingerprint": made.fingerprint,
                "seconds": seconds,
            },
            check_results=[_check_result(key, check) for check in made.checks],
        )

    return embeddings


def _data_checks(card: TaskCard) -> list[dg.AssetCheckSpec]:
    """The checks of the tables that the texts come from."""
    tables: tuple[Table, ...] = ("corpus", card.type.table)
    return [spec for table in tables for spec in check_specs(card, table)]


def _check_data(
    card: TaskCard, storage: Storage, quality: QualityResource, workers: Executor
) -> list[dg.AssetCheckResult]:
    """Make those checks."""
    task = read_task(storage, card.name)
    on_corpus = quality.check(card, "corpus", task.corpus, task.corpus, workers)
    return [*on_corpus, *quality.check(card, card.type.table, task.rows, task.corpus, workers)]


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
