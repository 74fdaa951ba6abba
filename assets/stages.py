"""The stages of a task for a model, the partition: `T/embeddings` to `T/scores`, of a pair task to `T/pair_scores`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dagster as dg
import pandas as pd

from assets.common import BACKFILL, MODELS, TRAININGS, WEIGHTS, asset_key, final_failures, report_tracking, tag_family
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from resources.charts import draw_map, embed
from resources.studies import last_epochs
from resources.tables import TABLES
from resources.tracking import ScoredCells, TrackingResource
from resources.untracked import add_debt
from traube._core.errors import TraubeError, Unsupported
from traube._core.hashing import digest
from traube._core.progress import Progress
from traube._pipeline.cell import Cell
from traube._pipeline.cluster import CLUSTERING_VERSION
from traube._pipeline.executors import Executor
from traube._pipeline.kinds import kind_of
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.stages import VECTOR_CHECKS, WARNING_CHECKS, describe_failures
from traube._pipeline.survey import plan_stored
from traube._pipeline.validation.findings import refuse_stored
from traube._pipeline.workbench import Workbench
from traube._reports.markdown import markdown
from traube._reports.tables import summary
from traube._storage import Storage
from traube.comparison.verdict import format_score
from traube.metrics import SCORING_VERSION
from traube.models.card import FACTS
from traube.models.prompts import get_model_prompt
from traube.tasks import Source
from traube.tasks.task import Stage


@dataclass(frozen=True)
class ModelStage:
    """A stage of a task for a model, with the objects that compute the stage."""

    context: dg.AssetExecutionContext
    task: str
    workbench: Workbench  # under the stage's lease
    encoder: EncoderResource
    request: Request
    tracking: TrackingResource
    progress: Progress

    @property
    def pending(self) -> tuple[str, str, str]:
        """Return model, task and protocol of the scores that MLflow is to get."""
        return self.context.partition_key, self.task, self.request.protocol_name

    @property
    def origin(self) -> dict[str, str]:
        """Return tags by which a run of MLflow's links back to Dagster's."""
        return {
            "dagster.run_id": self.context.run.run_id,
            "dagster.asset_key": self.context.asset_key.to_user_string(),
            "dagster.partition": self.context.partition_key,
        }

    def plan(self) -> Plan:
        """Plan the requested work on the task and the model.

        Raises an error if the task is not read, or the model cannot do tasks of its kind.
        """
        model = self.encoder.model(self.context.partition_key, self.request.protocol.precision)
        plan = plan_stored(replace(self.request, tasks=[self.task]), model, self.storage)
        if reason := kind_of(plan.at_hand.tasks[self.task].card).explain_refusal(model):
            raise Unsupported(reason)
        return plan

    @property
    def storage(self) -> Storage:
        """Return the storage of the workbench."""
        return self.workbench.storage

    def log(self, logs: Iterable[Callable[[], dict[str, dg.MetadataValue]]]) -> dict[str, dg.MetadataValue]:
        """Log all scores to MLflow, and return the metadata."""
        return report_tracking(self.context, partial(self.tracking.log_all, *self.pending, logs))


def model_asset(
    source: Source, stage: str, upstream: Iterable[str], sources: Iterable[dg.AssetKey] = (), **about: Any
) -> Callable[[Callable[[ModelStage], dg.MaterializeResult]], dg.AssetsDefinition]:
    """Decorate a function that computes a stage of a task for a model, the partition.

    One process at a time works on a task and a model, among all processes and nodes that share the storage: a
    process that waited finds what the other has stored. Errors of the function are final failures.
    """

    def decorate(compute: Callable[[ModelStage], dg.MaterializeResult]) -> dg.AssetsDefinition:
        @dg.asset(
            key=asset_key(source.name, stage),
            deps=[*(asset_key(source.name, name) for name in upstream), *sources],
            partitions_def=MODELS,
            automation_condition=BACKFILL,
            group_name=source.name,
            tags=tag_family(source),
            **about,
        )
        def alone(
            context: dg.AssetExecutionContext,
            storage: StorageResource,
            encoder: EncoderResource,
            benchmark: BenchmarkResource,
            tracking: TrackingResource,
            workers: dg.ResourceParam[Executor],
            progress: dg.ResourceParam[Progress],
        ) -> dg.MaterializeResult:
            workbench = storage.workbench(workers)
            with final_failures(), workbench.hold(source.name, context.partition_key, stage) as held:
                request = benchmark.request()
                return compute(ModelStage(context, source.name, held, encoder, request, tracking, progress))

        return alone

    return decorate


def embeddings_asset(source: Source) -> dg.AssetsDefinition:
    """Make the asset of a task's embeddings, a partition for each model."""
    card, key, kind = source.card, asset_key(source.name, "embeddings"), kind_of(source.card)
    vector_checks = [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name not in WARNING_CHECKS, partitions_def=MODELS)
        for name, text in VECTOR_CHECKS.items()
    ]

    @model_asset(
        source,
        Stage.EMBEDDINGS,
        ("corpus", card.type.table),
        [WEIGHTS],
        kinds={"numpy"},
        description=f"A model's vectors of the {kind.encodes}.",
        check_specs=vector_checks if kind.checks_vectors else None,
    )
    def embeddings(step: ModelStage) -> dg.MaterializeResult:
        refuse_stored(step.storage, card.name)  # Dagster knows the checks of its own run only
        began, plan = time.perf_counter(), step.plan()
        (made,) = encode(plan.only(Stage.EMBEDDINGS), step.workbench, step.progress)
        seconds, encoded = time.perf_counter() - began, made.encoded or 0
        return dg.MaterializeResult(
            data_version=dg.DataVersion(made.fingerprint),
            metadata={
                "texts": made.texts,
                "dimensions": made.dimensions,
                "encoded_now": encoded,
                "from_cache": made.texts - encoded,
                **({"texts_per_second": encoded / seconds} if encoded else {}),
                "device": made.device,
                "fingerprint": made.fingerprint,
                "seconds": seconds,
                **({"long_texts": made.long_texts} if made.long_texts else {}),
            },
            check_results=[
                dg.AssetCheckResult(
                    asset_key=key,
                    check_name=check.name,
                    passed=check.passed,
                    severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
                    description=check.reason or None,
                    metadata=check.facts,
                )
                for check in made.checks
            ],
        )

    return embeddings


def clusterings_asset(source: Source, stage: Stage, **about: Any) -> dg.AssetsDefinition:
    """Return the asset of a task's clusterings by methods of a stage."""

    @model_asset(source, stage, ("embeddings", "splits"), code_version=CLUSTERING_VERSION, **about)
    def clustered(step: ModelStage) -> dg.MaterializeResult:
        began = time.perf_counter()
        statuses, cells, plan = Counter[str](), list[Cell](), step.plan()
        for event in cluster(plan.only(stage), step.workbench, step.progress, step.context.run.run_id):
            statuses[event.status] += 1
            cells.append(event.cell)
            if event.reason:  # a pair of components that makes no sense is no fault
                log = step.context.log.info if event.status == "unsupported" else step.context.log.warning
                log(f"{event.cell.title}: {event.status}: {event.reason}")

        metadata: dict[str, Any] = {"clustered_now": statuses["done"]}
        metadata |= {status: statuses[status] for status in ("failed", "unsupported", "unavailable")}
        metadata["seconds"] = time.perf_counter() - began
        if stage is Stage.DEEP_CLUSTERINGS:
            table = last_epochs(step.storage, cells)
            epochs = "nothing was trained" if table.empty else markdown(table.round(4))
            metadata["last_epochs"] = dg.MetadataValue.md(epochs)
        version = digest(sorted(cell.cell_id for cell in plan.cells))
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return clustered


def scores_asset(source: Source, clusterings: Iterable[Stage]) -> dg.AssetsDefinition:
    """Return the asset of the scores of a task's clusterings, of those stages that the task has."""

    @model_asset(
        source,
        Stage.SCORES,
        (*clusterings, "splits"),
        io_manager_key=TABLES,
        kinds={"parquet", "mlflow"},
        code_version=SCORING_VERSION,
        description=kind_of(source.card).scores_say,
    )
    def scores(step: ModelStage) -> dg.MaterializeResult:
        request, plan = step.request, step.plan()
        # what counts for the protocol stands by itself: a method or seed that is requested besides is a run of its own
        official = Plan.of(replace(request, tasks=[source.name], methods=None, seeds=None), plan.at_hand).cell_ids
        pending_ids = add_debt(*step.pending, sorted({*plan.cell_ids} - {*official}))
        for _ in score(plan.only(Stage.SCORES), step.workbench, step.progress, step.context.run.run_id):
            pass

        metadata, logs = dict[str, dg.MetadataValue](), []
        protocol = request.protocol.for_task(source.name)
        model = plan.at_hand.models[step.context.partition_key]
        words = {"description", "citation", *FACTS} - {"megabytes"}
        dump: dict[str, Any] = {"mode": "json", "exclude_defaults": True, "exclude": words}
        prompt = get_model_prompt(model)
        of_model = model.card.model_dump(**dump) | ({"prompt": prompt} if prompt else {})
        setup = {"protocol": protocol.model_dump(**dump), "model": of_model}
        record = step.context.instance.get_run_record_by_id(step.context.run.run_id)
        began = record.start_time if record and record.start_time else time.time()
        for ids, own_choice in (*((ids, True) for ids in pending_ids), (official, False)):
            cells = step.storage.read_cells(ids=ids)
            if cells.empty:
                continue
            values = step.storage.read_scores(cells, replicates=True)
            protocols = {request.protocol_name: request.protocol}
            table = summary(cells, values, {source.name: source.card}, protocols=protocols)
            evaluation = ScoredCells(source.card, cells, values, table, own_choice)
            logs.append(partial(step.tracking.log, evaluation, setup, step.origin, began))
            metadata |= _describe_scores(table, own_choice)
            with suppress(TraubeError):  # what is drawn is corrupt: the next run makes it again
                if (drawn := draw_map(step.storage, cells)) is not None:
                    metadata["map"] = dg.MetadataValue.md(embed(drawn))
        metadata |= step.log(logs)
        if failed := describe_failures(step.storage, plan.cell_ids):  # what was scored of the others is shown
            raise dg.Failure(failed, metadata=metadata, allow_retries=False)
        version = dg.DataVersion(digest([sorted(plan.cell_ids), SCORING_VERSION]))
        return dg.MaterializeResult(data_version=version, metadata=metadata)

    return scores


def _describe_scores(table: pd.DataFrame, own_choice: bool) -> dict[str, dg.MetadataValue]:
    """Return the table as metadata, and per level the best method's score, if the methods are official.

    In the table scores are times 100, as on the leaderboard. Dagster plots the best ones, from 0 to 1, across models.
    """
    scored = table.dropna(subset="mean").astype({"splits": int, "seeds": int})
    for name in (values := ["mean", "sd", "low", "high"]):
        scored[name] = scored[name].map(format_score)
    score_table = dg.MetadataValue.md(markdown(scored[["level", "method", "metric", *values, "splits", "seeds"]]))
    if own_choice:
        return {"own_choice": score_table}
    metadata: dict[str, dg.MetadataValue] = {"scores": score_table}
    others = table[table["mean"].isna()].drop_duplicates(["method", "reason"])
    if len(others):
        metadata["not_scored"] = dg.MetadataValue.md(markdown(others[["method", "status", "reason"]]))
    for level, rows in table.dropna(subset="mean").groupby("level"):
        best = rows.loc[rows["mean"].idxmax()]
        metadata[f"best_{level}"] = dg.MetadataValue.float(float(best["mean"]))
        metadata[f"best_{level}_method"] = dg.MetadataValue.text(str(best["method"]))
    return metadata


def summary_asset(source: Source) -> dg.AssetsDefinition:
    """Make the asset of the scores of a task whose kind clusters nothing."""
    kind, stage = kind_of(source.card), source.card.type.stages[-1]

    @model_asset(
        source,
        stage,
        ("embeddings", source.card.type.table),
        io_manager_key=TABLES,
        kinds={"parquet", "mlflow"},
        code_version=kind.scoring_version,
        description=kind.scores_say,
    )
    def summarized(step: ModelStage) -> dg.MaterializeResult:
        plan = step.plan()
        add_debt(*step.pending)
        computed = sum(1 for _ in score(plan.only(stage), step.workbench, step.progress, step.context.run.run_id))
        kind_summary = kind.summarize(step.storage, plan.cell_ids)
        log = partial(step.tracking.log_metrics, source.card, plan.cells[0], kind_summary.metrics, step.origin)
        metadata = {
            "scored_now": dg.MetadataValue.int(computed),
            **{name: dg.MetadataValue.float(value) for name, value in kind_summary.main.items()},
            "scores": dg.MetadataValue.md(markdown(kind_summary.table.round(4))),
            **step.log([log]),
        }
        return dg.MaterializeResult(data_version=dg.DataVersion(digest(sorted(plan.cell_ids))), metadata=metadata)

    return summarized


STAGES: dict[Stage, Callable[[Source], dg.AssetsDefinition]] = {
    Stage.EMBEDDINGS: embeddings_asset,
    Stage.CLUSTERINGS: partial(
        clusterings_asset,
        stage=Stage.CLUSTERINGS,
        kinds={"scikitlearn"},
        description="The clusters that each method finds in each split.",
    ),
    Stage.DEEP_CLUSTERINGS: partial(
        clusterings_asset,
        stage=Stage.DEEP_CLUSTERINGS,
        kinds={"torch"},
        description="The clusters that each method finds that trains on the texts of each split. A training that was "
        "stopped goes on where it was.",
        pool=TRAININGS,
        # a GPU fails now and then; a cell reports other errors itself
        retry_policy=dg.RetryPolicy(max_retries=1),
    ),
}
