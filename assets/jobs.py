"""The jobs: which assets are made together. A job that a sensor brings along is defined beside that
sensor.
"""

from collections.abc import Iterable

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob

from assets.common import PAGE, PAIR_DATA_STAGES, PAIR_MODEL_STAGES, asset_key, data_keys, model_keys

REBUILT = dg.AssetSelection.assets("leaderboard", "registry", "regressions", "report")


def all_jobs(tasks: Iterable[str], pair_tasks: Iterable[str] = ()) -> list[AssetJob]:
    """Every job of the graph, over the tasks and pair tasks that are given."""
    names, pairs = list(tasks), list(pair_tasks)
    return [
        dg.define_asset_job(
            "datasets",
            selection=dg.AssetSelection.assets(*data_keys(names)),
            description="Read raw data, draw and check splits. Narrow it to the tasks that you want.",
        ),
        dg.define_asset_job(
            "evaluate",
            selection=dg.AssetSelection.assets(*model_keys(names)),
            description="Embed, cluster and score one model (the partition) on every task, or on those selected.",
        ),
        dg.define_asset_job(
            "pair_datasets",
            selection=_of(pairs, PAIR_DATA_STAGES),
            description="Read and check pair tasks. Narrow it to those that you want.",
        ),
        dg.define_asset_job(
            "pair_scores",
            selection=_of(pairs, PAIR_MODEL_STAGES),
            description="Compare one model (the partition) with the gold scores of all pair tasks, or of those selected.",
        ),
        dg.define_asset_job(
            "publish",
            selection=REBUILT | _of(names, [PAGE]) | dg.AssetSelection.key_prefixes("papers"),
            description="Rebuild leaderboard, registry, regressions, report, the tasks' pages and the papers' tables from what is stored.",
        ),
        dg.define_asset_job(
            "train",
            selection=dg.AssetSelection.key_prefixes("checkpoints"),
            description="Train an encoder on a task. Narrow it to the checkpoint that you want.",
        ),
        dg.define_asset_job(
            "tune",
            selection=dg.AssetSelection.key_prefixes("studies"),
            description="Search for a trainer's best recipe on a task. Narrow it to the study that you want.",
        ),
    ]


def _of(tasks: Iterable[str], stages: Iterable[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(asset_key(task, stage) for task in tasks for stage in stages))
