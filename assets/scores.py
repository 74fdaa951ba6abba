"""`T/scores`: metrics of every clustering, stored first, tracked in MLflow then; of a pair task, `T/pair_scores`."""

from dataclasses import replace
from functools import partial

import dagster as dg
import pandas as pd

from assets.common import model_asset, plan_of, told
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from resources.tracking import TrackingResource
from resources.unlogged import add_debt
from traube.core.hashing import digest
from traube.core.progress import Progress
from traube.metrics import SCORING_VERSION
from traube.pipeline.executors import Executor
from traube.pipeline.pairs import KINDS, PAIRS_VERSION, PairCell, read_pair_scores
from traube.pipeline.plan import Plan
from traube.pipeline.run import run
from traube.pipeline.stages import failed_cells
from traube.reports.markdown import markdown
from traube.reports.tables import summary
from traube.tasks.scored_pairs import ALL
from traube.tasks.source import Source
from traube.tasks.task import Stage


def scores_asset(source: Source) -> dg.AssetsDefinition:
    @model_asset(
        source,
        Stage.SCORES,
        (Stage.CLUSTERINGS, Stage.DEEP_CLUSTERINGS, "splits"),
        kinds={"parquet", "mlflow"},
        code_version=SCORING_VERSION,
        description="How well the clusters agree with the gold labels, under every metric.",
    )
    def scores(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        tracking: TrackingResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        opened, request = storage.open(), benchmark.request()
        plan = plan_of(source.name, context.partition_key, request, encoder, storage)
        # what counts for the protocol stands by itself: a method or seed that somebody asked for besides is a run of its own
        official = Plan.of(replace(request, tasks=[source.name], methods=None, seeds=None), plan.at_hand).cell_ids
        owed = (context.partition_key, source.name, request.protocol_name)  # of a task that is read
        own = add_debt(*owed, sorted({*plan.cell_ids} - {*official}))
        for _ in run(plan.only(Stage.SCORES), storage.workbench(workers), progress, context.run.run_id):
            pass

        metadata, logs = dict[str, dg.MetadataValue](), []
        for ids, own_choice in (*((ids, True) for ids in own), (official, False)):
            cells = opened.read_cells(ids=ids)
            if cells.empty:
                continue
            values = opened.read_scores(cells, replicates=True)
            protocols = {request.protocol_name: request.protocol}
            table = summary(cells, values, {source.name: source.card}, protocols=protocols)
            log = partial(tracking.log, source.card, cells, values, table, _origin(context), own_choice=own_choice)
            logs.append(log)
            metadata |= _metadata(table, own_choice)
        metadata |= told(context, partial(tracking.log_all, *owed, logs))
        if failed := failed_cells(opened, plan.cell_ids):  # what was scored of the others is shown
            raise dg.Failure(failed, metadata=metadata, allow_retries=False)
        version = dg.DataVersion(digest([sorted(plan.cell_ids), SCORING_VERSION]))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return scores


def _origin(context: dg.AssetExecutionContext) -> dict[str, str]:
    """Tags by which a run of MLflow's links back to Dagster's."""
    run_id, asset = context.run.run_id, context.asset_key.to_user_string()
    return {"dagster.run_id": run_id, "dagster.asset_key": asset, "dagster.partition": context.partition_key}


def _metadata(table: pd.DataFrame, own_choice: bool) -> dict[str, dg.MetadataValue]:
    """The table; and per level the best method's score, which Dagster plots across models, if the methods are official."""
    shown = table[["level", "method", "metric", "mean", "sd", "low", "high", "splits", "seeds"]]
    if own_choice:
        return {"own_choice": dg.MetadataValue.md(markdown(shown.round(4)))}
    metadata: dict[str, dg.MetadataValue] = {"scores": dg.MetadataValue.md(markdown(shown.round(4)))}
    for level, rows in table.dropna(subset="mean").groupby("level"):
        best = rows.loc[rows["mean"].idxmax()]
        metadata[f"best_{level}"] = dg.MetadataValue.float(float(best["mean"]))
        metadata[f"best_{level}_method"] = dg.MetadataValue.text(str(best["method"]))
    return metadata


def pair_scores_asset(source: Source) -> dg.AssetsDefinition:
    @model_asset(
        source,
        Stage.PAIR_SCORES,
        ("embeddings", "pairs"),
        kinds={"parquet", "mlflow"},
        code_version=PAIRS_VERSION,
        description="How well each comparison of the model's vectors follows the gold scores.",
    )
    def pair_scores(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        tracking: TrackingResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        request = benchmark.request()
        plan = plan_of(source.name, context.partition_key, request, encoder, storage)
        owed = (context.partition_key, source.name, request.protocol_name)
        add_debt(*owed)
        events = run(plan.only(Stage.PAIR_SCORES), storage.workbench(workers), progress, context.run.run_id)
        computed = sum(1 for _ in events)
        cells = [cell for cell in plan.cells if isinstance(cell, PairCell)]
        table = read_pair_scores(storage.open(), cells)
        whole = table[table["group"] == ALL]
        log = partial(tracking.log_pairs, source.card, cells[0], table, _origin(context))
        metadata = {
            "scored_now": dg.MetadataValue.int(computed),
            **{kind: dg.MetadataValue.float(float(whole[kind].iloc[0])) for kind in KINDS},
            "scores": dg.MetadataValue.md(markdown(table.drop(columns=["task", "model"]).round(4))),
            **told(context, partial(tracking.log_all, *owed, [log])),
        }
        return dg.MaterializeResult(data_version=dg.DataVersion(digest(sorted(plan.cell_ids))), metadata=metadata)

    return pair_scores
