"""`T/corpus`, `T/pairs`, `T/embeddings` and `T/pair_scores` of a pair task T: how well models'
similarities follow the gold scores of pairs.
"""

import time

import dagster as dg

from assets.common import FILL, MODELS, PAIR_DATA_STAGES, asset_key, claimed, refuse_failed_checks, told
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from resources.tracking import TrackingResource
from traube.engine.executors import Executor
from traube.engine.pair_cells import pair_cells, score_missing
from traube.engine.pair_scores import ALL
from traube.engine.progress import Progress
from traube.engine.stages import encode_pairs, read_pairs
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest, frame_digest
from traube.quality import Table, refuse_kept
from traube.report.markdown import markdown
from traube.store.pairs import PAIRS_VERSION, PairStore
from traube.tasks import PairSource


def pair_assets(source: PairSource) -> list[dg.AssetsDefinition]:
    """The stages of a pair task."""
    return [make(source) for make in (_corpus, _pairs, _embeddings, _pair_scores)]


def _specs(source: PairSource, stage: str) -> list[dg.AssetCheckSpec]:
    table: Table = "corpus" if stage == "corpus" else "pairs"
    return check_specs(asset_key(source.name, stage), source.card.for_checks(), table)


def _corpus(source: PairSource) -> dg.AssetsDefinition:
    key = asset_key(source.name, "corpus")

    @dg.asset(
        key=key,
        group_name=source.card.family,
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: the unique texts.",
        metadata={"language": source.card.language, "licence": source.card.licence, "source": source.card.source},
        check_specs=_specs(source, "corpus"),
    )
    def corpus(
        storage: StorageResource, quality: QualityResource, workers: dg.ResourceParam[Executor]
    ) -> dg.MaterializeResult:
        try:
            task = read_pairs(source, PairStore.of(storage.store))
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(task.corpus)),
            metadata={
                "dagster/row_count": len(task.corpus),
                "mean_characters": float(task.corpus["text"].str.len().mean()),
                "preview": dg.MetadataValue.md(markdown(task.corpus.head(5))),
            },
            check_results=quality.check_corpus(source.card.for_checks(), key, task.corpus, workers),
        )

    return corpus


def _pairs(source: PairSource) -> dg.AssetsDefinition:
    key = asset_key(source.name, "pairs")

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, "corpus")],
        group_name=source.card.family,
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: which texts are compared, and their gold scores.",
        check_specs=_specs(source, "pairs"),
    )
    def pairs(
        storage: StorageResource, quality: QualityResource, workers: dg.ResourceParam[Executor]
    ) -> dg.MaterializeResult:
        store = PairStore.of(storage.store)
        try:
            task = store.read(source.name)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        checked = quality.check_pairs(task.card, key, task.pairs, task.corpus, workers)
        store.complete(source.name)  # only now: a task whose checks were cut short is read again
        by_part = task.pairs.groupby("part", sort=False)["score"].describe().reset_index()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(task.pairs)),
            metadata={
                "dagster/row_count": len(task.pairs),
                "dialogues": int(task.pairs["dialogue"].nunique()),
                "task_data_version": task.data_version,
                "scores": dg.MetadataValue.md(markdown(by_part.round(3))),
            },
            check_results=checked,
        )

    return pairs


def _embeddings(source: PairSource) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(source.name, "embeddings"),
        deps=[asset_key(source.name, stage) for stage in PAIR_DATA_STAGES],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"numpy"},
        description="A model's vectors of the texts of the test pairs, and of these with their histories.",
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
        store, began = PairStore.of(storage.store), time.perf_counter()
        specs = [spec for stage in PAIR_DATA_STAGES for spec in _specs(source, stage)]
        refuse_failed_checks(context, specs, lambda: _check(source, store, quality, workers))
        try:
            model = encoder.model(context.partition_key, benchmark.request().protocol.precision)
            version = store.read(source.name).data_version
            refuse_kept(source.card.for_checks(), store.checks(source.name), version, ("corpus", "pairs"))
            task, found = encode_pairs(source.name, model, storage.workbench_with(workers), progress)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            data_version=dg.DataVersion(digest([model.fingerprint, task.data_version])),
            metadata={
                "texts": sum(map(len, found)),
                "dimensions": found[0].dimensions,
                "device": model.device,
                "seconds": time.perf_counter() - began,
            },
        )

    return embeddings


def _check(
    source: PairSource, store: PairStore, quality: QualityResource, workers: Executor
) -> list[dg.AssetCheckResult]:
    """Make the checks of the tables again."""
    task, (corpus, pairs) = store.read(source.name), (asset_key(source.name, stage) for stage in PAIR_DATA_STAGES)
    return [
        *quality.check_corpus(source.card.for_checks(), corpus, task.corpus, workers),
        *quality.check_pairs(task.card, pairs, task.pairs, task.corpus, workers),
    ]


def _pair_scores(source: PairSource) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(source.name, "pair_scores"),
        deps=[asset_key(source.name, "embeddings"), asset_key(source.name, "pairs")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"parquet", "mlflow"},
        code_version=PAIRS_VERSION,
        description="How well each comparison of the model's vectors follows the gold scores.",
    )
    @claimed(source.name)
    def pair_scores(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        tracking: TrackingResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        store = PairStore.of(storage.store)
        try:
            model = encoder.model(context.partition_key, benchmark.request().protocol.precision)
            task = store.read(source.name)
            cells = pair_cells(task, model)
            tracking.owe(model.name, task.name)
            workbench = storage.workbench_with(workers)
            computed = score_missing(task, model, cells, workbench, run_id=context.run.run_id, progress=progress)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        table = store.scores(cells)
        whole = table[table["group"] == ALL]
        records = [record for cell in cells if (record := store.cell(cell.task, cell.cell_id))]
        asset = asset_key(source.name, "pair_scores").to_user_string()
        metadata = {
            "scored_now": dg.MetadataValue.int(computed),
            "pearson": dg.MetadataValue.float(float(whole["pearson"].iloc[0])),
            "spearman": dg.MetadataValue.float(float(whole["spearman"].iloc[0])),
            "scores": dg.MetadataValue.md(markdown(table.drop(columns=["task", "model"]).round(4))),
            **told(
                context,
                lambda: tracking.log_pairs(task.card, records, context.run.run_id, asset, context.partition_key),
            ),
        }
        return dg.MaterializeResult(
            data_version=dg.DataVersion(digest(sorted(cell.cell_id for cell in cells))), metadata=metadata
        )

    return pair_scores
