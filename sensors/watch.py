"""New versions of watched models, of Hugging Face, MLflow or a folder, become checkpoints. Offline, the hub is left alone."""

import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

import dagster as dg

from resources.experiment import connect, default_uri
from sensors import Loaded
from traube._core import paths
from traube._core.cards import list_watched
from traube._core.errors import Conflict
from traube._pipeline.params import load_params
from traube.models.checkpoints import find_unfinished, state

FOLDER = "folder"  # the source of models that somebody else puts into a folder of their own
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


class Wanted(dg.Config):
    """A version of a watched model."""

    source: str
    name: str
    version: str


@dg.op(retry_policy=dg.RetryPolicy(max_retries=2, delay=30), description="Downloads a model into checkpoints/.")
def download(context: dg.OpExecutionContext, config: Wanted) -> None:
    """Download a model into checkpoints/."""
    target = locate_checkpoint(config.source, config.name, config.version)
    if not target.exists():
        source = _fetch(config.source, config.name, config.version)
        target.parent.mkdir(parents=True, exist_ok=True)
        # copied under a hidden name first: the checkpoint sensor never sees half of it
        hidden = Path(mkdtemp(prefix=".fetched-", dir=target.parent))
        try:
            # the hub's files are links into its cache; a folder's stay links, which the checkpoint sensor refuses if they lead out
            shutil.copytree(source, hidden / target.name, symlinks=config.source == FOLDER)
            if config.source == FOLDER and state(source) != config.version:
                raise Conflict(f"{source} was written to while it was copied; the next tick looks again")
            (hidden / target.name).rename(target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    context.log.info(f"{config.name} {config.version} is in {target}")


@dg.job(name="fetch", description="Fetches a new version of a watched model into checkpoints/.")
def fetch_job() -> None:
    """Download one version of a watched model."""
    download()


def jobs() -> list[dg.JobDefinition]:
    """Return the job that downloads a watched model."""
    return [fetch_job]


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that looks for new versions of watched models."""

    @dg.sensor(
        name="watched_models",
        job=loaded.jobs[fetch_job.name],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=300,
        description="Asks for new versions of the models watched in params.yaml; one that cannot be fetched is tried daily.",
    )
    def watched_models(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        watch = load_params().watch
        offline = any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in OFFLINE)
        watched = [("mlflow", name) for name in watch.mlflow]
        watched += [] if offline else [("hub", name) for name in watch.hub]
        places = [*map(Path, watch.folders), *list_watched()]
        watched += [(FOLDER, str(folder)) for place in places for folder in _list_models(place)]
        states = {name: state(Path(name)) for source, name in watched if source == FOLDER}
        quiet = json.loads(context.cursor or "{}")
        context.update_cursor(json.dumps(states))
        requests, failed = [], [f"{place}: there is no such folder" for place in places if not place.is_dir()]
        for source, name in watched:
            if source == FOLDER and quiet.get(name) != states[name]:
                failed.append(f"{name}: new or changed; waiting until it is quiet")
                continue
            try:
                version = states.get(name) or _find_newest(source, name)
            except Exception as error:  # a source that cannot be reached now is tried again at the next tick
                failed.append(f"{name}: {error}")
                context.log.warning(f"{name} cannot be looked at: {error}")
                continue
            if version and not locate_checkpoint(source, name, version).exists():
                wanted = Wanted(source=source, name=name, version=version)
                key = f"{source}:{name}@{version} {datetime.now(UTC).date().isoformat()}"
                requests.append(dg.RunRequest(key, run_config=dg.RunConfig(ops={"download": wanted})))
        nothing = "nothing new" if watched or places else "nothing is watched"
        return dg.SensorResult(requests) if requests else dg.SkipReason("; ".join(failed) or nothing)

    return [watched_models]


def locate_checkpoint(source: str, name: str, version: str) -> Path:
    """Return the folder of a version of a watched model."""
    short = f"v{version}" if source == "mlflow" else version[:8]
    name = Path(name).name if source == FOLDER else name
    return paths.checkpoints() / re.sub(r"[^a-z0-9_-]+", "-", f"{name}-{short}".lower()).strip("-_")


def _list_models(place: Path) -> list[Path]:
    """Return the folders in a watched folder that look like whole models."""
    entries = sorted(place.iterdir()) if place.is_dir() else []
    folders = (
        entry for entry in entries if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith(".")
    )
    return [folder for folder in folders if find_unfinished(folder) is None]


def _find_newest(source: str, name: str) -> str | None:
    """Return the newest version of a model registered in MLflow, if there is one, or its commit on the hub."""
    if source == "mlflow":
        versions = connect(default_uri()).client.search_model_versions(f"name = '{name}'")
        return str(max(int(v.version) for v in versions)) if versions else None
    from huggingface_hub import HfApi

    return HfApi().model_info(name).sha


def _fetch(source: str, name: str, version: str) -> Path:
    """Download a version of a model, and return the folder that holds its configuration."""
    if source == FOLDER:
        return Path(name)
    if source == "hub":
        from huggingface_hub import snapshot_download

        from traube.models.weights import FILTER

        return Path(snapshot_download(name, revision=version, **FILTER))
    import mlflow

    mlflow.set_tracking_uri(default_uri())
    files = Path(mlflow.artifacts.download_artifacts(f"models:/{name}/{version}"))
    roots = {p.parent for pattern in ("modules.json", "config.json") for p in files.rglob(pattern)}
    if not roots:
        raise FileNotFoundError(f"version {version} of {name} holds no config.json or modules.json")
    return min(roots, key=lambda p: len(p.parts))
