"""What there is: assets, checks, jobs, sensors and resources, put together."""

import warnings
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from assets.checkpoints import checkpoint_assets, study_assets  # noqa: E402
from assets.clusterings import clusterings_asset  # noqa: E402
from assets.common import data_keys, model_keys  # noqa: E402
from assets.corpora import corpus_asset  # noqa: E402
from assets.embeddings import embeddings_asset  # noqa: E402
from assets.leaderboard import leaderboard_asset  # noqa: E402
from assets.papers import paper_assets  # noqa: E402
from assets.registry import registry  # noqa: E402
from assets.regressions import regressions  # noqa: E402
from assets.report import report  # noqa: E402
from assets.scores import scores_asset  # noqa: E402
from assets.splits import splits_asset  # noqa: E402
from resources.benchmark import BenchmarkResource  # noqa: E402
from resources.encoder import EncoderResource  # noqa: E402
from resources.quality import QualityResource  # noqa: E402
from resources.registry import RegistryResource  # noqa: E402
from resources.storage import StorageResource  # noqa: E402
from resources.tracking import TrackingResource  # noqa: E402
from sensors.automation import automation_sensor  # noqa: E402
from sensors.checkpoints import checkpoint_sensor  # noqa: E402
from sensors.failures import failure_sensor  # noqa: E402
from sensors.lost_runs import lost_run_sensor  # noqa: E402
from sensors.nightly import nightly_schedules  # noqa: E402
from sensors.publish import publish_sensors  # noqa: E402
from sensors.raw_data import raw_data_sensor  # noqa: E402
from sensors.watch import fetch_job, watch_sensor  # noqa: E402
from traube.engine.progress import SILENT  # noqa: E402
from traube.tasks import sources  # noqa: E402


def resources() -> dict[str, Any]:
    """What assets borrow, with everything at its default."""
    return {
        "storage": StorageResource(),
        "benchmark": BenchmarkResource(),
        "encoder": EncoderResource(),
        "quality": QualityResource(),
        "tracking": TrackingResource(),
        "models": RegistryResource(),
        "progress": SILENT,
    }


def build_defs(*, executor: dg.ExecutorDefinition = dg.in_process_executor, **overrides: Any) -> dg.Definitions:
    """All definitions.

    Parameters
    ----------
    executor : how the steps of a run are executed
    overrides : resources to use instead of the default ones, by name
    """
    tasks = sources()
    per_task = [
        make(source)
        for source in tasks.values()
        for make in (corpus_asset, splits_asset, embeddings_asset, clusterings_asset, scores_asset)
    ]
    leaderboard = leaderboard_asset(list(tasks))
    datasets = dg.define_asset_job(
        "datasets",
        selection=dg.AssetSelection.assets(*data_keys(tasks)),
        description="Read raw data, draw and check splits. Narrow it to the tasks that you want.",
    )
    evaluate = dg.define_asset_job(
        "evaluate",
        selection=dg.AssetSelection.assets(*model_keys(tasks)),
        description="Embed, cluster and score one model (the partition) on every task, or on those selected.",
    )
    trained = [asset for source in tasks.values() for asset in checkpoint_assets(source)]
    train = dg.define_asset_job(
        "train",
        selection=dg.AssetSelection.assets(*trained),
        description="Train an encoder on a task. Narrow it to the checkpoint that you want.",
    )
    studies = [asset for source in tasks.values() for asset in study_assets(source)]
    tune = dg.define_asset_job(
        "tune",
        selection=dg.AssetSelection.assets(*studies),
        description="Search for a trainer's best recipe on a task. Narrow it to the study that you want.",
    )
    papers = paper_assets()
    publish = dg.define_asset_job(
        "publish",
        selection=dg.AssetSelection.assets(leaderboard, registry, regressions, report, *papers),
        description="Rebuild leaderboard, registry, regressions, report and the papers' tables from what is stored.",
    )
    return dg.Definitions(
        assets=[*per_task, leaderboard, registry, regressions, report, *papers, *trained, *studies],
        jobs=[datasets, evaluate, publish, train, tune, fetch_job],
        sensors=[
            checkpoint_sensor(evaluate),
            raw_data_sensor(datasets),
            *publish_sensors(evaluate, publish),
            failure_sensor([datasets, evaluate, publish, train, tune, fetch_job]),
            lost_run_sensor(),
            watch_sensor(),
            automation_sensor(),
        ],
        schedules=nightly_schedules(evaluate, publish),
        resources={**resources(), **overrides},
        executor=executor,
    )


defs = build_defs()
