"""Texts to scores in one call: `evaluate` and `evaluate_pairs` for users, the other functions for code with planned cells."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from traube._core import paths
from traube._core.errors import Conflict, Missing, TooFew
from traube._core.progress import SILENT, Progress
from traube._pipeline.cell import Cell
from traube._pipeline.default_model import AUTO, choose_model, languages_of
from traube._pipeline.executors import Executor, ensure_executor
from traube._pipeline.kinds.pairs import PairCell, make_pair_cells, read_pair_scores
from traube._pipeline.pair_scores import Comparison, list_comparisons
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan, cells
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.workbench import Given, Workbench
from traube.components import Method, parse_method, register_clusterer
from traube.models import Model, to_model
from traube.models.given import wrap_embeddings
from traube.models.long_texts import measure_long_texts
from traube.tasks.scored_pairs import has_history
from traube.tasks.stored import Manifest
from traube.tasks.task import Task, TaskCard, make_task
from traube.tasks.texts import check_whole, read_embeddings, read_labels, read_texts, to_frame

# What cells need of a protocol besides methods and seeds: its name, and the usual split set.
_OWN = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",))


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Result of `evaluate`: how well each algorithm groups a task's texts by each model.

    Attributes
    ----------
    task : TaskCard
        The task's card; `task.main_metric` names the metric to look at first.
    data_version : str
        Content hash of the task's texts and labels.
    cells : tuple of Cell
        The computed cells, in the order of the models, algorithms and seeds that were given.
    samples : DataFrame
        `cell_id`, `split`, `level`, `metric`, `value` and `replicates`, by which results are compared.
    clusters : DataFrame
        `cell_id`, `split`, `level`, `item` and `cluster`.

    Examples
    --------
    >>> from traube import evaluate
    >>> texts = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
    >>> result = evaluate(texts, "tfidf", "none/kmeans", labels=["food", "food", "ships", "ships"])
    >>> result.means()
       model       method  value
    0  tfidf  none/kmeans    1.0
    """

    task: TaskCard
    data_version: str
    cells: tuple[Cell, ...]
    samples: pd.DataFrame
    clusters: pd.DataFrame

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Scores: `model`, `method`, `seed` (empty where nothing is random), `split`, `level`, `metric` and `value`."""
        return _name_cells(self.samples.drop(columns="replicates"), self.cells)

    @cached_property
    def assignments(self) -> pd.DataFrame:
        """Clusters: `model`, `method`, `seed`, `split`, `level`, `item` (number in its split) and `cluster` (-1 is noise)."""
        return _name_cells(self.clusters, self.cells)

    @property
    def metric(self) -> str:
        """The metric to look at first: the task's main one, or the silhouette where there are no labels."""
        is_scored = (self.samples["metric"] == self.task.main_metric).any()
        return self.task.main_metric if is_scored else "silhouette"

    def means(self) -> pd.DataFrame:
        """Return the mean over splits, levels and seeds of that metric, by model and method, the best first."""
        rows = self.scores[self.scores["metric"] == self.metric]
        table = rows.groupby(["model", "method"], sort=False)["value"].mean().reset_index()
        return table.sort_values("value", ascending=False, kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        table = self.means()
        numbers = ((table[name].nunique(), name) for name in ("model", "method"))
        counts = ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in numbers)
        best = next(table.itertuples(index=False))
        leader = f"best {best.model} with {best.method}, {self.metric} {best.value:.3f}"
        return f"Evaluation(task '{self.task.name}', {counts}: {leader})"

    def _repr_html_(self) -> str:
        means = self.means().rename(columns={"value": self.metric})
        return f"<p>{escape(repr(self))}</p>{means.to_html(index=False, float_format='{:.3f}'.format)}"


def evaluate(
    task: Any,
    models: Any,
    algorithms: Any = ("none/minibatch_kmeans",),
    *,
    labels: Any = None,
    seeds: Sequence[int] = (42,),
    text_column: str | int | None = None,
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Score how well the groups that each algorithm makes of each model's vectors agree with labels.

    Parameters
    ----------
    task : Task, sequence of str, ndarray, Series, Arrow column, or DataFrame
        From `load_task` or `make_task`; or texts, as `make_task` takes them.
    models : str, Path, SentenceTransformer, callable, Model, array, or several of these
        Several as a list, or as a dict from names to models. Each is a name (`traube models` lists them) or "auto", the
        model that `cluster_texts` takes for the texts' language; a Hugging Face id or a folder; a network in memory; a
        function that takes a list of texts and returns an array; or embeddings of shape (n_texts, n_dimensions), of a
        task's `texts` in their order. Weights that are not on this machine are downloaded.
    algorithms : str, Method, estimator, or a sequence of these, default="none/minibatch_kmeans"
        A reducer and a clusterer, like "umap/hdbscan"; see `traube.components.REDUCERS` and `CLUSTERERS`. An estimator of
        scikit-learn, like `Birch(n_clusters=10)`, keeps its parameters but for `random_state`, and is called
        "none/own.birch". For parameters of your own, `traube.components.parse_method`; for a clusterer that is to make
        as many clusters as there are classes, `traube.components.register_clusterer`.
    labels : sequence, str or int, optional
        Of texts: the gold label of each, or the name of the table's column.
    seeds : sequence of int, default=(42,)
        Of everything random; an algorithm without randomness is computed once.
    text_column : str or int, optional
        The table's column of texts. By default its only one.
    folder : Path, optional
        Where vectors and reductions are kept between calls, and the results too. By default nothing is kept. Vectors
        that a function makes are computed in each call.
    executor : Executor, optional
        Does the work. By default one is started, which takes seconds, and ended: give several calls one of their own,
        `with make_executor() as executor:` (`traube._pipeline.executors`).
    progress : Progress, optional
        Reports the work as it is done.

    Returns
    -------
    Evaluation
        With tables of scores and clusters. `traube.leaderboard` ranks its models, and `traube.compare` says whether one
        is better than another.

    Raises
    ------
    TypeError
        If an argument is of a type that cannot be used; the message says what to pass.
    TraubeError
        If the task is faulty, a method or the weights cannot be had, two models or two methods have the same name, or a
        clustering fails or makes no sense.

    Examples
    --------
    >>> from traube import evaluate
    >>> texts, labels = ["a cat", "a cat cat", "dogs", "dogs dogs"], ["cat", "cat", "dog", "dog"]
    >>> result = evaluate(texts, ["bow", "tfidf"], "none/kmeans", labels=labels, seeds=[1, 2])
    >>> result
    Evaluation(task 'texts', 2 models, 1 method: best bow with none/kmeans, v_measure/noise_as_cluster 1.000)
    >>> result.scores[result.scores["metric"] == "acc/noise_as_cluster"][["model", "seed", "value"]].values.tolist()
    [['bow', 1, 1.0], ['bow', 2, 1.0], ['tfidf', 1, 1.0], ['tfidf', 2, 1.0]]
    """
    for seed in seeds:
        check_whole(seed, "a seed")
    task, texts = _to_task(task, labels, text_column)
    methods = _parse_methods(algorithms)
    samples, clusters, computed = [], [], list[Cell]()
    with (
        TemporaryDirectory(prefix="traube-") as temporary,
        paths.use_home(folder or Path(temporary)),
        ensure_executor(executor) as work,
    ):
        for model in _to_models(models, task, texts):
            model.fetch()
            of_model = cells(task, model, _OWN, methods=methods, seeds=seeds)
            scores, assignments = evaluate_cells(task, model, of_model, folder or Path(temporary), work, progress)
            if long := measure_long_texts(model, task.texts):
                warnings.warn(long.describe(model.name), stacklevel=2)
            samples.append(scores)
            clusters.append(assignments)
            computed += of_model
    together = (pd.concat(tables, ignore_index=True) for tables in (samples, clusters))
    return Evaluation(task.card, task.data_version, tuple(computed), *together)


def _to_task(given: Any, labels: Any, text_column: str | int | None) -> tuple[Task, Sequence[str]]:
    """Return the task that somebody passed, or that of their texts, and the texts as they were given."""
    if not isinstance(given, Task):
        table = to_frame(given)
        given = given if table is None else table  # read once: a stream has no second time
        texts = read_texts(given, "evaluate", text_column, labels).values
        return make_task(texts, None if labels is None else read_labels(labels, "evaluate", given)), texts
    if labels is not None or text_column is not None:
        raise TypeError("evaluate: a task has its labels and texts: pass labels and text_column with texts only")
    return given, given.texts


def _parse_methods(algorithms: Any) -> list[Method]:
    alone = isinstance(algorithms, str | Method) or not isinstance(algorithms, Iterable)
    methods = [_to_method(algorithm) for algorithm in ([algorithms] if alone else algorithms)]
    _refuse_twins("methods", [method.name for method in dict.fromkeys(methods)], "evaluate them one after the other")
    return methods


def _refuse_twins(kind: str, names: Iterable[str], advice: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise Conflict(f"two {kind} are called '{name}': {advice}")


def _to_method(algorithm: Any) -> Method:
    """Return a method as such, by its name, or of an estimator, which is registered under its class's name."""
    if isinstance(algorithm, Method):
        return algorithm
    if isinstance(algorithm, str):
        return parse_method(algorithm)
    kind: Any = type(algorithm)
    if isinstance(algorithm, type) or not hasattr(algorithm, "fit_predict") or not hasattr(algorithm, "get_params"):
        raise TypeError(
            f'evaluate: algorithm is of type {kind.__name__}: pass a name, like "umap/hdbscan", or an estimator of '
            "scikit-learn with fit_predict, like Birch(n_clusters=10)"
        )
    params = algorithm.get_params(deep=False)
    params.pop("random_state", None)
    # the number of clusters is no parameter of a component: it is the one that this one is built with
    number = {"n_clusters": params.pop("n_clusters")} if "n_clusters" in params else {}
    component = register_clusterer(
        f"own.{kind.__name__.lower()}",
        partial(kind, **number),
        params,
        n_clusters="found",
        finds_k=not number,
        version=str(number.get("n_clusters", 1)),
        replace=True,
    )
    return parse_method(f"none/{component.name}")


def _to_models(given: Any, task: Task, texts: Sequence[str]) -> list[Model]:
    """Return the models that somebody passed: one, a list, or a dict from names."""
    several = given if isinstance(given, list | tuple) else [given]
    models = []
    for name, model in given.items() if isinstance(given, Mapping) else ((None, model) for model in several):
        if hasattr(model, "shape"):
            model = wrap_embeddings(texts, read_embeddings(model, "evaluate", len(texts)), name or "embeddings")
        elif isinstance(model, str) and model == AUTO:
            model = choose_model(languages_of(task)).name
        models.append(to_model(model, name))
    if not models:
        raise TypeError("evaluate: there are no models: pass one, a list, or a dict from names to models")
    _refuse_twins("models", (model.name for model in models), "pass a dict that names them")
    return models


def _name_cells(table: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """Return a table with model, method and seed in place of the cell's id, in the order of the cells."""
    about = pd.DataFrame(
        {
            "cell_id": [cell.cell_id for cell in cells],
            "model": [cell.model for cell in cells],
            "method": [cell.method.name for cell in cells],
            "seed": pd.array([cell.seed for cell in cells], dtype="Int64"),
        }
    )
    named = about.merge(table, on="cell_id").drop(columns="cell_id")
    return named[list(dict.fromkeys(["model", "method", "seed", "split", "level", *named]))]


def evaluate_cells(
    task: Task,
    model: Model,
    cells: Sequence[Cell],
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Embed, cluster and score cells from `traube._pipeline.plan.cells`; folder and executor as of `evaluate`.

    Returns
    -------
    scores : DataFrame
        Columns cell_id, split, level, metric, value and replicates (see `traube._pipeline.score`).
    assignments : DataFrame
        Columns cell_id, split, level, item and cluster.

    Raises
    ------
    TraubeError
        If the task is faulty (Task.validate), there are no cells, or a cell fails or is unsupported.
    """
    if not cells:
        raise TooFew(f"task '{task.name}': there are no cells to evaluate")
    task.validate()
    with _open_workbench(task, folder, executor) as workbench:
        plan = Plan.of_cells(model, cells)
        for encoded in encode(plan, workbench, progress):
            encoded.require()
        clustered = (event.result() for event in cluster(plan, workbench, progress))
        assignments = [done.assignments.assign(cell_id=done.cell.cell_id) for done in clustered]
        scores = [event.result().scores for event in score(plan.after(cells), workbench, progress)]
    return pd.concat(scores, ignore_index=True), pd.concat(assignments, ignore_index=True)


def evaluate_pairs(
    task: Task,
    model: Model,
    *,
    subset: str = "test",
    comparison: Comparison | None = None,
    history: bool = False,
    folder: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Correlate a model's similarities with the gold scores of pairs.

    Parameters
    ----------
    task : Task
        A pair task.
    model : Model
        Compares the texts.
    subset : {"test", "validation", "train"}, default="test"
        The pairs that are compared.
    comparison : str, optional
        By default the model's own, or the cosine.
    history : bool, default=False
        Whether the turns before are joined to both texts.
    folder : Path, optional
        As of `evaluate`.
    executor : Executor, optional
        As of `evaluate`.
    progress : Progress, optional
        As of `evaluate`.

    Returns
    -------
    DataFrame
        Columns group, value, pairs, dialogues, pearson, pearson_low, pearson_high, spearman, spearman_low, spearman_high; the
        first row is of all pairs, then each value of the card's groups.

    Raises
    ------
    TraubeError
        If the subset has no pairs, history is requested and there is none, the comparison does not go
        with the model, or a text cannot be encoded.

    Examples
    --------
    >>> import pandas as pd
    >>> from traube import evaluate_pairs, load_model
    >>> from traube.tasks import PairCard, make_pairs
    >>> rows = [("a loaf", "a loaf", 1.0), ("a loaf", "a small loaf", 0.7), ("a loaf", "the ship", 0.0)]
    >>> task = make_pairs(PairCard(name="foods"), pd.DataFrame(rows, columns=["text_a", "text_b", "score"]))
    >>> evaluate_pairs(task, load_model("tfidf"))[["group", "pairs", "spearman"]]
      group  pairs  spearman
    0   all      3       1.0
    """
    if history and not has_history(task.rows):
        raise Missing(f"task '{task.name}': its pairs have no history")
    model.fetch()
    cells = make_pair_cells(Manifest.of(task), model, [comparison or list_comparisons(model)[0]], subset)
    with _open_workbench(task, folder, executor) as workbench:
        table = score_missing([c for c in cells if c.method.has_history == history], model, workbench, progress)
    return table.drop(columns=["task", "model", "comparison", "history", "subset"])


def score_missing(
    cells: Sequence[PairCell], model: Model, workbench: Workbench, progress: Progress = SILENT
) -> pd.DataFrame:
    """Compute the missing cells of a pair task and a model, and return the scores of all (`read_pair_scores`)."""
    task, storage = cells[0].task, workbench.storage
    with workbench.hold(task, model.name, cells[0].stage) as held:
        plan = Plan.of_cells(model, cells, storage.find_finished(task, cells[0].scoring_version))
        for _ in score(plan, held, progress):
            pass
    return read_pair_scores(storage, [cell.cell_id for cell in cells])


@contextmanager
def _open_workbench(task: Task, folder: Path | None, executor: Executor | None) -> Iterator[Workbench]:
    """Lend a workbench for one task, in a temporary folder where none is named."""
    with TemporaryDirectory(prefix="traube-") as temporary, ensure_executor(executor) as work:
        yield replace(Workbench.at(folder or Path(temporary), work), given={task.name: Given(task)})
