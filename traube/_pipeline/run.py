"""The driver: embed, cluster and score the cells that a plan says are missing. All cells come from here.

Each function does one stage of a plan, and nothing where the plan is narrowed to others. What an event reports is stored
before it is yielded. Records name the run that asks by its `run_id`, which is empty where nobody keeps runs.
"""

from collections.abc import Iterator

from traube._core.progress import SILENT, Progress
from traube._pipeline.events import Clustered, Encoded, Failed, Scored
from traube._pipeline.kinds import kind_of
from traube._pipeline.kinds.kind import Work
from traube._pipeline.plan import Cells, Plan
from traube._pipeline.workbench import Workbench
from traube.tasks.task import Stage


def encode(plan: Plan, workbench: Workbench, progress: Progress = SILENT) -> Iterator[Encoded]:
    """Encode the texts of a plan's tasks by its models, whose missing vectors are found on the way.

    Raises
    ------
    TraubeError
        If a task has not been read, the weights of a model cannot be had, or a text cannot be encoded.
    """
    for work in _list_work(plan, plan.requested if Stage.EMBEDDINGS in plan.stages else {}, workbench, progress):
        yield kind_of(work.task.card).encode(work.task, work.model, workbench, progress)


def cluster(
    plan: Plan, workbench: Workbench, progress: Progress = SILENT, run_id: str = ""
) -> Iterator[Clustered | Failed]:
    """Cluster the cells of a plan that are neither clustered nor of a kind that clusters nothing.

    Raises
    ------
    TraubeError
        As `encode`, or if a worker was killed.
    """
    for work in _list_work(plan, plan.to_cluster, workbench, progress, run_id):
        yield from kind_of(work.task.card).cluster(work)


def score(plan: Plan, workbench: Workbench, progress: Progress = SILENT, run_id: str = "") -> Iterator[Scored | Failed]:
    """Score the cells of a plan that are clustered, or of a kind that clusters nothing. Raises what `cluster` does."""
    for work in _list_work(plan, plan.to_score, workbench, progress, run_id):
        yield from kind_of(work.task.card).score(work)


def _list_work(plan: Plan, cells: Cells, workbench: Workbench, progress: Progress, run_id: str = "") -> Iterator[Work]:
    """Yield the work on each model and task."""
    for name, by_task in cells.items():
        for task_name, of_task in by_task.items():
            model, task = plan.at_hand.models[name], workbench.task(task_name)
            if task_name in workbench.given:
                workbench.storage.save_splits_of(task.data_version, task.card.type.make_splits(task))
            yield Work(task, model, of_task, workbench, progress, run_id)
