"""`T/scores`: metrics of every clustering, stored first, tracked in MLflow then."""

from functools import partial

import dagster as dg
import pandas as pd

from assets.common import FILL, MODELS, TRAINING_STAGE, asset_key, claimed, told
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from resources.tracking import TrackingResource
from traube.engine.executors import Executor
from traube.engine.progress import Progress
from traube.engine.stages import failed_cells, score_clustered
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest
from traube.metrics import SCORING_VERSION
from traube.report.markdown import markdown
from traube.report.tables import summary
from traube.tasks.source import Source


def scores_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "scores")

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, stage) for stage in ("clusterings", TRAINING_STAGE, "splits")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"parquet", "mlflow"},
        code_version=SCORING_VERSION,
        description="How well the clusters agree with the gold labels, under every metric.",
    )
    @claimed(source.name)
    def scores(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        tracking: TrackingResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        store, workbench = storage.store, storage.workbench_with(workers)
        try:
            request = benchmark.request()
            model = encoder.model(context.partition_key, request.protocol.precision)
            workbench.manifest(source.name)  # only of a task that is read is MLflow owed anything
            tracking.owe(context.partition_key, source.name)
            made = score_clustered(source.name, model, request, workbench, run_id=context.run.run_id, progress=progress)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error

        metadata: dict[str, dg.MetadataValue] = {}
        # what counts for the protocol stands by itself: a method or seed that somebody asked for besides is a run of its own
        for ids, own_choice in ((sorted({*made.asked} - {*made.official}), True), (made.official, False)):
            cells = store.cells_by_id(source.name, ids)
            if cells.empty:
                continue
            values = store.scores(cells, replicates=True)
            protocols = {request.protocol_name: request.protocol}
            table = summary(cells, values, {source.name: source.card}, protocols=protocols)
            run = (context.run.run_id, key.to_user_string(), context.partition_key)
            log = partial(tracking.log, source.card, cells, values, table, *run, own_choice=own_choice)
            metadata |= _metadata(table, own_choice) | told(context, log)
        if failed := failed_cells(store, source.name, made.asked):  # what was scored of the others is shown
            raise dg.Failure(failed, metadata=metadata, allow_retries=False)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(digest([sorted(made.asked), SCORING_VERSION])), metadata=metadata
        )

    return scores


def _metadata(table: pd.DataFrame, own_choice: bool) -> dict[str, dg.MetadataValue]:
    """Per level the best method's score, which Dagster plots across models; and the whole table. Of methods and
    seeds that somebody asked for besides the protocol's, the table alone.
    """
    shown = table[["level", "method", "metric", "mean", "sd", "low", "high", "splits", "seeds"]]
    if own_choice:
        return {"own_choice": dg.MetadataValue.md(markdown(shown.round(4)))}
    metadata: dict[str, dg.MetadataValue] = {"scores": dg.MetadataValue.md(markdown(shown.round(4)))}
    for level, rows in table.groupby("level"):
        best = rows.loc[rows["mean"].idxmax()] if rows["mean"].notna().any() else None
        if best is not None:
            metadata[f"best_{level}"] = dg.MetadataValue.float(float(best["mean"]))
            metadata[f"best_{level}_method"] = dg.MetadataValue.text(str(best["method"]))
    return metadata
