"""QS3M's measurements: how well each way of comparing passages tells and groups a page's subtopics (AUC and ARI).

A page is a test split of a task with queries; ARI is of average linkage with the true number of clusters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from traube.components import cluster_by_distance
from traube.core.errors import TraubeError
from traube.core.hashing import digest
from traube.core.versions import versions
from traube.metrics.pairs import auc, page_auc
from traube.models import Model, model_of
from traube.papers.context import Context
from traube.pipeline.queries import SEPARATOR, query_first
from traube.storage import Corrupt, write_table
from traube.tasks.pairs import balanced_pairs
from traube.tasks.task import Split, Task

PAGES = "pages"  # kind of the artifact: scores of pages
TRAINER = "qs3m"
REFERENCE = "SBERT euclid"
METRICS = ("auc_balanced", "auc_all", "ari")
LEXICAL = {"jaccard": "Jaccard", "lda": "Topic model", "lda_inverted": "Topic model, inverted"}
QUERIES = {"text": "Title", "passages": "Passages", "none": "no-query"}
NETWORKS = {"qs3m": "QS3M", "qss": "QSS", "attention": "attn-QS3M"}
# of all passages of a page, the space is the same for every query: what the query adds is the
# difference of the two
SPACES: dict[str, dict[str, float]] = {"Query's space": {}, "Page's space": {"share": 1.0}}
FOLD = "fold_"
VERSION = "1"  # of what is measured here; raise it when it changes

Distances = Callable[[int, Split], np.ndarray]  # of a page's number and the page


@dataclass(frozen=True)
class Way:
    """A way of comparing passages.

    Attributes
    ----------
    method : its name in the paper's tables
    base : the encoder's name; empty for what has none
    recipe : digest of one that is not the trainer's own
    made_of : what the distances follow from, besides the task and this module's code
    distances : gives what finds the distances between the passages of a page, float [n, n]
    """

    method: str
    base: str
    recipe: str
    made_of: list[Any]
    distances: Callable[[], Distances]


def trained(context: Context, task: Task) -> dict[tuple[str, str, str], dict[str, list[str]]]:
    """The similarities that were trained on a task: by method, base and recipe (as in `Way`) the checkpoints of each split
    set, of several seeds.
    """
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for name, record in context.trainings(TRAINER):
        config = record.get("config", {})
        if record.get("task") != task.name or record.get("data_version") != task.data_version:
            continue
        _, mark, digest_and_seed = name.partition(".x")  # of a recipe that is not the trainer's own
        method = f"{NETWORKS[config['network']]}-{QUERIES[config['query']]}"
        key = method, str(record["base"]), digest_and_seed[:6] if mark else ""
        of_set = groups.setdefault(key, {}).setdefault(str(config.get("split_set", "default")), [])
        of_set.append(f"{name.removesuffix('-last')}-best")
    return dict(sorted(groups.items()))


def split_sets(task: Task) -> list[str]:
    """The split sets whose test pages make up a task's pages: its folds, or the usual one."""
    names = sorted(task.splits["split_set"].unique())
    folds = [name for name in names if name.startswith(FOLD)]
    is_whole = "fold_1" in folds  # where the first fold is the usual split set, it has no other name
    return folds if is_whole else ["default", *folds]


def page_scores(context: Context, task: Task) -> pd.DataFrame:
    """What each way makes of each test page of a task.

    Returns
    -------
    DataFrame method, base, recipe, fold, page, auc_balanced, auc_all, ari; the scores of several seeds are means
    """
    every = trained(context, task)
    tables = []
    for fold in split_sets(task):
        splits = [split for split in task.test_splits(fold) if split.labels is not None]
        ways = _ways(context, task, splits, {key: of_set[fold] for key, of_set in every.items() if fold in of_set})
        tables += [_kept(context, task, fold, way, splits).assign(fold=fold) for way in ways]
    if not tables:
        return pd.DataFrame(columns=["page", *METRICS, "method", "base", "recipe", "fold"])
    keys = ["method", "base", "recipe", "fold", "page"]
    return pd.concat(tables, ignore_index=True).groupby(keys, sort=False, as_index=False)[list(METRICS)].mean()


def _ways(
    context: Context, task: Task, splits: Sequence[Split], every: Mapping[tuple[str, str, str], list[str]]
) -> Iterator[Way]:
    """The ways of comparing that there are: baselines are measured where something is trained."""
    for base in dict.fromkeys(base for _, base, _ in every):
        try:
            model = context.model(base, None)
        except TraubeError as error:  # what was trained over it holds a copy of it
            context.warn(f"{task.name}: {error}")
        else:
            yield from _of_encoder(context, task, splits, base, model)
    for key, checkpoints in every.items():
        for name in checkpoints:
            try:
                yield _own(context, task, *key, context.model(name, None))
            except TraubeError as error:
                context.warn(f"{task.name}: {error}")
    if every:
        for name, method in LEXICAL.items():
            yield _own(context, task, method, "", "", context.model(name, None))
        yield _by_metric(context, task, "TFIDF cosine", "", context.model("tfidf_all", None), "cosine")


def _of_encoder(context: Context, task: Task, splits: Sequence[Split], base: str, model: Model) -> Iterator[Way]:
    """An encoder's own distances, and the rivals that need no training."""
    yield _by_metric(context, task, REFERENCE, base, model, "euclidean")
    yield _by_metric(context, task, "SBERT cosine", base, model, "cosine")
    for method, share in SPACES.items():
        card = model.card.model_copy(update={"similarity": "query_space", **share})
        yield _own(context, task, method, base, "", model_of(card))

    def distances_with_query() -> Distances:
        together = query_first(context.workbench, task, splits, model, context.progress)
        return lambda number, _: _pairwise(together[number].load(), "cosine")

    yield Way("Query first", base, "", [_identity(model), SEPARATOR], distances_with_query)


def _own(context: Context, task: Task, method: str, base: str, recipe: str, model: Model) -> Way:
    """A model that has a similarity of its own."""
    return Way(method, base, recipe, [_identity(model)], lambda: by_model(context, task, model))


def _identity(model: Model) -> list[Any]:
    return [model.fingerprint, dict(model.numerics)]


def by_model(context: Context, task: Task, model: Model) -> Distances:
    """The distances of a model that has a similarity of its own."""
    similarity = model.similarity
    assert similarity is not None
    vectors = context.vectors(task, model)

    def distances(_: int, split: Split) -> np.ndarray:
        text: Any = None
        if split.query is not None:
            text = vectors.subset(np.array([split.query])).load()
            text = np.asarray(text.toarray() if hasattr(text, "toarray") else text)[0]
        return similarity.distances(vectors.subset(split.rows).load(), text)

    return distances


def _by_metric(context: Context, task: Task, method: str, base: str, model: Model, metric: str) -> Way:
    def distances() -> Distances:
        vectors = context.vectors(task, model)
        return lambda _, split: _pairwise(vectors.subset(split.rows).load(), metric)

    return Way(method, base, "", [_identity(model), metric], distances)


def _pairwise(vectors: Any, metric: str) -> np.ndarray:
    from sklearn.metrics import pairwise_distances

    return np.asarray(pairwise_distances(vectors, metric=metric))


def _kept(context: Context, task: Task, fold: str, way: Way, splits: Sequence[Split]) -> pd.DataFrame:
    """What a way makes of some pages; measured once for all tables, figures and publications."""
    made_of = [VERSION, task.data_version, fold, way.made_of, versions(("scikit-learn", "scipy"))]
    storage, key = context.storage, digest(made_of)
    for row in storage.read_rows("artifact", kind=PAGES, key=key):
        with suppress(Corrupt):
            scores = storage.read_table(row["files"]["scores"])
            break
    else:
        distances = way.distances()
        rows = [(split.split, *scores_of(distances(i, split), split)) for i, split in enumerate(splits)]
        scores = pd.DataFrame(rows, columns=["page", *METRICS])
        storage.save("artifact", {"kind": PAGES, "key": key}, {"scores": write_table(scores)})
    return scores.assign(method=way.method, base=way.base, recipe=way.recipe)


def scores_of(distances: np.ndarray, split: Split) -> tuple[float, float, float]:
    """AUC of balanced and of all pairs, and ARI of average linkage with the true number of clusters.

    Parameters
    ----------
    distances : [n, n], between the items of the split
    """
    from sklearn.metrics import adjusted_rand_score

    labels = split.labels
    assert labels is not None
    pairs = balanced_pairs(split)
    balanced = auc(-distances[pairs.first, pairs.second], pairs.same)
    clusters = cluster_by_distance("agglomerative_average", None, distances, split.classes, None)
    return balanced, page_auc(-distances, labels), float(adjusted_rand_score(labels, clusters))
