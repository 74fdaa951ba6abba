"""MLflow: a run per task, model and version of everything, a nested run per method."""
# Scores are in the storage before they are reported to MLflow, so tracking can fail, or be repeated, without losing or
# doubling anything: runs are found again by a tag that hashes what they are about.

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from resources.experiment import (
    IDENTITY,
    KEY,
    Experiment,
    connect,
    default_uri,
    find_origin,
    get_task_page,
    name_metric,
)
from resources.untracked import settle_debt
from traube._core.escaping import format_csv
from traube._pipeline.cell import Cell
from traube._pipeline.kinds import select_kind
from traube._pipeline.kinds.clustering import CLUSTERINGS
from traube._reports.tables import show_rank
from traube.comparison.verdict import format_significance
from traube.components.method import name_methods
from traube.tasks.task import TaskCard

OF_RANK = (
    "traube.rank/",
    "traube.p/",
    "traube.verdict/",
    "traube.verdict_date",
)  # how tags begin that `log_ranks` sets


@dataclass(frozen=True)
class ScoredCells:
    """The cells of a task and model under a protocol, and their scores."""

    card: TaskCard
    cells: pd.DataFrame
    scores: pd.DataFrame  # of each cell, split and metric
    table: pd.DataFrame  # `summary` of both
    own_choice: bool  # whether methods or seeds are not the protocol's


class TrackingResource(dg.ConfigurableResource):
    """Logs scores to MLflow. What is logged is returned as metadata for Dagster: the link to the MLflow run."""

    uri: str = Field(default="", description="by default MLFLOW_TRACKING_URI, or mlflow.db below TRAUBE_HOME")

    def connect(self) -> Experiment:
        """Return Traube's experiment, in an initialized store."""
        return connect(self.uri or default_uri())

    def log_all(
        self, model: str, task: str, protocol: str, logs: Iterable[Callable[[], dict[str, dg.MetadataValue]]]
    ) -> dict[str, dg.MetadataValue]:
        """Log all scores of a model on a task under a protocol: from then on MLflow lacks none."""
        metadata = {name: value for log in logs for name, value in log().items()}
        settle_debt(model, task, protocol)
        return metadata

    def log(
        self, evaluation: ScoredCells, setup: Mapping[str, Any], origin: Mapping[str, str], began: float
    ) -> dict[str, dg.MetadataValue]:
        """Log an evaluation, and update the runs that exist. Those of one's own choice have runs of their own.

        Parameters
        ----------
        evaluation : ScoredCells
            Of its cells those that are done are logged.
        setup : mapping
            Values of the model and the protocol, which become parameters.
        origin : mapping of str to str
            Tags that name Dagster's run.
        began : float
            When Dagster's run began, in seconds since 1970.
        """
        done = evaluation.cells[evaluation.cells["status"] == "done"]
        if done.empty:
            return {}
        card, own_choice, experiment = evaluation.card, evaluation.own_choice, self.connect()
        identity = {name: str(done.iloc[0][name]) for name in IDENTITY}
        key: Any = [identity, "own choice", sorted(done["cell_id"])] if own_choice else identity
        page = get_task_page(card.name)
        tags = {
            **{f"traube.{name}": value for name, value in identity.items()},
            **origin,
            "traube.page": page,
            "mlflow.note.content": f"[All of {card.name}]({page}), while `traube dev` runs.",
        }
        if own_choice:
            tags["traube.own_choice"] = "true"
        name = f"{card.name} x {identity['model']}{', own choice' if own_choice else ''}"
        values = done.merge(evaluation.scores, on="cell_id")
        values = values.assign(method=name_methods(values))
        # the cells were made with the run, or before it; in milliseconds since 1970
        created = pd.to_datetime(done["created"], utc=True, format="ISO8601").map(pd.Timestamp.timestamp)
        first = min(began, (created - done["seconds"].fillna(0)).min())
        span = int(1000 * first), int(1000 * created.max())

        best = evaluation.table[evaluation.table["best"].astype(bool)].dropna(subset="mean")
        of_best = _describe_best(best) | {"traube.kind": "task"}
        rows = best.itertuples(index=False)
        notes = [f"`best/{row.level}` is {row.metric} of {row.method}, as all of `{row.level}/`. " for row in rows]
        of_best["mlflow.note.content"] = "".join([*notes, tags["mlflow.note.content"]])

        with experiment.open_run(key, name, tags | of_best, span) as parent:
            # what is in the tags alone would be an axis in MLflow's comparison of models: hashes tell people nothing
            params = {name: identity[name] for name in ("task", "model", "protocol")} | _describe(card)
            params |= _flatten(setup)
            metrics = {f"best/{level}": mean for level, mean in zip(best["level"], best["mean"], strict=True)}
            metrics |= _average(values.merge(best[["level", "method"]]))
            model_id = "" if own_choice else _ensure_logged_model(experiment, parent, identity, params)
            about = (model_id, card.name, identity["data_version"]) if model_id else ()
            experiment.log(parent, params, metrics, *about)
            _log_dataset(experiment, parent, card, identity["data_version"])
        nested = {"traube.kind": "method", "mlflow.parentRunId": parent.info.run_id}
        _log_methods(experiment, values, key, tags | nested, span)
        return experiment.link(parent)

    def log_ranks(self, leaderboard: pd.DataFrame) -> dict[str, dg.MetadataValue]:
        """Tag each model's run of a task with its rank at each level, and the verdict on the first model against it.

        Runs of models, or of weights, that the leaderboard no longer has lose these tags.
        """
        from mlflow.entities import RunTag

        date, experiment = datetime.now(UTC).date().isoformat(), self.connect()
        ranked = experiment.find_runs("tags.`traube.verdict_date` LIKE '%'")
        for rows, runs in experiment.find_official_runs(leaderboard):
            tags = {}
            for row in rows.itertuples(index=False):
                level = name_metric(row.level)
                tags[f"traube.rank/{level}"] = show_rank(row)
                if row.verdict:
                    tags[f"traube.p/{level}"] = format_significance(row.p, int(row.comparisons))
                    tags[f"traube.verdict/{level}"] = row.verdict
            for run in runs:
                if not tags.items() <= run.data.tags.items():
                    dated = {**tags, "traube.verdict_date": date}
                    experiment.client.log_batch(run.info.run_id, tags=[RunTag(*tag) for tag in dated.items()])
                ranked.pop(run.data.tags[KEY], None)
        for run in ranked.values():
            for tag in [tag for tag in run.data.tags if tag.startswith(OF_RANK)]:
                experiment.client.delete_tag(run.info.run_id, tag)
        return {}

    def find_contradictions(self, leaderboard: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
        """Return model, task and protocol whose run lacks the leaderboard's best scores, and whether there is a run."""
        contradictions = []
        for rows, runs in self.connect().find_official_runs(select_kind(leaderboard, CLUSTERINGS)):
            logged = runs[0].data.metrics if runs else {}
            scored = rows.dropna(subset="mean").itertuples(index=False)
            if any(logged.get(name_metric(f"best/{row.level}")) != row.mean for row in scored):
                contradictions.append((*rows.iloc[0][["model", "task", "protocol"]], bool(runs)))
        return contradictions

    def log_metrics(
        self, card: TaskCard, cell: Cell, metrics: Mapping[str, float], origin: Mapping[str, str]
    ) -> dict[str, dg.MetadataValue]:
        """Log the metrics of a model's cells on a task as one run; `cell` is one of them."""
        experiment = self.connect()
        identity = {name: str(getattr(cell, name)) for name in IDENTITY if name != "protocol"}
        tags = {**{f"traube.{name}": value for name, value in identity.items()}, **origin}
        with experiment.open_run([card.type.name, identity], f"{card.name} x {cell.model}", tags) as run:
            experiment.log(run, identity | _describe(card), metrics)
            _log_dataset(experiment, run, card, identity["data_version"])
        return experiment.link(run)

    @contextmanager
    def watch_training(self, dagster_run: str, trainer: str, task: str) -> Iterator[str]:
        """Open a training's run, which records what processors, memory and disk do while the block lasts; yield its id.

        If MLflow cannot be reached, the id is empty and the training goes on.
        """
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        tags = {**find_origin(), "traube.kind": "training", "dagster.run_id": dagster_run}
        run_id, monitor = "", None
        try:
            experiment = self.connect()
            run = experiment.client.create_run(experiment.id, tags=tags, run_name=f"{trainer} on {task}")
            run_id = run.info.run_id
            monitor = SystemMetricsMonitor(run_id, tracking_uri=self.uri or default_uri())
            monitor.start()
        except Exception as error:
            logging.getLogger("mlflow").warning("a training could not be reported to MLflow: %s", error)
        status = "FAILED"
        try:
            yield run_id
            status = "FINISHED"
        finally:
            if monitor is not None:
                monitor.finish()
                with suppress(Exception):  # `log_curve` reports it, too
                    experiment.client.set_terminated(run_id, status)

    def log_curve(
        self, run_id: str, name: str, curve: Sequence[Mapping[str, float | None]], params: Mapping[str, Any]
    ) -> dict[str, dg.MetadataValue]:
        """Log a training's recipe and curve, of entries with `step`, to its run, which gets the checkpoint's name."""
        from mlflow.entities import Metric

        experiment = self.connect()
        client, now = experiment.client, int(time.time() * 1000)
        # without an id, MLflow could not be reached when the training began
        run = client.get_run(run_id) if run_id else client.create_run(experiment.id, tags={"traube.kind": "training"})
        client.update_run(run.info.run_id, "FINISHED", name)
        experiment.log(run, params, {})
        metrics = [
            Metric(metric, float(value), now, int(entry["step"] or 0))
            for entry in curve
            for metric, value in entry.items()
            if metric != "step" and value is not None
        ]
        client.log_batch(run.info.run_id, metrics)
        return experiment.link(run)

    def log_study(
        self, name: str, best: Mapping[str, float], trials: pd.DataFrame, pages: Mapping[str, str], run_id: str
    ) -> dict[str, dg.MetadataValue]:
        """Log a study as it stands: its best values, its trials and its plots (html by file name)."""
        experiment = self.connect()
        with experiment.open_run(["study", name, len(trials)], name, {"dagster.run_id": run_id}) as run:
            params = {name: value for name, value in best.items() if name != "value"}
            experiment.log(run, params, {"best": best["value"]} if best else {})
            for file, text in {"trials.csv": format_csv(trials), **pages}.items():
                experiment.client.log_text(run.info.run_id, text, file)
        return experiment.link(run)


def name_logged_model(task: str, model: str) -> str:
    """Return a name that MLflow takes: it refuses some characters."""
    return re.sub(r"""[/:.%"']""", "-", f"{task}-{model}")


def _log_methods(
    experiment: Experiment, values: pd.DataFrame, key: Any, tags: Mapping[str, str], span: tuple[int, int]
) -> None:
    """Log the scores of each method in a run of its own, nested in the run of a key."""
    known = experiment.find_runs(f"tags.mlflow.parentRunId = '{tags['mlflow.parentRunId']}'")
    for method, rows in values.groupby("method", sort=False):
        first = rows.iloc[0]
        # no parameter: those may not change
        seeds = {"traube.seeds": " ".join(sorted({str(int(seed)) for seed in rows["seed"].dropna()}))}
        child_key = [key, method, first["params"]]
        with experiment.open_run(child_key, str(method), {**tags, **seeds}, span, known) as run:
            params = {"reducer": first["reducer"], "clusterer": first["clusterer"], **_flatten(first["params"])}
            experiment.log(run, params, _average(rows))


def _describe_best(best: pd.DataFrame) -> dict[str, str]:
    """Return the tags that name the metric of `best/LEVEL`, and the method whose scores are `LEVEL/METRIC`."""
    tags = dict[str, str]()
    for row in best.itertuples(index=False):
        level = name_metric(row.level)
        tags |= {f"traube.metric/{level}": row.metric, f"traube.method/{level}": row.method}
    return tags


def _average(scores: pd.DataFrame) -> dict[str, float]:
    """Return the mean score of each level and metric, by `level/metric`."""
    means = scores.groupby(["level", "metric"])["value"].mean().dropna()
    return {f"{level}/{metric}": value for (level, metric), value in means.items()}


def _describe(card: TaskCard) -> dict[str, str]:
    return {"family": card.family, "language": card.language, "license": card.license}


def _flatten(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values by their path, such as `reducer.n_neighbors`."""
    return pd.json_normalize(dict(value)).to_dict("records")[0]


def _ensure_logged_model(
    experiment: Experiment, run: Any, identity: Mapping[str, str], params: Mapping[str, Any]
) -> str:
    """Return the id of the model that a run is of, as MLflow ranks and compares models."""
    client, run_id = experiment.client, run.info.run_id
    logged_models = client.search_logged_models([experiment.id], f"source_run_id = '{run_id}'")
    if logged_models:
        return str(logged_models[0].model_id)
    tags = {f"traube.{key}": identity[key] for key in ("task", "model", "protocol", "data_version")}
    name = name_logged_model(identity["task"], identity["model"])
    made = client.create_logged_model(experiment.id, name, run_id, tags, dict(params), model_type="embedding")
    return str(client.finalize_logged_model(made.model_id, "READY").model_id)


def _log_dataset(experiment: Experiment, run: Any, card: TaskCard, version: str) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = json.dumps({"uri": card.source or card.name})
    dataset = Dataset(name=card.name, digest=version, source_type="traube", source=source)
    inputs = [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])]
    experiment.client.log_inputs(run.info.run_id, inputs)
