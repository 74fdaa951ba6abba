"""Dagster assets, thin. Modules are imported when the list is requested, so that one stage does not load the others."""

from functools import partial

import dagster as dg

from assets.used import Used
from traube.tasks import CLUSTERING, Source
from traube.tasks.task import Stage


def all_assets(used: Used) -> list[dg.AssetsDefinition]:
    """Return all assets: the weights, the stages of each task, its inbox, the tables of all, papers, trainings and sweeps."""
    from assets.inbox import inbox_assets, make_days
    from assets.papers import paper_assets
    from assets.registry import registry_asset
    from assets.report import leaderboard_asset, regressions, report, task_reports
    from assets.sources import weights_asset
    from assets.sweeps import sweep_asset, sweeps
    from assets.trainers import trainer_assets

    tasks = used.tasks.values()
    staged = [asset for task in tasks if task.name not in used.brought for asset in task_assets(task, used)]
    if used.inboxes:
        days = make_days(used.inboxes.values())
        staged += [asset for task in used.inboxes for asset in inbox_assets(used.tasks[task], days)]
    results = [leaderboard_asset(tasks), registry_asset(used.served), regressions, report, task_reports]
    trained = trainer_assets([task for task in tasks if task.card.type is CLUSTERING])
    swept = [sweep_asset(name, sweep) for name, sweep in sweeps().items()]
    papers = paper_assets(used.papers, {asset.key for asset in trained})
    return [weights_asset(), *staged, *results, *papers, *trained, *swept]


def task_assets(task: Source, used: Used) -> list[dg.AssetsDefinition]:
    """Return the assets of a task, from its raw data to its scores."""
    from assets.datasets import corpus_asset, rows_asset
    from assets.sources import raw_asset
    from assets.stages import STAGES, scores_asset, summary_asset

    left_out = () if task.name in used.trained else (Stage.DEEP_CLUSTERINGS,)
    embeddings, *clusterings, _ = (stage for stage in task.card.type.stages if stage not in left_out)
    scores = partial(scores_asset, clusterings=clusterings) if clusterings else summary_asset
    makers = (STAGES[stage] for stage in (embeddings, *clusterings))
    return [make(task) for make in (raw_asset, corpus_asset, rows_asset, *makers, scores)]
