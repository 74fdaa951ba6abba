"""Dagster assets, thin. Modules are imported when the list is requested, so that one stage does not load the others."""

from collections.abc import Collection, Iterable
from functools import partial

import dagster as dg

from traube.tasks import CLUSTERING, Source
from traube.tasks._task import Stage


def all_assets(sources: Iterable[Source], without_training: Collection[str]) -> list[dg.AssetsDefinition]:
    """Return all assets: the stages of each task, the tables of all, the papers, trainings and sweeps.

    Tasks without training have no stage for methods that train.
    """
    from assets.datasets import corpus_asset, rows_asset
    from assets.papers import paper_assets
    from assets.registry import registry
    from assets.report import leaderboard_asset, regressions, report, task_reports
    from assets.stages import STAGES, scores_asset
    from assets.sweeps import sweep_asset, sweeps
    from assets.trainers import trainer_assets

    assets, tasks, sources = list[dg.AssetsDefinition](), list[Source](), list(sources)
    for task in sources:
        makers = {stage: STAGES[stage] for stage in task.card.type.stages}
        if task.name in without_training:
            del makers[Stage.DEEP_CLUSTERINGS]
            makers[Stage.SCORES] = partial(scores_asset, trained=False)
        assets += [make(task) for make in (corpus_asset, rows_asset, *makers.values())]
        if task.card.type is CLUSTERING:
            tasks.append(task)
    assets += [leaderboard_asset(sources), registry, regressions, report, task_reports]
    trained = trainer_assets(tasks)
    swept = [sweep_asset(name, sweep) for name, sweep in sweeps().items()]
    return [*assets, *paper_assets({asset.key for asset in trained}), *trained, *swept]
