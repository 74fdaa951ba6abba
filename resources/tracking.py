"""MLflow: a run per task, model and version of everything, a nested run per method."""
# Scores are in the storage before MLflow is told of them, so tracking can fail, or be repeated, without losing or
# doubling anything: runs are found again by a tag that hashes what they are about.

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from resources.databases import EXPERIMENT, KIND, make_mlflow, make_shared_mlflow, mlflow_url
from resources.unlogged import settle_debt
from traube.comparison.verdict import format_significance
from traube.core import paths, settings
from traube.core.errors import TraubeError
from traube.core.escaping import format_csv
from traube.core.hashing import digest
from traube.pipeline.cell import Cell
from traube.pipeline.pairs import KINDS
from traube.reports.pages import SERVED
from traube.reports.tables import show_rank
from traube.tasks.task import TaskCard

KEY = "traube.key"
# What identifies a run; the same six are its tag.
IDENTITY = ("task", "model", "protocol", "data_version", "fingerprint", "code_version")
MOST_RUNS = 50_000  # that MLflow gives at once


class TrackingResource(dg.ConfigurableResource):
    """Logs scores to MLflow. What is logged is returned as metadata for Dagster: the link to the MLflow run."""

    uri: str = Field(default="", description="by default MLFLOW_TRACKING_URI, or mlflow.db below TRAUBE_HOME")

    def client(self) -> Any:
        """Return an MlflowClient whose store is initialized, and the experiment's id."""
        return connect(self.uri or default_uri())

    def log_all(
        self, model: str, task: str, protocol: str, logs: Iterable[Callable[[], dict[str, dg.MetadataValue]]]
    ) -> dict[str, dg.MetadataValue]:
        """Log all scores of a model on a task under a protocol: from then on MLflow lacks none."""
        metadata = {name: value for log in logs for name, value in log().items()}
        settle_debt(model, task, protocol)
        return metadata

    def log(
        self,
        card: TaskCard,
        cells: pd.DataFrame,
        scores: pd.DataFrame,
        table: pd.DataFrame,
        origin: Mapping[str, str],
        setup: dict[str, Any],
        *,
        began: float,
        own_choice: bool = False,
    ) -> dict[str, dg.MetadataValue]:
        """Log the scored cells of one task and model, and update the runs that are there already.

        Those of one's own choice, of methods or seeds that are not the protocol's, have runs of their own. `setup` are
        values of the model and the protocol, which become parameters; `began` is when Dagster's run did, in seconds since 1970.
        """
        done = cells[cells["status"] == "done"]
        if done.empty:
            return {}
        client, experiment = self.client()
        first = done.iloc[0]
        identity = {name: str(first[name]) for name in IDENTITY}
        key: Any = [identity, "own choice", sorted(done["cell_id"])] if own_choice else identity
        served = f"{get_ui('DAGSTER', 3000)}{SERVED}/{card.name}.html"
        tags = {
            "traube.kind": "task",
            **({"traube.own_choice": "true"} if own_choice else {}),
            **{f"traube.{name}": value for name, value in identity.items()},
            **origin,
            "traube.page": served,
            "mlflow.note.content": f"[All of {card.name}]({served}), while `traube dev` runs.",
        }
        values = done.merge(scores, on="cell_id").assign(method=lambda rows: rows["reducer"] + "/" + rows["clusterer"])
        best = table[table["best"].astype(bool)].dropna(subset="mean")
        of_best = values.merge(best[["level", "method"]]).groupby(["level", "metric"])["value"].mean().dropna()
        name = f"{card.name} x {first['model']}{', own choice' if own_choice else ''}"
        span = _find_span(done, began)
        with _run(client, experiment, digest(key), name, tags, span) as parent:
            about = {"family": card.family, "language": card.language, "licence": card.licence}
            # what is in the tags alone would be an axis in MLflow's comparison of models: hashes tell people nothing
            params = {name: identity[name] for name in ("task", "model", "protocol")} | about | _flat(setup)
            metrics = {f"best/{level}": mean for level, mean in zip(best["level"], best["mean"], strict=True)}
            metrics |= {f"{level}/{metric}": value for (level, metric), value in of_best.items()}
            title = name_logged_model(card.name, str(first["model"]))
            ranked = "" if own_choice else _find_logged_model(client, experiment, parent, title, identity, params)
            _log(client, parent, params, metrics, ranked, (card.name, identity["data_version"]))
            _log_dataset(client, parent, card, identity["data_version"])
        children = _runs(client, experiment, f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
        for method, rows in values.groupby("method", sort=False):
            child_key = digest([key, method, rows.iloc[0]["params"]])
            seeds = " ".join(sorted({str(int(s)) for s in rows["seed"].dropna()}))  # no parameter: those may not change
            of_method = {"traube.kind": "method", "traube.seeds": seeds, "mlflow.parentRunId": parent.info.run_id}
            with _run(client, experiment, child_key, method, tags | of_method, span, children) as child:
                means = rows.groupby(["level", "metric"])["value"].mean()
                metrics = {f"{level}/{metric}": value for (level, metric), value in means.dropna().items()}
                params = {"reducer": rows.iloc[0]["reducer"], "clusterer": rows.iloc[0]["clusterer"]}
                _log(client, child, params | _flat(rows.iloc[0]["params"]), metrics)
        return _link_run(experiment, parent)

    def log_ranks(self, leaderboard: pd.DataFrame) -> dict[str, dg.MetadataValue]:
        """Tag each model's run of a task with its rank at each level, and the verdict on the first model against it."""
        from mlflow.entities import RunTag

        date, (client, experiment) = datetime.now(UTC).date().isoformat(), self.client()
        for rows, runs in list_official(client, experiment, leaderboard):
            tags = {}
            for row in rows.itertuples(index=False):
                tags[f"traube.rank/{row.level}"] = show_rank(row)
                if row.verdict:
                    tags[f"traube.p/{row.level}"] = format_significance(row.p, int(row.comparisons))
                    tags[f"traube.verdict/{row.level}"] = row.verdict
            for run in runs:
                if any(run.data.tags.get(name) != value for name, value in tags.items()):
                    made = {**tags, "traube.verdict_date": date}
                    client.log_batch(run.info.run_id, tags=[RunTag(*tag) for tag in made.items()])
        return {}

    def find_contradictions(self, leaderboard: pd.DataFrame) -> list[tuple[str, str, str, bool]]:
        """Return model, task and protocol whose run lacks the leaderboard's best scores, and whether there is a run."""
        found, (client, experiment) = [], self.client()
        of_clusterings = leaderboard[leaderboard["protocol"] != ""]  # pairs are of no protocol
        for rows, runs in list_official(client, experiment, of_clusterings):
            logged = runs[0].data.metrics if runs else {}
            scored = rows.dropna(subset="mean").itertuples(index=False)
            if any(logged.get(_name_metric(f"best/{row.level}")) != row.mean for row in scored):
                found.append((*rows.iloc[0][["model", "task", "protocol"]], bool(runs)))
        return found

    def log_pairs(
        self, card: TaskCard, cell: Cell, table: pd.DataFrame, origin: Mapping[str, str]
    ) -> dict[str, dg.MetadataValue]:
        """Log how well a model follows gold scores (`read_pair_scores` of all cells, `cell` among them), as one run."""
        metrics: dict[str, float] = {}  # such as spearman/cosine, and spearman/cosine/history/domain=find_hotel
        for row in table.to_dict("records"):
            compared = f"{row['comparison']}/history" if row["history"] else row["comparison"]
            of = f"/{row['group']}={row['value']}" if row["value"] else ""
            metrics |= {f"{kind}/{compared}{of}": row[kind] for kind in KINDS if pd.notna(row[kind])}

        client, experiment = self.client()
        identity = {name: str(getattr(cell, name)) for name in IDENTITY if name != "protocol"}
        tags = {**{f"traube.{name}": value for name, value in identity.items()}, **origin}
        with _run(client, experiment, digest(["pairs", identity]), f"{card.name} x {cell.model}", tags) as run:
            about = {"family": card.family, "language": card.language, "licence": card.licence}
            _log(client, run, {**identity, **about}, metrics)
            _log_dataset(client, run, card, identity["data_version"])
        return _link_run(experiment, run)

    @contextmanager
    def watch_training(self, dagster_run: str, trainer: str, task: str) -> Iterator[str]:
        """Open a training's run, which records what processors, memory and disk do while the block lasts; yield its id.

        Where MLflow cannot be reached, the id is empty and the training goes on.
        """
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        tags = {**_find_origin(), "traube.kind": "training", "dagster.run_id": dagster_run}
        run_id, monitor = "", None
        try:
            client, experiment = self.client()
            run_id = client.create_run(experiment, tags=tags, run_name=f"{trainer} on {task}").info.run_id
            monitor = SystemMetricsMonitor(run_id, tracking_uri=self.uri or default_uri())
            monitor.start()
        except Exception as error:
            logging.getLogger("mlflow").warning("MLflow could not be told of a training: %s", error)
        status = "FAILED"
        try:
            yield run_id
            status = "FINISHED"
        finally:
            if monitor is not None:
                monitor.finish()
                with suppress(Exception):  # `log_curve` says it, too
                    client.set_terminated(run_id, status)

    def log_curve(
        self, run_id: str, name: str, curve: Sequence[Mapping[str, float | None]], params: Mapping[str, Any]
    ) -> dict[str, dg.MetadataValue]:
        """Log a training's recipe and curve, of entries with `step`, to its run, which gets the checkpoint's name."""
        from mlflow.entities import Metric

        client, experiment = self.client()
        # without a run, MLflow could not be told at the training's start
        run = client.get_run(run_id) if run_id else client.create_run(experiment, tags={"traube.kind": "training"})
        run_id, now = run.info.run_id, int(time.time() * 1000)
        client.update_run(run_id, "FINISHED", name)
        _log(client, run, dict(params), {})
        client.log_batch(
            run_id,
            metrics=[
                Metric(metric, float(value), now, int(entry["step"] or 0))
                for entry in curve
                for metric, value in entry.items()
                if metric != "step" and value is not None
            ],
        )
        return _link_run(experiment, run)

    def log_study(
        self, name: str, best: Mapping[str, float], trials: pd.DataFrame, pages: Mapping[str, str], run_id: str
    ) -> dict[str, dg.MetadataValue]:
        """Log a study as it stands: its best values, its trials and its plots (html by file name)."""
        client, experiment = self.client()
        key = digest(["study", name, len(trials)])
        with _run(client, experiment, key, name, {"dagster.run_id": run_id}) as run:
            found = {name: str(value) for name, value in best.items() if name != "value"}
            _log(client, run, found, {"best": best["value"]} if best else {})
            client.log_text(run.info.run_id, format_csv(trials), "trials.csv")
            for file, page in pages.items():
                client.log_text(run.info.run_id, page, file)
        return _link_run(experiment, run)


def get_ui(name: str, port: int) -> str:
    """Return the address of Dagster's or MLflow's pages: TRAUBE_DAGSTER_UI or TRAUBE_MLFLOW_UI, or that of `traube dev`."""
    given = os.environ.get(f"TRAUBE_{name}_UI", "").rstrip("/")
    return given or f"http://127.0.0.1:{os.environ.get(f'TRAUBE_{name}_PORT', port)}"


def get_mlflow_page(route: str) -> str:
    """Return the address of a page of MLflow's, which otherwise opens as a product for language models."""
    return f"{get_ui('MLFLOW', 5000)}/#/{route}?workflowType=machine_learning"


def _link_run(experiment: str, run: Any) -> dict[str, dg.MetadataValue]:
    return {"mlflow": dg.MetadataValue.url(get_mlflow_page(f"experiments/{experiment}/runs/{run.info.run_id}"))}


def default_uri() -> str:
    """Return MLflow's tracking store.

    The store is `MLFLOW_TRACKING_URI` if that is set, else the shared database, or a file of the data directory.
    """
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        return given
    return mlflow_url() if settings.database() else f"sqlite:///{paths.home() / 'mlflow.db'}"


def artifacts() -> str:
    """Return where MLflow keeps files: beside the blobs where these are shared, or in the data directory."""
    shared = settings.blobs()
    if "://" in shared:
        return f"{shared.rstrip('/')}/mlartifacts"
    folder = Path(shared).expanduser().resolve() if shared else paths.home()
    return (folder / "mlartifacts").as_uri()


def connect(uri: str) -> tuple[Any, str]:
    """Return an MlflowClient and the experiment's id; make the store if need be."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    asked = os.environ.get("MLFLOW_LOGGING_LEVEL")
    logging.getLogger("mlflow").setLevel(asked or "WARNING")  # a new store is no news
    # it raises the database's errors, and prints them with a traceback beside that
    logging.getLogger("mlflow.store.db.utils").setLevel(asked or "CRITICAL")
    own = paths.home() / "mlflow.db"
    if uri == f"sqlite:///{own}" and own.parent.is_dir():  # any other database is its owner's
        make_mlflow(own, artifacts())
    elif settings.database() and uri == mlflow_url():
        make_shared_mlflow(artifacts())
    try:
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(EXPERIMENT)
    except Exception as error:
        if "out-of-date database schema" not in str(error):
            raise
        shown = settings.without_password(uri)
        raise TraubeError(
            f"{shown}: made by another MLflow; back it up, then `mlflow db upgrade` with this URL brings it up to date"
        ) from None
    if experiment is None:
        return client, str(client.create_experiment(EXPERIMENT, artifacts(), KIND))
    return client, str(experiment.experiment_id)


def _runs(client: Any, experiment: str, condition: str) -> dict[str, Any]:
    runs = client.search_runs([experiment], condition, max_results=MOST_RUNS)
    return {run.data.tags[KEY]: run for run in runs if KEY in run.data.tags}


def _find_span(cells: pd.DataFrame, began: float) -> tuple[int, int]:
    """Return when the work on some cells began and ended, in milliseconds since 1970: with a run, or before it."""
    created = pd.to_datetime(cells["created"], utc=True, format="ISO8601").map(pd.Timestamp.timestamp)
    first = (created - cells["seconds"].fillna(0)).min()
    return int(1000 * min(began, first)), int(1000 * created.max())


def list_official(client: Any, experiment: str, leaderboard: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, list[Any]]]:
    """Yield the best rows of each task and model, without one's own choice, and MLflow's runs of them, the newest first."""
    names = [name for name in IDENTITY if name in leaderboard]
    runs: dict[tuple[str, ...], list[Any]] = {}
    for run in _runs(client, experiment, "tags.`traube.kind` = 'task'").values():
        if "traube.own_choice" not in run.data.tags:  # no rank of the leaderboard is theirs
            runs.setdefault(tuple(run.data.tags.get(f"traube.{name}", "") for name in names), []).append(run)
    official = leaderboard[leaderboard["best"].astype(bool) & ~leaderboard["own_choice"].astype(bool)]
    for key, rows in official.groupby(names):
        yield rows, runs.get(tuple(key), [])


def name_logged_model(task: str, model: str) -> str:
    """Return a name that MLflow takes: it refuses some characters."""
    return re.sub(r"""[/:.%"']""", "-", f"{task}-{model}")


def _name_metric(name: str) -> str:
    return re.sub(r"[^\w\-. :/]", "_", name)  # MLflow takes no other characters


@cache
def _find_origin() -> dict[str, str]:
    """Return who logs, by what: of a process, once, since MLflow asks git."""
    from mlflow.tracking.context.registry import resolve_tags

    return dict(resolve_tags())


@contextmanager
def _run(
    client: Any,
    experiment: str,
    key: str,
    name: str,
    tags: Mapping[str, str],
    span: tuple[int | None, int | None] = (None, None),
    known: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Open the run with a key, new or found (in `known`), which ends with the block; `span` says when its work was."""
    found = _runs(client, experiment, f"tags.`{KEY}` = '{key}'") if known is None else known
    run = found.get(key)
    if run is None:
        run = client.create_run(experiment, span[0], {**_find_origin(), KEY: key, **tags}, name)
    else:
        client.update_run(run.info.run_id, status="RUNNING")
        for tag, value in tags.items():
            client.set_tag(run.info.run_id, tag, value)
    try:
        yield run
    except BaseException:
        client.set_terminated(run.info.run_id, status="FAILED")
        raise
    client.set_terminated(run.info.run_id, "FINISHED", span[1])


def _find_logged_model(
    client: Any, experiment: str, run: Any, name: str, identity: Mapping[str, str], params: Mapping[str, Any]
) -> str:
    """Return the id of the model that a run is of, as MLflow ranks and compares models."""
    found = client.search_logged_models([experiment], f"source_run_id = '{run.info.run_id}'")
    if found:
        return str(found[0].model_id)
    tags = {f"traube.{key}": identity[key] for key in ("task", "model", "protocol", "data_version")}
    made = client.create_logged_model(experiment, name, run.info.run_id, tags, dict(params), model_type="embedding")
    return str(client.finalize_logged_model(made.model_id, "READY").model_id)


def _log(
    client: Any,
    run: Any,
    params: dict[str, Any],
    metrics: dict[str, float],
    model: str = "",
    dataset: tuple[str | None, str | None] = (None, None),
) -> None:
    """Log all at once but parameters that are there (MLflow refuses changes); `dataset` is a name and a digest."""
    from mlflow.entities import Metric, Param

    now, about = int(time.time() * 1000), (model, *dataset, run.info.run_id) if model else ()
    client.log_batch(
        run.info.run_id,
        metrics=[Metric(_name_metric(name), float(value), now, 0, *about) for name, value in metrics.items()],
        params=[Param(name, str(value)[:500]) for name, value in params.items() if name not in run.data.params],
    )


def _log_dataset(client: Any, run: Any, card: TaskCard, version: str) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = card.source or card.name
    dataset = Dataset(name=card.name, digest=version, source_type="traube", source=json.dumps({"uri": source}))
    client.log_inputs(run.info.run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])])


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
    return flat
