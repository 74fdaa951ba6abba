"""Dagster assets, thin: a file per stage of the graph. The work is done by the library, `traube`.

`all_assets` is the list of the stages; `assets.jobs` says which of them a job makes. Modules are
imported when the list is asked for, so that one stage does not load the others.
"""

from collections.abc import Iterable

import dagster as dg

from traube.tasks import CLUSTERING, Source
from traube.tasks.task import Stage


def all_assets(sources: Iterable[Source]) -> list[dg.AssetsDefinition]:
    """Every asset: the stages of each task, what is made of all of them, the papers, what can be
    trained, and the sweeps.
    """
    from assets.checkpoints import checkpoint_assets, study_assets
    from assets.clusterings import clusterings_asset, deep_clusterings_asset
    from assets.corpora import corpus_asset
    from assets.embeddings import embeddings_asset
    from assets.leaderboard import leaderboard_asset
    from assets.papers import paper_assets
    from assets.registry import registry
    from assets.regressions import regressions
    from assets.report import report, task_reports_asset
    from assets.scores import pair_scores_asset, scores_asset
    from assets.splits import rows_asset
    from assets.sweeps import sweep_assets

    of_stage = {
        Stage.EMBEDDINGS: embeddings_asset,
        Stage.CLUSTERINGS: clusterings_asset,
        Stage.DEEP_CLUSTERINGS: deep_clusterings_asset,
        Stage.SCORES: scores_asset,
        Stage.PAIR_SCORES: pair_scores_asset,
    }
    every = list(sources)
    tasks = [task for task in every if task.card.type is CLUSTERING]
    reports = (report, task_reports_asset(tasks))
    of_all_tasks = [leaderboard_asset([task.name for task in tasks]), registry, regressions, *reports, *paper_assets()]
    trained = [asset for task in tasks for asset in (*checkpoint_assets(task), *study_assets(task))]
    made = (
        make(task)
        for task in every
        for make in (corpus_asset, rows_asset, *(of_stage[stage] for stage in task.card.type.stages))
    )
    return [*made, *of_all_tasks, *trained, *sweep_assets()]
