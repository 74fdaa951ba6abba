"""Traube's experiment in an MLflow store, and the addresses of the store, its files and its pages."""

import logging
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import dagster as dg
import pandas as pd

from resources.databases import EXPERIMENT, EXPERIMENT_TAGS, get_mlflow_url, make_mlflow, make_shared_mlflow
from traube._core import paths, settings
from traube._core.errors import Incompatible
from traube._core.hashing import digest
from traube._reports.pages import SERVED

KEY = "traube.key"
# What identifies a run; the same six are its tag.
IDENTITY = ("task", "model", "protocol", "data_version", "fingerprint", "code_version")
SERVING = "traube-serving"  # the experiment of champions and challengers
SERVING_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Clusterings that Traube's registered models serve: a run for each champion and challenger.",
}
MLFLOW_PAGES = f"{SERVED}/mlflow"  # which Dagster's server of `traube dev` leads to MLflow's, at whatever port
MOST_RUNS = 50_000  # that MLflow gives at once


@dataclass(frozen=True)
class Experiment:
    """Traube's experiment in an MLflow store."""

    client: Any  # an MlflowClient
    id: str

    def find_runs(self, condition: str) -> dict[str, Any]:
        """Return the runs that meet a condition of MLflow's, by their keys."""
        runs = self.client.search_runs([self.id], condition, max_results=MOST_RUNS)
        return {run.data.tags[KEY]: run for run in runs if KEY in run.data.tags}

    def find_ids(self, condition: str) -> list[str]:
        """Return the ids of the runs that meet a condition of MLflow's."""
        runs = self.client.search_runs([self.id], condition, max_results=MOST_RUNS)
        return [str(run.info.run_id) for run in runs]

    def find_official_runs(self, leaderboard: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, list[Any]]]:
        """Yield the best official rows of each task and model, and the runs of them, the newest first."""
        names = [name for name in IDENTITY if name in leaderboard]
        runs: dict[tuple[str, ...], list[Any]] = {}
        for run in self.find_runs("tags.`traube.kind` = 'task'").values():
            tags = run.data.tags
            if "traube.own_choice" not in tags:  # no rank of the leaderboard is theirs
                runs.setdefault(tuple(tags.get(f"traube.{name}", "") for name in names), []).append(run)
        is_official = leaderboard["best"].astype(bool) & ~leaderboard["own_choice"].astype(bool)
        for key, rows in leaderboard[is_official].groupby(names):
            yield rows, runs.get(tuple(key), [])

    @contextmanager
    def open_run(
        self,
        key: Any,
        name: str,
        tags: Mapping[str, str],
        span: tuple[int | None, int | None] = (None, None),
        known: Mapping[str, Any] | None = None,
    ) -> Iterator[Any]:
        """Open the run of a key, found or new, until the block ends.

        Parameters
        ----------
        key : object
            What the run is about, of values that JSON has.
        name : str
            Name of a new run.
        tags : mapping of str to str
            Tags of the run.
        span : tuple of int, optional
            When the work began and ended, in milliseconds since 1970.
        known : mapping, optional
            The runs to look in, by their keys. By default MLflow is queried.
        """
        client, hashed = self.client, digest(key)
        runs = self.find_runs(f"tags.`{KEY}` = '{hashed}'") if known is None else known
        run = runs.get(hashed)
        if run is None:
            run = client.create_run(self.id, span[0], {**find_origin(), KEY: hashed, **tags}, name)
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

    def log(self, run: Any, params: Mapping[str, Any], metrics: Mapping[str, float], *about: str) -> None:
        """Log metrics, and the parameters that a run lacks: MLflow refuses changes.

        Metrics are `about` a logged model and a data set: the model's id, the data set's name and digest.
        """
        from mlflow.entities import Metric, Param

        run_id, now = run.info.run_id, int(time.time() * 1000)
        of = (*about, run_id) if about else ()
        self.client.log_batch(
            run_id,
            metrics=[Metric(name_metric(name), float(value), now, 0, *of) for name, value in metrics.items()],
            params=[Param(name, str(value)[:500]) for name, value in params.items() if name not in run.data.params],
        )

    def link(self, run: Any) -> dict[str, dg.MetadataValue]:
        """Return metadata for Dagster: the link to the page of a run."""
        route = f"experiments/{self.id}/runs/{run.info.run_id}"
        # the server that shows the link knows where MLflow is by then
        page = get_mlflow_page(route) if os.environ.get("TRAUBE_MLFLOW_UI") else f"{MLFLOW_PAGES}/{route}"
        return {"mlflow": dg.MetadataValue.url(page)}


def name_metric(name: str) -> str:
    """Replace the characters that MLflow does not take in the name of a metric."""
    return re.sub(r"[^\w\-. :/]", "_", name)


@cache
def find_origin() -> dict[str, str]:
    """Return the tags that say who logs, by what program and commit; found once in a process, since git is slow."""
    from mlflow.tracking.context.registry import resolve_tags
    from mlflow.utils.mlflow_tags import MLFLOW_GIT_COMMIT, MLFLOW_SOURCE_NAME

    tags = dict(resolve_tags())  # without a commit, since git ignores `.venv/bin/traube`
    if (program := Path(tags.get(MLFLOW_SOURCE_NAME, ""))).name == "__main__.py":  # as of a run that Dagster starts
        tags[MLFLOW_SOURCE_NAME] = program.parent.name
    with suppress(OSError):  # there is no git
        command = ["git", "-C", str(paths.PROJECT), "rev-parse", "HEAD"]
        if commit := subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip():  # noqa: S603
            tags[MLFLOW_GIT_COMMIT] = commit
    return tags


def get_ui(name: str, port: int) -> str:
    """Return the address of Dagster's or MLflow's pages: TRAUBE_DAGSTER_UI or TRAUBE_MLFLOW_UI, or that of `traube dev`."""
    given = os.environ.get(f"TRAUBE_{name}_UI", "").rstrip("/")
    return given or f"http://127.0.0.1:{os.environ.get(f'TRAUBE_{name}_PORT', port)}"


def get_task_page(task: str) -> str:
    """Return the link from MLflow to a task's page: at TRAUBE_DAGSTER_UI, or on the server that shows the link.

    Both servers of `traube dev` have the pages, at ports that the next start may change.
    """
    return f"{os.environ.get('TRAUBE_DAGSTER_UI', '').rstrip('/')}{SERVED}/{task}.html"


def get_mlflow_page(route: str, condition: str = "") -> str:
    """Return the address of a page of MLflow's, which otherwise opens as a product for language models.

    A page of runs shows those that meet a condition of MLflow's.
    """
    query = {"workflowType": "machine_learning", **({"searchFilter": condition} if condition else {})}
    return f"{get_ui('MLFLOW', 5000)}/#/{route}?{urlencode(query, quote_via=quote)}"


def default_uri() -> str:
    """Return MLflow's tracking store.

    The store is `MLFLOW_TRACKING_URI` if that is set, else the shared database, or a file of the data directory.
    """
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        return given
    return get_mlflow_url() if settings.database() else f"sqlite:///{paths.home() / 'mlflow.db'}"


def artifact_root() -> str:
    """Return where MLflow keeps files: beside the blobs where these are shared, or in the data directory."""
    shared = settings.blobs()
    if "://" in shared:
        return f"{shared.rstrip('/')}/mlartifacts"
    folder = Path(shared).expanduser().resolve() if shared else paths.home()
    return (folder / "mlartifacts").as_uri()


def connect(uri: str, name: str = EXPERIMENT) -> Experiment:
    """Return Traube's experiment in an MLflow store, or the one that holds what is served; make both if need be."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # of files that lie on this machine
    from mlflow import MlflowClient

    level = os.environ.get("MLFLOW_LOGGING_LEVEL")
    logging.getLogger("mlflow").setLevel(level or "WARNING")  # a new store is no news
    # it raises the database's errors, and prints them with a traceback beside that
    logging.getLogger("mlflow.store.db.utils").setLevel(level or "CRITICAL")
    database = paths.home() / "mlflow.db"
    if uri == f"sqlite:///{database}" and database.parent.is_dir():  # any other database is its owner's
        make_mlflow(database, artifact_root())
    elif settings.database() and uri == get_mlflow_url():
        make_shared_mlflow(artifact_root())
    try:
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(name)
    except Exception as error:
        if "out-of-date database schema" not in str(error):  # the error has the code of any internal error
            raise
        redacted_uri = settings.without_password(uri)
        raise Incompatible(
            f"{redacted_uri}: made by another MLflow; back it up, then `mlflow db upgrade` with this URL brings it up to date"
        ) from None
    if experiment is None:
        tags = EXPERIMENT_TAGS if name == EXPERIMENT else SERVING_TAGS
        return Experiment(client, str(client.create_experiment(name, artifact_root(), tags)))
    return Experiment(client, str(experiment.experiment_id))
