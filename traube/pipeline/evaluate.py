"""Texts to scores in one call: `evaluate` and `evaluate_pairs` for people, the others for code with planned cells."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd

from traube.components import Method, parse_method
from traube.core.errors import TraubeError
from traube.core.progress import SILENT, Progress
from traube.models import Model
from traube.pipeline.cell import Cell
from traube.pipeline.executors import Executor, ensure_executor
from traube.pipeline.pairs import (
    PAIRS_VERSION,
    Comparison,
    PairCell,
    make_pair_cells,
    read_pair_scores,
    usual_comparison,
)
from traube.pipeline.params import Protocol
from traube.pipeline.plan import Plan, cells
from traube.pipeline.run import Clustered, Encoded, Failed, Scored, run
from traube.pipeline.stages import VECTOR_CHECKS
from traube.pipeline.workbench import Given, Workbench
from traube.tasks.scored_pairs import has_history
from traube.tasks.stored import Manifest
from traube.tasks.task import Stage, Task

# What cells need of a protocol besides methods and seeds: its name, and the usual split set.
_OWN = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",))


class Evaluation(NamedTuple):
    """What `evaluate` returns."""

    scores: pd.DataFrame
    assignments: pd.DataFrame


def evaluate(
    task: Task,
    model: Model,
    methods: Sequence[str | Method] = ("none/minibatch_kmeans",),
    seeds: Sequence[int] = (42,),
    *,
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """How well the groups that each method makes of a model's vectors agree with a task's labels.

    Parameters
    ----------
    task : from `load_task` or `make_task`
    model : from `load_model`; its weights are downloaded if they are not on this machine
    methods : like "umap/hdbscan", a reducer and a clusterer; see `traube.components.REDUCERS` and
        `CLUSTERERS`. For parameters of one's own, `traube.components.parse_method`
    seeds : of everything random; a method without randomness is computed once
    folder : where vectors and reductions are kept between calls, and the results too; by default nothing is kept
    executor : does the work. By default one is started, which takes seconds, and ended: give several
        calls one of their own, `with make_executor() as executor:` (`traube.pipeline.executors`)
    progress : who is told of work as it is done

    Returns
    -------
    scores : DataFrame method, seed (empty where nothing is random), split, level, metric, value;
        `task.card.main_metric` names the metric to look at first
    assignments : DataFrame method, seed, split, level, item (the text's number in its split),
        cluster (-1 is noise); both are in the order of the methods and seeds given

    Raises
    ------
    TraubeError
        If the task is faulty, a method or the weights cannot be had, two methods have the same
        name, or a clustering fails or makes no sense.

    Examples
    --------
    >>> from traube import evaluate, load_model, make_task
    >>> task = make_task(["a cat", "a cat cat", "dogs", "dogs dogs"], ["cat", "cat", "dog", "dog"])
    >>> scores, assignments = evaluate(task, load_model("bow"), ["none/kmeans"], seeds=[1, 2])
    >>> scores[scores["metric"] == "acc/noise_as_cluster"][["method", "seed", "value"]].values.tolist()
    [['none/kmeans', 1, 1.0], ['none/kmeans', 2, 1.0]]
    """
    named = [methods] if isinstance(methods, str | Method) else methods
    parsed = [parse_method(method) if isinstance(method, str) else method for method in named]
    twice = [name for name, count in Counter(method.name for method in dict.fromkeys(parsed)).items() if count > 1]
    if twice:
        raise TraubeError(f"two methods are called '{twice[0]}': evaluate them one after the other")
    model.fetch()
    asked = cells(task, model, _OWN, methods=parsed, seeds=seeds)
    scores, assignments = evaluate_cells(task, model, asked, folder, executor, progress)
    return Evaluation(_named(scores.drop(columns="replicates"), asked), _named(assignments, asked))


def _named(table: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """A table with method and seed in place of the cell's id, in the order of the cells."""
    about = pd.DataFrame(
        {
            "cell_id": [cell.cell_id for cell in cells],
            "method": [cell.method.name for cell in cells],
            "seed": pd.array([cell.seed for cell in cells], dtype="Int64"),
        }
    )
    named = about.merge(table, on="cell_id").drop(columns="cell_id")
    order = ["method", "seed", "split", "level"]
    return named[[*order, *(column for column in named if column not in order)]]


def evaluate_cells(
    task: Task,
    model: Model,
    cells: Sequence[Cell],
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Embed, cluster and score cells from `traube.pipeline.plan.cells`; folder and executor as of `evaluate`.

    Returns
    -------
    scores : DataFrame cell_id, split, level, metric, value, replicates (see `traube.pipeline.score`)
    assignments : DataFrame cell_id, split, level, item, cluster

    Raises
    ------
    TraubeError
        If the task is faulty (Task.validate), there are no cells, or a cell fails or is unsupported.
    """
    if not cells:
        raise TraubeError(f"task '{task.name}': there are no cells to evaluate")
    task.validate()
    with _open_workbench(task, folder, executor) as workbench:
        scores, assignments = [], []
        for event in run(Plan.of_cells(model, cells), workbench, progress):
            match event:
                case Encoded() if event.blocking:
                    name = event.blocking[0].name
                    why = f"its vectors fail the check '{name}': {VECTOR_CHECKS[name]}"
                    raise TraubeError(f"{task.name} x {model.name}: {why}")
                case Failed():
                    raise TraubeError(f"{event.cell.title}: {event.status}: {event.reason}")
                case Clustered():
                    assignments.append(event.assignments.assign(cell_id=event.cell.cell_id))
                case Scored():
                    scores.append(event.scores)
    return pd.concat(scores, ignore_index=True), pd.concat(assignments, ignore_index=True)


def evaluate_pairs(
    task: Task,
    model: Model,
    *,
    part: str = "test",
    comparison: Comparison | None = None,
    history: bool = False,
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Correlate a model's similarities with the gold scores of pairs.

    Parameters
    ----------
    part : str, the pairs that are compared
    comparison : str, by default the model's own, or the cosine
    history : bool, whether the turns before are joined to both texts
    folder, executor, progress : as of `evaluate`

    Returns
    -------
    DataFrame group, value, pairs, dialogues, pearson, pearson_low, pearson_high, spearman,
    spearman_low, spearman_high; the first row is of all pairs, then each value of the card's groups

    Raises
    ------
    TraubeError
        If the part has no pairs, history is asked for and there is none, the comparison does not go
        with the model, or a text cannot be encoded.
    """
    if history and not has_history(task.rows):
        raise TraubeError(f"task '{task.name}': its pairs have no history")
    model.fetch()
    cells = make_pair_cells(Manifest.of(task), model, [comparison or usual_comparison(model)], part)
    with _open_workbench(task, folder, executor) as workbench:
        table = score_missing([c for c in cells if c.method.history == history], model, workbench, progress)
    return table.drop(columns=["task", "model", "comparison", "history", "part"])


def score_missing(
    cells: Sequence[PairCell], model: Model, workbench: Workbench, progress: Progress = SILENT
) -> pd.DataFrame:
    """Compute the missing cells of a pair task and a model, and return the scores of all (`read_pair_scores`)."""
    task, storage = cells[0].task, workbench.storage
    with storage.hold(task, model.name, Stage.PAIR_SCORES):
        plan = Plan.of_cells(model, cells, storage.find_finished(task, PAIRS_VERSION))
        for _ in run(plan.only(Stage.PAIR_SCORES), workbench, progress):
            pass
    return read_pair_scores(storage, cells)


@contextmanager
def _open_workbench(task: Task, folder: Path | None, executor: Executor | None) -> Iterator[Workbench]:
    """Lend a workbench for one task, in a temporary folder where none is named."""
    with TemporaryDirectory(prefix="traube-") as temporary, ensure_executor(executor) as work:
        yield replace(Workbench.at(folder or Path(temporary), work), given={task.name: Given(task)})
