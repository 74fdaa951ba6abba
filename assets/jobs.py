"""The jobs: assets that are made together. A job that a sensor brings along is defined beside that sensor."""

import dagster as dg

from assets.common import CHECKPOINTS, PAPERS, RESULTS, STUDIES, TRAINERS, Job, asset_key, data_keys, model_keys
from assets.inbox import inbox_keys
from assets.sweeps import sweeps
from assets.used import Used
from traube.tasks.task import Stage

PUBLISHED = dg.AssetSelection.groups(RESULTS) | dg.AssetSelection.key_prefixes(PAPERS)


def is_published(spec: dg.AssetSpec) -> bool:
    """Return whether the job `publish` makes an asset."""
    return spec.group_name == RESULTS or spec.key.path[0] == PAPERS


def all_jobs(used: Used) -> list[Job]:
    """Return all jobs of the graph."""
    omitted = {asset_key(task, Stage.DEEP_CLUSTERINGS) for task in {*used.tasks} - {*used.trained}}
    of_trainers = dg.AssetSelection.key_prefixes(TRAINERS)
    jobs: dict[str, tuple[dg.AssetSelection, str]] = {
        "datasets": (
            dg.AssetSelection.assets(*data_keys(used.tasks)),
            "Read raw data, draw splits, check both. Narrow it to the tasks that you want.",
        ),
        "evaluate": (
            dg.AssetSelection.assets(*(key for key in model_keys(used.tasks) if key not in omitted)),
            "Embed, cluster and score one model (the partition) on every task and pair task, or on those selected.",
        ),
        "publish": (
            PUBLISHED,
            "Rebuild leaderboard, registry, regressions, report, the tasks' pages and the papers' tables from what is stored.",
        ),
        "train": (
            of_trainers & dg.AssetSelection.key_substring(CHECKPOINTS),
            "Train an encoder on a task (the partition). Narrow it to the trainer that you want.",
        ),
        "tune": (
            of_trainers & dg.AssetSelection.key_substring(STUDIES),
            "Search for a trainer's best recipe on a task (the partition). Narrow it to the trainer that you want.",
        ),
    }
    if used.inboxes:
        description = (
            "Assign the texts of a day (the partition) to the champion's groups, and judge days that are over."
        )
        jobs["assign"] = dg.AssetSelection.assets(*inbox_keys(used.inboxes)), description
    if sweeps():
        description = "Compute the points of a sweep. Narrow it to the one that you want."
        jobs["sweep"] = dg.AssetSelection.key_prefixes("sweeps"), description
    return [dg.define_asset_job(name, of, description=description) for name, (of, description) in jobs.items()]
