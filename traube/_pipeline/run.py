"""The driver: embed, cluster or compare, and score the cells that a plan says are missing. All cells come from `run`."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from traube._core.progress import SILENT, Progress
from traube._pipeline.cell import Cell
from traube._pipeline.cluster import cluster
from traube._pipeline.executors import Failure
from traube._pipeline.kinds.pairs import SCORES, PairCell
from traube._pipeline.pair_scores import compare_pairs, embed_pairs, score_pairs, select_test_forms
from traube._pipeline.plan import Plan
from traube._pipeline.record import Recorder
from traube._pipeline.score import score_cells
from traube._pipeline.stages import VectorCheck, check_vectors
from traube._pipeline.workbench import Workbench
from traube.models import Model, fingerprint_on
from traube.models._long_texts import measure_long_texts
from traube.models._prompts import for_pairs
from traube.tasks._scored_pairs import PAIRS, join_histories, select_pairs
from traube.tasks._task import Stage, Task


@dataclass(frozen=True)
class Encoded:
    """A task's texts have vectors under a model."""

    task: str
    model: str
    texts: int  # number of scored texts
    dimensions: int  # length of their vectors
    encoded: int | None  # number of texts that had to be encoded; None of a pair task, where they are not counted
    device: str
    fingerprint: str  # of the model on the task's corpus
    checks: list[VectorCheck]
    long_texts: str = ""  # how many are longer than the model reads, in one line; empty if none is

    @property
    def blocking(self) -> list[VectorCheck]:
        """Failed checks that stop the task under this model."""
        return [check for check in self.checks if check.blocking and not check.passed]


@dataclass(frozen=True)
class Clustered:
    """A cell's clusters are stored."""

    cell: Cell
    assignments: pd.DataFrame  # split, level, item, cluster
    reason: str = ""  # a warning about them, in one line; mostly empty


@dataclass(frozen=True)
class Scored:
    """A cell's scores and its record are stored."""

    cell: Cell
    scores: pd.DataFrame  # split, level, metric, value; of a clustering with cell_id and replicates


@dataclass(frozen=True)
class Failed:
    """A cell has no scores, as its record says: it is failed, unsupported or unavailable (does not fit the memory)."""

    cell: Cell
    status: str
    reason: str  # in one line


Event = Encoded | Clustered | Scored | Failed


def run(plan: Plan, workbench: Workbench, progress: Progress = SILENT, run_id: str = "") -> Iterator[Event]:
    """Compute the cells that a plan says are missing. The results that an event reports are stored before it is yielded.

    A model whose vectors fail a blocking check is not clustered on the task. Records name the run that asks by its
    `run_id`, which is empty where nobody keeps runs.

    Raises
    ------
    TraubeError
        If a task has not been read, the weights of a model cannot be had, a text cannot be encoded, or a worker was
        killed.
    """
    for name, task_name in plan.work():
        model, task = plan.at_hand.models[name], workbench.task(task_name)
        if task_name in workbench.given:
            workbench.storage.save_splits_of(task.data_version, task.card.type.make_splits(task))
        encode, evaluate = (_encode_pairs, _compare) if task.card.type is PAIRS else (_encode, _cluster_and_score)
        if Stage.EMBEDDINGS in plan.stages:
            encoded = encode(task, model, workbench, progress)
            yield encoded
            if encoded.blocking:
                continue
        yield from evaluate(plan, task, model, workbench, progress, run_id)


def _encode(task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
    model.fetch()
    vectors, encoded = workbench.encoded(task, model, progress)
    scored = vectors.subset(task.scored)
    long = measure_long_texts(model, [task.texts[i] for i in task.scored])
    long_texts = long.describe(model.name) if long else ""
    return Encoded(
        task=task.name,
        model=model.name,
        texts=len(scored),
        dimensions=vectors.dimensions,
        encoded=encoded,
        device=workbench.executor.device(model, len(scored)),
        fingerprint=fingerprint_on(model, task.corpus_version),
        checks=check_vectors(scored, len(task.scored), long_texts),
        long_texts=long_texts,
    )


def _cluster_and_score(
    plan: Plan, task: Task, model: Model, workbench: Workbench, progress: Progress, run_id: str
) -> Iterator[Event]:
    storage, executor = workbench.storage, workbench.executor
    recorder = Recorder(storage, executor.device(model, len(task.scored)), run_id)
    clustered = set(plan.at_hand.clustered)
    if cells := plan.to_compute(model.name, task.name):
        vectors = workbench.vectors(task, model, progress)
        for result in cluster(task, vectors, cells, storage, executor, progress, model.similarity, model):
            if result.assignments is None:
                recorder.save_failure(result.cell, result.status, result.reason)
                yield Failed(result.cell, result.status, result.reason)
            else:
                recorder.save_clusters(result.cell, result.assignments, result.seconds, result.cost, result.histories)
                clustered.add(result.cell.cell_id)
                yield Clustered(result.cell, result.assignments, result.reason)

    if Stage.SCORES not in plan.stages:
        return
    missing = plan.missing.get(model.name, {}).get(task.name, ())
    unscored = [cell for cell in missing if cell.cell_id in clustered]
    scored_by = workbench.vectors(task, model, progress) if unscored and not task.is_labeled else None
    for cell, outcome in score_cells(task, unscored, storage, executor, scored_by, progress):
        if isinstance(outcome, Failure):
            recorder.update(cell, outcome.status, outcome.reason)
            yield Failed(cell, outcome.status, outcome.reason)
        else:
            recorder.save_scores(cell, outcome)
            yield Scored(cell, outcome)


def _encode_pairs(task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
    model.fetch()
    model = for_pairs(model)
    found = [embed_pairs(form, model, workbench, progress)[0] for form in select_test_forms(task)]
    return Encoded(
        task=task.name,
        model=model.name,
        texts=sum(map(len, found)),
        dimensions=found[0].dimensions,
        encoded=None,
        device=model.device,
        fingerprint=model.fingerprint,
        checks=[],
    )


def _compare(
    plan: Plan, task: Task, model: Model, workbench: Workbench, progress: Progress, run_id: str
) -> Iterator[Scored]:
    recorder = Recorder(workbench.storage, model.device, run_id)
    for cell in plan.to_compute(model.name, task.name):
        assert isinstance(cell, PairCell)
        chosen = select_pairs(join_histories(task) if cell.method.history else task, cell.split_set)
        similarities = compare_pairs(chosen, model, workbench, cell.method.clusterer, progress)
        wide = score_pairs(chosen, similarities).rename(columns={"group": "level", "value": "split"})
        scores = wide.melt(["level", "split"], SCORES, "metric", "value")
        recorder.save_similarities(
            cell, pd.DataFrame({"pair": chosen.rows["pair"], "similarity": similarities}), scores
        )
        yield Scored(cell, scores)
