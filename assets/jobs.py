"""Which assets are made together. A job that a sensor brings along is defined beside that sensor."""

from collections.abc import Iterable

import dagster as dg

from assets.common import PAGES, Job, all_model_keys, data_keys
from assets.sweeps import sweeps

REBUILT = dg.AssetSelection.assets("leaderboard", "registry", "regressions", "report")


def all_jobs(tasks: Iterable[str]) -> list[Job]:
    """Every job of the graph, over the tasks and pair tasks that are given."""
    names = list(tasks)
    jobs = [
        dg.define_asset_job(
            "datasets",
            selection=dg.AssetSelection.assets(*data_keys(names)),
            description="Read raw data, draw splits, check both. Narrow it to the tasks that you want.",
        ),
        dg.define_asset_job(
            "evaluate",
            selection=dg.AssetSelection.assets(*all_model_keys(names)),
            description="Embed, cluster and score one model (the partition) on every task and pair task, or on those selected.",
        ),
        dg.define_asset_job(
            "publish",
            selection=REBUILT | dg.AssetSelection.tag(*PAGES) | dg.AssetSelection.key_prefixes("papers"),
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
    if sweeps():
        description = "Compute the points of a sweep. Narrow it to the one that you want."
        jobs.append(dg.define_asset_job("sweep", dg.AssetSelection.key_prefixes("sweeps"), description=description))
    return jobs
