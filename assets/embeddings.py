"""`T/embeddings`: a model's vectors of a task's texts. They lie in the cache, and none is encoded again."""

import time

import dagster as dg

from assets.common import MODELS, asset_key, model_asset, plan_of, refuse_failed_checks
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from resources.quality import QualityResource, check_specs
from traube.core.progress import Progress
from traube.pipeline.executors import Executor
from traube.pipeline.run import Encoded, run
from traube.pipeline.stages import VECTOR_CHECKS, WARNING_CHECKS
from traube.pipeline.validation import Table, refuse_kept
from traube.tasks import CLUSTERING, Source
from traube.tasks.stored import read_task
from traube.tasks.task import Stage

DESCRIPTIONS = {
    "splits": "A model's vectors of the unique texts of the test splits.",
    "pairs": "A model's vectors of the texts of the test pairs, and of these with their histories.",
}


def embeddings_asset(source: Source) -> dg.AssetsDefinition:
    card, key = source.card, asset_key(source.name, "embeddings")
    tables: tuple[Table, Table] = ("corpus", card.type.table)
    vector_checks = [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name not in WARNING_CHECKS, partitions_def=MODELS)
        for name, text in VECTOR_CHECKS.items()
    ]

    @model_asset(
        source,
        Stage.EMBEDDINGS,
        tables,
        kinds={"numpy"},
        description=DESCRIPTIONS[card.type.table],
        check_specs=vector_checks if card.type is CLUSTERING else None,
    )
    def embeddings(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        quality: QualityResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        def check_tables() -> list[dg.AssetCheckResult]:
            task = read_task(storage.open(), card.name)
            on_corpus = quality.check(card, "corpus", task.corpus, task.corpus, workers)
            return [*on_corpus, *quality.check(card, card.type.table, task.rows, task.corpus, workers)]

        refuse_failed_checks(context, [spec for table in tables for spec in check_specs(card, table)], check_tables)
        began = time.perf_counter()
        plan = plan_of(source.name, context.partition_key, benchmark.request(), encoder, storage)
        refuse_kept(storage.open(), card, plan.at_hand.tasks[source.name].data_version, tables)
        (made,) = run(plan.only(Stage.EMBEDDINGS), storage.workbench(workers), progress)
        assert isinstance(made, Encoded)
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
            check_results=[
                dg.AssetCheckResult(
                    asset_key=key,
                    check_name=check.name,
                    passed=check.passed,
                    severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
                    metadata=check.facts,
                )
                for check in made.checks
            ],
        )

    return embeddings
