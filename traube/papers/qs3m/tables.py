"""QS3M's tables: the printed numbers, and the same numbers measured here."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from traube._core.frames import stack
from traube._reports.papers import spec
from traube._reports.papers.context import Context
from traube._reports.papers.published import Published
from traube._reports.papers.spec import PRINTED_VERDICT, TESTED, count_split_sizes, describe_test, make_grid
from traube.comparison.verdict import compare_paired
from traube.papers.qs3m.pages import KEYS, METRICS, REFERENCE, TRAINER, Key, page_scores, split_sets
from traube.tasks.sections import LEVELS
from traube.tasks.task import Task

CAR = {"CAR-A": "trec_car", "CAR-B": "trec_car_b", "test200": "car_test200"}
WIKIPEDIA = tuple(f"{name}_{level}" for name in CAR.values() for level in LEVELS)
ARXIV = "arxiv_subjects"
WITHOUT_QUERY = "QS3M-no-query"
TASKS = (*WIKIPEDIA, ARXIV)

published = Published(__package__)


def published_results() -> pd.DataFrame:
    """Return table 2 as it is printed: method, task, metric, published, and what the paper's test says."""
    return published("table2").rename(columns={"published_test": PRINTED_VERDICT})


def sizes(context: Context) -> pd.DataFrame:
    """Measure table 1, pairs of passages, queries, mean and deviation of their clusters and passages.

    The columns are data, column, measured, note.
    """
    rows: list[tuple[str, str, float, str]] = []
    for data, name in CAR.items():
        for level in LEVELS:
            task = context.task(f"{name}_{level}")
            if task is not None:
                rows += [(data, column, value, "") for column, value in _measure_sizes(task, level).items()]
    reasons = context.explain_unread(WIKIPEDIA)
    for data, column in published.grid("table1", "data")[["data", "column"]].itertuples(index=False):
        task_name = f"{CAR[data]}_{'hier' if '_hier' in column else 'flat'}"
        if task_name in reasons:
            rows.append((data, column, np.nan, reasons[task_name]))
    return pd.DataFrame(rows, columns=["data", "column", "measured", "note"]).drop_duplicates(["data", "column"])


def _measure_sizes(task: Task, level: str) -> dict[str, float]:
    tested = _select_pages(task)
    by_page = count_split_sizes(tested)
    by_cluster = tested.groupby(["split_set", "split", "label"]).size()
    return {
        "pairs": float((by_page["rows"] * (by_page["rows"] - 1) // 2).sum()),
        "queries": float(len(by_page)),
        f"clusters_{level}": float(by_page["classes"].mean()),
        f"clusters_{level}_sd": float(by_page["classes"].std(ddof=0)),
        f"passages_{level}": float(by_cluster.mean()),
        f"passages_{level}_sd": float(by_cluster.std(ddof=0)),
    }


def _select_pages(task: Task) -> pd.DataFrame:
    is_page = (task.splits["part"] == "test") & task.splits["split_set"].isin(split_sets(task))
    return task.splits[is_page]


def results(context: Context) -> pd.DataFrame:
    """Measure table 2: AUC of balanced and of all pairs, and ARI, means over pages.

    Each way of comparing is tested against Euclidean distances of the same encoder.

    Returns
    -------
    DataFrame
        `KEYS`, task, metric, measured, `TESTED` (paired t-test over pages, of a trained way over folds; the ways that are
        tested are the family), pages.
    """
    rows = [
        (way[0], task, metric, *way[1:], grid[way].mean(), *_compare_with_reference(grid, way))
        for task, metric, grid in _list_grids(context)
        for way in grid
    ]
    columns = ["method", "task", "metric", *KEYS[1:], "measured", *TESTED, "pages"]
    unread = context.list_unread(published_results()[["method", "task", "metric"]])
    return stack([pd.DataFrame(rows, columns=columns), unread])


def _list_grids(context: Context) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield task, metric and scores, a row for each page and a column for each way of comparing."""
    for task in context.tasks(WIKIPEDIA):
        scores = page_scores(context, task)
        for metric in METRICS if len(scores) else ():
            yield task.name, metric, scores.pivot_table(index=["fold", "page"], columns=KEYS, values=metric, sort=False)


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return table 2 as people are shown it: a row for each way, a column for each metric."""
    return make_grid(table, ["task", *KEYS], "metric", 3)


def subject_scores(context: Context) -> pd.DataFrame:
    """Return `page_scores` of arXiv's subjects; empty where they have not been read."""
    task = context.task(ARXIV)
    return page_scores(context, task) if task is not None else pd.DataFrame()


def _compare_with_reference(grid: pd.DataFrame, way: Key) -> tuple[float, float, float, float, str, int]:
    """Return `TESTED` of a way against its reference, and the pages.

    The reference is Euclidean distances of its encoder, or of the first one. A way that was trained was trained once for each
    fold: the folds are compared, since the pages of one share the luck of its training.
    """
    references = [other for other in grid if other[0] == REFERENCE]
    reference = next((other for other in references if other[1] == way[1] or not way[1]), None)
    if reference is None:  # the encoder is gone
        return *spec.UNTESTED, len(grid[way].dropna())
    if way == reference:
        return *spec.REFERENCE, len(grid[way].dropna())
    pages = pd.DataFrame({"way": grid[way], "reference": grid[reference]}).dropna()
    tests, is_trained = len(grid.columns) - len(references), bool(way[KEYS.index("trained_on")])
    tested = pages.groupby("fold").mean() if is_trained else pages
    verdict = compare_paired(way[0], tested["way"], REFERENCE, tested["reference"], comparisons=tests)
    return *describe_test(verdict), len(pages)


def published_queries() -> pd.DataFrame:
    """Return what the paper tests of queries: nothing."""
    return pd.DataFrame(columns=["task", "metric", "method", "published"]).astype({"published": float})


def query_gains(context: Context) -> pd.DataFrame:
    """Measure table 2 of each similarity that knows a query, beside the same network and training without one.

    The columns are task, metric, `KEYS`, measured, without (a query), `TESTED` (paired t-test over folds).
    """
    rows = []
    for task, metric, pages in _list_grids(context):
        plain = {way[1:]: way for way in pages if way[0] == WITHOUT_QUERY}
        same_network = [way for way in pages if way[1:] in plain and way[0].startswith("QS3M-")]
        with_query = [way for way in same_network if way[0] != WITHOUT_QUERY]
        for way in with_query:
            both = pages[[way, plain[way[1:]]]].dropna().set_axis(["measured", "without"], axis=1)
            folds = both.groupby("fold").mean()
            verdict = compare_paired(
                way[0], folds["measured"], WITHOUT_QUERY, folds["without"], comparisons=len(with_query)
            )
            rows.append((task, metric, *way, *both.mean(), *describe_test(verdict)))
    return pd.DataFrame(rows, columns=["task", "metric", *KEYS, "measured", "without", *TESTED])


def subjects(context: Context) -> pd.DataFrame:
    """Measure table 3, arXiv's subtopics of a subject and abstracts of a subtopic: subject, column, measured."""
    task = context.task(ARXIV)
    rows: list[tuple[str, str, float]] = []
    for subject, tested in () if task is None else _select_pages(task).groupby("split", sort=False):
        counts = tested["label"].value_counts()
        values = {"subtopics": len(counts), "abstracts": counts.mean(), "abstracts_sd": counts.std(ddof=0)}
        rows += [(str(subject), column, float(value)) for column, value in values.items()]
    return pd.DataFrame(rows, columns=["subject", "column", "measured"])


def arxiv(context: Context) -> pd.DataFrame:
    """Measure table 4, AUC over all pairs on arXiv's two folds and ARI, means over subjects.

    The columns are method, fold, base, recipe, measured, ari, note (the recipe's values).
    """
    scores = subject_scores(context)
    if scores.empty:
        return pd.DataFrame(columns=["method", "fold", "base", "recipe", "measured", "ari", "note"])
    number = {"default": 1, "fold_2": 2}
    keys = ["method", "fold", "base", "recipe"]
    means = scores.assign(fold=scores["fold"].map(number)).groupby(keys, sort=False)[["auc_all", "ari"]].mean()
    recipes = context.describe_recipes(TRAINER)
    table = means.reset_index().rename(columns={"auc_all": "measured"})
    return table.assign(note=[recipes.get((TRAINER, recipe), "") for recipe in table["recipe"]])
