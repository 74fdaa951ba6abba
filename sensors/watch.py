"""New revisions of watched Hugging Face models, and new versions of watched MLflow models, become folders of `checkpoints/`.

From there on they are checkpoints like any other. Nothing is watched by default, and the hub is left alone when offline.
"""

import os
import re
import shutil
from pathlib import Path

import dagster as dg

from resources.tracking import connect, default_uri
from traube import paths
from traube.params import load_params

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def watch_sensor() -> dg.SensorDefinition:
    @dg.sensor(
        name="watched_models",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=300,
        description="Fetches new revisions of the models watched in params.yaml into checkpoints/.",
    )
    def watched_models(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        watch = load_params().watch
        fetched, failed = [], []
        offline = any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in OFFLINE)
        wanted = [(fetch_mlflow, name) for name in watch.mlflow]
        wanted += [] if offline else [(fetch_hub, name) for name in watch.hub]
        for fetch, name in wanted:
            try:
                folder = fetch(name)
            except Exception as error:  # a source that cannot be reached now is asked again at the next tick
                failed.append(f"{name}: {error}")
                context.log.warning(f"{name} cannot be fetched: {error}")
                continue
            if folder:
                fetched.append(folder.name)
        said = [f"fetched {', '.join(fetched)}"] if fetched else []
        return dg.SkipReason("; ".join([*said, *failed]) or ("nothing new" if wanted else "nothing is watched"))

    return watched_models


def fetch_hub(name: str) -> Path | None:
    """Fetch a Hugging Face model's newest revision. Returns its folder; None if it is there already."""
    from huggingface_hub import HfApi, snapshot_download

    from traube.models.transformer import WEIGHTS

    revision = str(HfApi().model_info(name).sha)
    target = paths.checkpoints() / _slug(f"{name}-{revision[:8]}")
    if target.exists():
        return None
    return _whole(target, Path(snapshot_download(name, revision=revision, allow_patterns=list(WEIGHTS))))


def fetch_mlflow(name: str) -> Path | None:
    """Fetch the newest version of a registered model that holds an encoder. Returns its folder; None if it is there already.

    Raises
    ------
    FileNotFoundError
        If no folder of it holds a model's configuration.
    """
    import mlflow

    client, _ = connect(default_uri())
    versions = client.search_model_versions(f"name = '{name}'")
    if not versions:
        return None
    newest = max(versions, key=lambda v: int(v.version))
    target = paths.checkpoints() / _slug(f"{name}-v{newest.version}")
    if target.exists():
        return None
    mlflow.set_tracking_uri(default_uri())
    files = Path(mlflow.artifacts.download_artifacts(f"models:/{name}/{newest.version}"))
    roots = sorted(
        {p.parent for pattern in ("modules.json", "config.json") for p in files.rglob(pattern)},
        key=lambda p: len(p.parts),
    )
    if not roots:
        raise FileNotFoundError(f"version {newest.version} holds no config.json or modules.json")
    return _whole(target, roots[0])


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")


def _whole(target: Path, source: Path) -> Path:
    """Copy a folder under a hidden name first: the checkpoint sensor never sees half of it."""
    hidden = target.with_name(f".{target.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    shutil.copytree(source, hidden)
    hidden.rename(target)
    return target
