"""Dagster assets, thin. Modules are imported when the list is requested, so that one stage does not load the others."""

from functools import partial

import dagster as dg

from assets.used import Used
from traube.tasks import CLUSTERING, Source
from traube.tasks.task import Stage


def all_assets(used: Used) -> list[dg.AssetsDefinition]:
    """Return all assets: the stages of each task, its inbox, the tables of all, the papers, trainings and sweeps."""
    from assets.datasets import corpus_asset, rows_asset
    from assets.inbox import inbox_assets, make_days
    from assets.papers import paper_assets
    from assets.registry import registry
    from assets.report import leaderboard_asset, regressions, report, task_reports
    from assets.stages import STAGES, scores_asset
    from assets.sweeps import sweep_asset, sweeps
    from assets.trainers import trainer_assets

    assets, tasks = list[dg.AssetsDefinition](), list[Source]()
    for task in used.tasks.values():
        makers = {stage: STAGES[stage] for stage in task.card.type.stages}
        if Stage.DEEP_CLUSTERINGS in makers and task.name not in used.trained:
            del makers[Stage.DEEP_CLUSTERINGS]
            makers[Stage.SCORES] = partial(scores_asset, trained=False)
        assets += [make(task) for make in (corpus_asset, rows_asset, *makers.values())]
        if task.card.type is CLUSTERING:
            tasks.append(task)
    if used.inboxes:
        days = make_days(used.inboxes.values())
        assets += [asset for task in used.inboxes for asset in inbox_assets(used.tasks[task], days)]
    assets += [leaderboard_asset(used.tasks.values()), registry, regressions, report, task_reports]
    trained = trainer_assets(tasks)
    swept = [sweep_asset(name, sweep) for name, sweep in sweeps().items()]
    return [*assets, *paper_assets(used.papers, {asset.key for asset in trained}), *trained, *swept]
