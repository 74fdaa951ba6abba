"""What there is: assets, checks, jobs, sensors and resources, put together."""

import warnings
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from assets.clusterings import clusterings_asset  # noqa: E402
from assets.common import asset_key  # noqa: E402
from assets.corpora import corpus_asset  # noqa: E402
from assets.embeddings import embeddings_asset  # noqa: E402
from assets.leaderboard import leaderboard_asset  # noqa: E402
from assets.report import report  # noqa: E402
from assets.scores import scores_asset  # noqa: E402
from assets.splits import splits_asset  # noqa: E402
from resources.benchmark import BenchmarkResource  # noqa: E402
from resources.encoder import EncoderResource  # noqa: E402
from resources.quality import QualityResource  # noqa: E402
from resources.storage import StorageResource  # noqa: E402
from resources.tracking import TrackingResource  # noqa: E402
from sensors.publish import publish_sensors  # noqa: E402
from traube import paths  # noqa: E402
from traube.evaluate import SILENT  # noqa: E402
from traube.tasks import sources  # noqa: E402

DATA_STAGES = ("corpus", "splits")
MODEL_STAGES = ("embeddings", "clusterings", "scores")


def resources() -> dict[str, Any]:
    """What assets borrow, with everything at its default."""
    home = paths.home()
    return {
        "storage": StorageResource(),
        "benchmark": BenchmarkResource(),
        "encoder": EncoderResource(),
        "quality": QualityResource(folder=str(home / "quality")),
        "tracking": TrackingResource(),
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
    selected = {stage: [asset_key(name, stage) for name in tasks] for stage in (*DATA_STAGES, *MODEL_STAGES)}
    datasets = dg.define_asset_job(
        "datasets",
        selection=dg.AssetSelection.assets(*(k for s in DATA_STAGES for k in selected[s])),
        description="Read raw data, draw and check splits. Narrow it to the tasks that you want.",
    )
    evaluate = dg.define_asset_job(
        "evaluate",
        selection=dg.AssetSelection.assets(*(k for s in MODEL_STAGES for k in selected[s])),
        description="Embed, cluster and score one model (the partition) on every task, or on those selected.",
    )
    publish = dg.define_asset_job(
        "publish",
        selection=dg.AssetSelection.assets(dg.AssetKey("leaderboard"), dg.AssetKey("report")),
        description="Rebuild leaderboard and report from what is stored.",
    )
    return dg.Definitions(
        assets=[*per_task, leaderboard_asset(list(tasks)), report],
        jobs=[datasets, evaluate, publish],
        sensors=publish_sensors(evaluate, publish),
        resources={**resources(), **overrides},
        executor=executor,
    )


defs = build_defs()
