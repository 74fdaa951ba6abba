"""Leaderboards and comparisons of results in memory.

The numbers and verdicts are those of the command line (`traube leaderboard`, `traube compare`).
"""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from traube._core.errors import Conflict, unknown
from traube._pipeline.evaluate import Evaluation
from traube._pipeline.record import record
from traube._reports.tables import summary
from traube.comparison._candidates import WITHOUT_LABELS, find, make_candidates, sample_of
from traube.comparison._standings import Unlabeled, judge_pair
from traube.comparison._verdict import Verdict
from traube.metrics import full_name

COLUMNS = [
    *("task", "level", "model", "method", "metric", "mean", "sd", "low", "high", "rank_low", "rank_high", "best"),
    *("splits", "seeds", "note"),
]


def leaderboard(results: Evaluation | Sequence[Evaluation], metric: str | None = None) -> pd.DataFrame:
    """Rank the models of results, task by task.

    Parameters
    ----------
    results : Evaluation, or sequence of Evaluation
        From `traube.evaluate`; results of the same task are one table.
    metric : str, optional
        By default each task's main one.

    Returns
    -------
    DataFrame
        `task`, `level`, `model`, `method`, `metric`, `mean` over splits and seeds, `sd`, `low` and `high` (95 %
        interval), `rank_low` and `rank_high` (the ranks that the data allow; models whose ranks overlap are tied),
        `best` (whether it is the model's best method, which alone has ranks), `splits`, `seeds` and `note`; of each
        task the best first.

    Raises
    ------
    TypeError
        If these are no results of `traube.evaluate`.
    TraubeError
        If two tasks of one name differ, or nothing is scored by the metric.

    Examples
    --------
    >>> from traube import evaluate, leaderboard
    >>> texts = ["a goal", "a match", "the goal of a match", "the moon", "a star", "the moon and a star"]
    >>> result = evaluate(texts, ["bow", "tfidf"], labels=["sport"] * 3 + ["space"] * 3)
    >>> leaderboard(result)[["model", "rank_low", "rank_high"]].values.tolist()
    [['bow', 1.0, 2.0], ['tfidf', 1.0, 2.0]]
    """
    evaluations = _check_results(results)
    cells = _list_cells(evaluations)
    scores = pd.concat([result.samples for result in evaluations])
    scores = scores.drop_duplicates(["cell_id", "split", "level", "metric"])
    cards = {result.task.name: result.task for result in evaluations}
    table = summary(cells, scores, cards, _full_name(metric, scores))
    return table[COLUMNS].reset_index(drop=True)


def compare(results: Evaluation | Sequence[Evaluation], a: str, b: str, metric: str | None = None) -> Verdict:
    """Compare two models on one task, and return the verdict on which is better.

    Parameters
    ----------
    results : Evaluation, or sequence of Evaluation
        Of one task, from `traube.evaluate`.
    a, b : str
        `model`: its best method, and the pairs of all models in the results are the family of comparisons. Or
        `model:reducer/clusterer`: then one comparison was chosen beforehand.
    metric : str, optional
        By default the task's main one.

    Returns
    -------
    Verdict
        `answer`, `evidence`, `difference`, `low`, `high` and `p`.

    Raises
    ------
    TypeError
        If these are no results of `traube.evaluate`.
    Unlabeled
        If the task has no labels: each model's silhouette is measured in its own vector space.
    TraubeError
        If the results are of several tasks, or a model or method is not among them.

    Examples
    --------
    >>> from traube import compare, evaluate
    >>> texts = ["a goal", "a match", "the goal of a match", "the moon", "a star", "the moon and a star"]
    >>> result = evaluate(texts, ["bow", "tfidf"], labels=["sport"] * 3 + ["space"] * 3)
    >>> compare(result, "bow", "tfidf").better
    ''
    """
    evaluations = _check_results(results)
    names = sorted({result.task.name for result in evaluations})
    if len(names) > 1:
        raise Conflict(
            f"compare: the results are of several tasks ({', '.join(names)}): compare on one after the other"
        )
    scores = pd.concat([result.samples for result in evaluations])
    wanted = _full_name(metric, scores) or evaluations[0].metric
    if wanted == WITHOUT_LABELS:
        raise Unlabeled(f"{names[0]} has no labels, so nothing says which model is best")
    cells = _list_cells(evaluations)
    scores = scores[scores["metric"] == wanted].drop_duplicates(["cell_id", "split", "level"])
    options = make_candidates(cells, scores, evaluations[0].data_version)
    one, other = find(options, a), find(options, b)
    return judge_pair(options, one, other, partial(sample_of, cells, scores), 1 if ":" in a + b else None)


def _check_results(results: Evaluation | Sequence[Evaluation]) -> list[Evaluation]:
    evaluations = [results] if isinstance(results, Evaluation) else list(results)
    if not evaluations or not all(isinstance(result, Evaluation) for result in evaluations):
        raise TypeError("pass what traube.evaluate returned, one result or a list of them")
    versions: dict[str, str] = {}
    for result in evaluations:
        name = result.task.name
        if versions.setdefault(name, result.data_version) != result.data_version:
            raise Conflict(f"two tasks are called '{name}' and differ: name them, make_task(..., name=...)")
    return evaluations


def _list_cells(results: Sequence[Evaluation]) -> pd.DataFrame:
    """Return the cells of results, each once, in the form in which the storage keeps them."""
    cells = pd.DataFrame([record(cell, "done") for result in results for cell in result.cells])
    return cells.assign(created="").drop_duplicates("cell_id")


def _full_name(metric: str | None, scores: pd.DataFrame) -> str | None:
    if metric is None:
        return None
    name = full_name(metric)
    if not (scores["metric"] == name).any():
        raise unknown("scored metric", name, scores["metric"].unique())
    return name
