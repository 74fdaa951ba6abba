"""Standings of models on a task: the best method of each, with intervals, ranks and verdicts.

One object for the leaderboard of a single task, `traube recommend`, `traube compare` and a task's report.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from traube._core.errors import Changed, Missing, TraubeError, unknown
from traube._pipeline.current import current_cells
from traube._pipeline.kinds import kind_of
from traube._pipeline.params import Protocol
from traube._pipeline.validation.findings import refuse_stored
from traube._storage import Storage
from traube.comparison.candidates import Candidate, candidates, find, main_metric, pick_best_methods, sample
from traube.comparison.family import is_compared, list_lasting
from traube.comparison.jackknife import Array, Sample, choose_best, compute_intervals
from traube.comparison.ranking import Ranking, rank
from traube.comparison.verdict import LEVEL, Undecided, Verdict, compare
from traube.models import model_cards
from traube.tasks import get_source
from traube.tasks.stored import get_card, get_manifest, read_task
from traube.tasks.task import Task

Samples = Callable[[Candidate], Sample]  # a candidate's scores with replicates


class Unlabeled(TraubeError):
    """A task without labels, on which nothing is best."""


@dataclass(frozen=True)
class Standing:
    """Standing of the models on a task, over its splits and levels."""

    models: tuple[Candidate, ...]  # the best method of each model, the best model first
    samples: tuple[Sample, ...]  # the scores of each model, its method being chosen again in each replicate
    intervals: Array  # of each model's score, the choice of the method included, [n_models, 2]
    ranking: Ranking  # the verdict on every pair of models, named by their models' names


def choose_best_method(samples: Sequence[Sample]) -> Sample:
    """Return a model's best method, chosen in each replicate; methods that are scored on other splits are left out."""
    return choose_best([sample for sample in samples if sample.splits == samples[0].splits])


def read_standing(storage: Storage, options: Sequence[Candidate]) -> Standing:
    """Compare the models among some stored candidates, the best first, of one task, protocol, metric and level."""
    return make_standing(options, partial(sample, storage))


def make_standing(options: Sequence[Candidate], sample_of: Samples) -> Standing:
    """Compare the models among some candidates, as `read_standing` does, whose scores lie wherever `sample_of` finds them."""
    of_model: dict[str, list[Sample]] = {}
    for candidate in options:
        of_model.setdefault(candidate.model, []).append(sample_of(candidate))
    samples = tuple(choose_best_method(method_samples) for method_samples in of_model.values())
    ranking = rank(list(of_model), samples, options[0].about)
    return Standing(tuple(pick_best_methods(options)), samples, compute_intervals(samples), ranking)


def is_stored(storage: Storage, task: str) -> bool:
    """Return whether a task is stored; refuse a name that is no task's, or one of a task whose models are not compared."""
    manifest = get_manifest(storage, task)
    if manifest is not None and kind_of(manifest.card).is_ranked:
        return True
    get_source(task)  # which names near ones, if there is no such task, and refuses one of pairs
    return False


def read_options(
    storage: Storage,
    task_name: str,
    name: str,
    protocol: Protocol,
    metric: str | None = None,
    own_choice: bool = False,
    besides: Collection[str] = (),
) -> tuple[Task, list[Candidate]]:
    """Return a stored task and its scored candidates under a protocol that are compared, the best first.

    The candidates are those of the task's present data, scored by its main metric or another.

    Parameters
    ----------
    storage : Storage
        The storage that holds the task.
    task_name : str
        Name of the task.
    name : str
        Name of the protocol.
    protocol : Protocol
        The protocol.
    metric : str, optional
        By default the task's main metric.
    own_choice : bool, default=False
        Also count methods and seeds that were requested beside the protocol's own.
    besides : collection of str, optional
        Models that are compared besides those of the task's family.

    Raises
    ------
    TraubeError
        If there is no such task, a check says that its data cannot be used, or nothing is scored of it.
    Unlabeled
        If the task has no labels to score by.
    """
    if not is_stored(storage, task_name):
        if not storage.read_cells(task_name).empty:
            raise Changed(
                f"{task_name}: its data cannot be used as it is now: `traube run -t {task_name}` says why; what is "
                "scored of its earlier data is in the leaderboard"
            )
        raise Missing(f"{task_name}: nothing is scored yet: `traube run -t {task_name}`")
    refuse_stored(storage, task_name)
    task = read_task(storage, task_name)
    if not task.is_labeled:
        raise Unlabeled(
            f"{task_name} has no labels, so nothing says which model is best; if a column of its file holds them: --labels "
            "COLUMN; `traube cluster` groups its texts"
        )
    cells = current_cells(storage, {name: protocol}, [task_name], own_choice=True)
    compared = is_compared(cells, list_lasting(storage)) | cells["model"].isin(besides)
    cells = cells[compared if own_choice else compared & ~cells["own_choice"]]
    options = candidates(storage, task_name, name, protocol, metric or main_metric(task.card, protocol), cells)
    if not options:
        raise Missing(
            f"{task_name}: nothing is scored under protocol '{name}' yet: `traube run -t {task_name} -p {name}`"
        )
    return task, options


@dataclass(frozen=True)
class Comparison:
    """Two candidates of a task, and the verdict on them."""

    a: Candidate
    b: Candidate
    verdict: Verdict


def compare_on_tasks(
    storage: Storage,
    tasks: Sequence[str],
    name: str,
    protocol: Protocol,
    a: str,
    b: str,
    metric: str | None = None,
    own_choice: bool = False,
) -> tuple[list[Comparison], dict[str, str]]:
    """Compare two models on several tasks, as a person names them.

    Parameters
    ----------
    a, b : str
        `model`, its best method on each task: then the verdict is that of the task's table, whose
        pairs of models are the family. Or `model:reducer/clusterer`: then what is compared was
        chosen beforehand, and the tasks are the family.
    metric : str, optional
        As in `read_options`.
    own_choice : bool, default=False
        As in `read_options`.

    Returns
    -------
    comparisons : list of Comparison
        One for each task that can be compared on.
    left_out : dict of str to str
        Why tasks cannot be compared on. If none can, that is raised.
    """
    named = _parse_models(storage, a, b)
    pairings: list[tuple[Candidate, Candidate, list[Candidate]]] = []
    left_out = {}
    for task_name in dict.fromkeys(tasks):  # a name may be given twice
        try:
            _, options = read_options(storage, task_name, name, protocol, metric, own_choice, named)
            pairings.append((find(options, a), find(options, b), options))
        except TraubeError as error:
            left_out[task_name] = str(error)
    if not pairings:
        raise Missing("nothing to compare: " + "; ".join(left_out.values()))
    read, comparisons = partial(sample, storage), len(pairings) if ":" in a + b else None
    return [
        Comparison(one, other, judge_pair(options, one, other, read, comparisons)) for one, other, options in pairings
    ], left_out


def list_common_tasks(storage: Storage, a: str, b: str) -> list[str]:
    """Return the tasks of clustering that two models, as a person names them, are both scored on."""
    models = _parse_models(storage, a, b)
    cells = storage.read_cells()
    done = cells[cells["status"] == "done"]
    one, other = (set(done.loc[done["model"] == model, "task"]) for model in models)
    both = [task for task in sorted(one & other) if (card := get_card(storage, task)) and kind_of(card).is_ranked]
    if not both:
        raise Missing(
            f"nothing to compare: no task is scored with both {' and '.join(models)}: "
            f"`traube run -m {' -m '.join(models)}`"
        )
    return both


def _parse_models(storage: Storage, *sides: str) -> list[str]:
    """Return the models of `model` or `model:method`; refuse one that neither exists nor was ever scored: a misspelling."""
    known = {*model_cards(), *pd.unique(storage.read_cells()["model"])}
    models = [side.partition(":")[0] for side in sides]
    for model in models:
        if model not in known:
            raise unknown("model", model, known)
    return models


def judge_pair(
    options: Sequence[Candidate], a: Candidate, b: Candidate, sample_of: Samples, comparisons: int | None = None
) -> Verdict:
    """Return the verdict on two candidates of a task: of a family of so many comparisons, or of the task's table."""
    if a.cells == b.cells:
        return Verdict(a.name, b.name, a.about, undecided=Undecided.SAME)
    if comparisons is None and a.model != b.model:
        return make_standing(options, sample_of).ranking.verdict(a.model, b.model)
    return compare(a.name, sample_of(a), b.name, sample_of(b), about=a.about, comparisons=comparisons or 1)


def compare_candidates(
    storage: Storage, a: Candidate, b: Candidate, comparisons: int = 1, level: float = LEVEL
) -> Verdict:
    """Compare two candidates of one task that were chosen beforehand; `comparisons` and `level` are as in `Verdict`."""
    one, other = sample(storage, a), sample(storage, b)
    return compare(a.name, one, b.name, other, about=a.about, comparisons=comparisons, level=level)
