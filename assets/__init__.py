"""Dagster assets, thin: a file per stage of the graph. The work is done by the library, `traube`.

`all_assets` is the list of the stages; `assets.jobs` says which of them a job makes. Modules are
imported when the list is asked for, so that one stage does not load the others.
"""

from collections.abc import Iterable

import dagster as dg

from traube.tasks import PairSource, Source


def all_assets(sources: Iterable[Source], pair_sources: Iterable[PairSource] = ()) -> list[dg.AssetsDefinition]:
    """Every asset: the stages of each task and each pair task, what is made of all of them, the
    papers, what can be trained, and the sweeps.
    """
    from assets.checkpoints import checkpoint_assets, study_assets
    from assets.clusterings import clusterings_asset, deep_clusterings_asset
    from assets.corpora import corpus_asset
    from assets.embeddings import embeddings_asset
    from assets.leaderboard import leaderboard_asset
    from assets.pairs import pair_assets
    from assets.papers import paper_assets
    from assets.registry import registry
    from assets.regressions import regressions
    from assets.report import report, task_reports_asset
    from assets.scores import scores_asset
    from assets.splits import splits_asset
    from assets.sweeps import sweep_assets

    tasks = list(sources)
    clustered = (clusterings_asset, deep_clusterings_asset)
    stages = (corpus_asset, splits_asset, embeddings_asset, *clustered, scores_asset)
    reports = (report, task_reports_asset(tasks))
    of_all_tasks = [leaderboard_asset([task.name for task in tasks]), registry, regressions, *reports, *paper_assets()]
    trained = [asset for task in tasks for asset in (*checkpoint_assets(task), *study_assets(task))]
    compared = [asset for source in pair_sources for asset in pair_assets(source)]
    made = (make(task) for task in tasks for make in stages)
    return [*made, *compared, *of_all_tasks, *trained, *sweep_assets()]
