"""Where MLflow is: its store, its files, and the addresses of its pages and Dagster's."""

import logging
import os
from pathlib import Path
from typing import Any

from resources.databases import EXPERIMENT, KIND, make_mlflow, make_shared_mlflow, mlflow_url
from traube.core import paths, settings
from traube.core.errors import TraubeError


def get_ui(name: str, port: int) -> str:
    """Return the address of Dagster's or MLflow's pages: TRAUBE_DAGSTER_UI or TRAUBE_MLFLOW_UI, or that of `traube dev`."""
    given = os.environ.get(f"TRAUBE_{name}_UI", "").rstrip("/")
    return given or f"http://127.0.0.1:{os.environ.get(f'TRAUBE_{name}_PORT', port)}"


def get_mlflow_page(route: str) -> str:
    """Return the address of a page of MLflow's, which otherwise opens as a product for language models."""
    return f"{get_ui('MLFLOW', 5000)}/#/{route}?workflowType=machine_learning"


def default_uri() -> str:
    """MLflow's tracking store: what `MLFLOW_TRACKING_URI` says, the shared database, or a file of the home."""
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
    """An MlflowClient and the experiment's id; the store is made if need be."""
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
