"""QS3M's measurements of each way of comparing passages: how well it tells and groups a page's subtopics (AUC and ARI).

A page is a test split of a task with queries; ARI is of average linkage with the true number of clusters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube._core import paths
from traube._core.disk import read_json
from traube._core.errors import Corrupt, TraubeError
from traube._core.hashing import digest
from traube._core.versions import get_versions
from traube._reports.papers.context import Context
from traube._storage import ArtifactRow, write_table
from traube.components import DistanceView, fit, parse_method
from traube.models import Model, model_of
from traube.models.lexical import FittedWords, Lexical
from traube.models.pairwise import Compared
from traube.papers.qs3m.auc import auc, page_auc
from traube.papers.qs3m.pairs import balanced_pairs
from traube.papers.qs3m.queries import SEPARATOR, embed_with_query
from traube.tasks.sections import LEVELS
from traube.tasks.task import Split, Task

PAGES = "pages"  # kind of the artifact: scores of pages
TRAINER = "qs3m"
REFERENCE = "SBERT euclid"
METRICS = ("auc_balanced", "auc_all", "ari")
TOPICS = {"lda": "Topic model", "lda_inverted": "Topic model, inverted"}
DESCRIPTION = "description"  # the split set that has the pages of `default`, with descriptions as queries
QUERIES = {"text": "Title", DESCRIPTION: "Description", "passages": "Passages", "none": "no-query"}
NETWORKS = {"qs3m": "QS3M", "qss": "QSS", "attention": "attn-QS3M"}
# of all passages of a page, the space is the same for every query: what the query adds is the
# difference of the two
SPACES: dict[str, dict[str, float]] = {"Query's space": {}, "Page's space": {"share": 1.0}}
PRE_TRAINED = ("ForMaskedLM", "ForPreTraining")  # networks of language models, in their config.json
FOLD = "fold_"
KEYS = ["method", "base", "recipe", "trained_on"]  # what tells ways of comparing apart
VERSION = "1"  # of what is measured here; raise it when it changes

Distances = Callable[[int, Split], np.ndarray]  # of a page's number and the page
Key = tuple[str, str, str, str]  # values of `KEYS`


@dataclass(frozen=True)
class Way:
    """A way of comparing passages."""

    # its name in the paper's tables, the encoder's name, the digest of a recipe that is not the trainer's own, and the
    # task whose labels it learned from; empty for what has none
    key: Key
    made_of: list[Any]  # what the distances follow from, besides the task and this module's code
    distances: Callable[[], Distances]  # gives what finds the distances between the passages of a page, float [n, n]


def find_trained(context: Context, task: Task) -> dict[Key, dict[str, list[tuple[str, str]]]]:
    """Return the similarities that are measured on a task.

    Returns
    -------
    dict
        By the values of `KEYS` the checkpoints of each fold, of several seeds: their names, and the split sets whose
        queries they compare for.
    """
    # both levels, for which the paper has one similarity; on CAR-B, where nothing is trained, what is trained on CAR-A
    data, _, level = task.name.rpartition("_")
    sources = [f"{data.removesuffix('_b')}_{each}" for each in LEVELS] if level in LEVELS else [task.name]
    records = [(name, record) for name, record in context.trainings(TRAINER) if record.get("task") in sources]
    others = context.tasks({str(record["task"]) for _, record in records} - {task.name})
    learned = {source.name: source for source in (task, *others)}
    split_sets_here = set(task.splits["split_set"])
    groups: dict[Key, dict[str, list[tuple[str, str]]]] = {}
    for name, record in records:
        config, source = record.get("config", {}), learned.get(record["task"])
        split_set = str(config.get("split_set", "default"))
        if source is None or record.get("data_version") != source.data_version or split_set not in split_sets_here:
            continue
        if _has_seen(source, task, split_set):
            context.warn(f"{task.name}: {name} is left out: it learned from pages that it would be tested on")
            continue
        is_described = split_set == DESCRIPTION and config["query"] == "text"
        query = QUERIES[DESCRIPTION if is_described else config["query"]]
        raw = "rawBERT-" if _has_raw_encoder(paths.checkpoints() / name) else ""
        _, mark, digest_and_seed = name.partition(".x")  # of a recipe that is not the trainer's own
        recipe = digest_and_seed[:6] if mark else ""
        key = f"{NETWORKS[config['network']]}-{raw}{query}", str(record["base"]), recipe, source.name
        of_fold = groups.setdefault(key, {}).setdefault("default" if split_set == DESCRIPTION else split_set, [])
        of_fold.append((f"{name.removesuffix('-last')}-best", split_set))
    return dict(sorted(groups.items()))


def _has_seen(source: Task, task: Task, split_set: str) -> bool:
    """Return whether the training splits of a task are test pages of another."""
    if source is task:
        return False
    rows, tested = source.splits, [page.split for page in task.test_splits(split_set)]
    learned = rows.loc[(rows["split_set"] == split_set) & (rows["part"] != "test"), "split"]
    return bool(learned.isin(tested).any())


def _has_raw_encoder(checkpoint: Path) -> bool:
    """Return whether a checkpoint's encoder is a language model that was trained no further, the paper's raw BERT.

    An encoder that was trained for sentences has sentence-transformers' modules.
    """
    networks = str(read_json(checkpoint / "config.json").get("architectures"))
    return not (checkpoint / "modules.json").exists() and any(name in networks for name in PRE_TRAINED)


def split_sets(task: Task) -> list[str]:
    """Return the split sets whose test pages make up a task's pages: its folds, or the usual one."""
    names = sorted(task.splits["split_set"].unique())
    folds = [name for name in names if name.startswith(FOLD)]
    is_whole = "fold_1" in folds  # where the first fold is the usual split set, it has no other name
    return folds if is_whole else ["default", *folds]


def page_scores(context: Context, task: Task) -> pd.DataFrame:
    """Score each way on each test page of a task: `KEYS`, fold, page, `METRICS`; of several seeds, the means."""
    every = find_trained(context, task)
    tables = []
    for fold in split_sets(task):
        splits = [split for split in task.test_splits(fold) if split.labels is not None]
        of_fold = {key: checkpoints[fold] for key, checkpoints in every.items() if fold in checkpoints}
        ways = _list_ways(context, task, fold, splits, of_fold)
        tables += [_measure_once(context, task, fold, way, splits).assign(fold=fold) for way in ways]
    if not tables:
        return pd.DataFrame(columns=["page", *METRICS, *KEYS, "fold"])
    every_page = pd.concat(tables, ignore_index=True).groupby([*KEYS, "fold", "page"], sort=False, as_index=False)
    return every_page[list(METRICS)].mean()


def _list_ways(
    context: Context, task: Task, fold: str, splits: Sequence[Split], every: Mapping[Key, list[tuple[str, str]]]
) -> Iterator[Way]:
    """Yield the ways of comparing that there are: baselines are measured where something is trained."""
    for base in dict.fromkeys(base for _, base, *_ in every):
        try:
            model = context.model(base, None)
        except TraubeError as error:  # what was trained over it holds a copy of it
            context.warn(f"{task.name}: {error}")
        else:
            yield from _list_encoder_ways(context, task, fold, splits, base, model)
    for key, checkpoints in every.items():
        for name, split_set in checkpoints:
            try:
                yield _make_own_way(context, task, split_set, context.model(name, None), key)
            except TraubeError as error:
                context.warn(f"{task.name}: {error}")
    if every:
        yield _make_own_way(context, task, fold, context.model("jaccard", None), ("Jaccard", "", "", ""))
        fit_topics = cache(partial(_fit_topics, context.model("lda", None), task, fold))  # both readings share it
        for name, method in TOPICS.items():
            yield _make_topics_way(task, context.model(name, None), fit_topics, (method, "", "", ""))
        yield _make_metric_way(context, task, "TFIDF cosine", "", context.model("tfidf_all", None), "cosine")


def _list_encoder_ways(
    context: Context, task: Task, fold: str, splits: Sequence[Split], base: str, model: Model
) -> Iterator[Way]:
    """Yield an encoder's own distances, and the rivals that need no training."""
    yield _make_metric_way(context, task, REFERENCE, base, model, "euclidean")
    yield _make_metric_way(context, task, "SBERT cosine", base, model, "cosine")
    for method, share in SPACES.items():
        card = model.card.model_copy(update={"similarity": "query_space", **share})
        yield _make_own_way(context, task, fold, model_of(card), (method, base, "", ""))

    def distances_with_query() -> Distances:
        together = embed_with_query(context.workbench, task, splits, model, context.progress)
        return lambda number, _: _compute_distances(together[number].load(), "cosine")

    yield Way(("Query first", base, "", ""), [_identify(model), SEPARATOR], distances_with_query)


def _make_own_way(context: Context, task: Task, split_set: str, model: Model, key: Key) -> Way:
    """Return the way of a model that has a similarity of its own."""
    made_of = [_identify(model), *([split_set] if split_set == DESCRIPTION else [])]
    return Way(key, made_of, lambda: make_distances(context, task, model, split_set))


def _fit_topics(model: Model, task: Task, split_set: str) -> FittedWords:
    """Fit a topic model on what is trained on, as in the paper; on all texts of a task without such."""
    assert isinstance(model, Compared)
    assert isinstance(model.encoder, Lexical)
    rows = task.splits
    learned = rows[(rows["split_set"] == split_set) & (rows["part"] == "train")]
    is_learned = task.corpus["text_id"].isin(learned["text_id"])
    return model.encoder.fit_words(list(task.corpus.loc[is_learned, "text"]) or task.texts)


def _make_topics_way(task: Task, model: Model, fit_topics: Callable[[], FittedWords], key: Key) -> Way:
    def distances() -> Distances:
        topics, similarity = fit_topics(), model.similarity
        assert similarity is not None
        return lambda _, split: similarity.distances(topics.encode(task.texts_at(split.rows)), None)

    return Way(key, [_identify(model), "train"], distances)


def _identify(model: Model) -> list[Any]:
    return [model.fingerprint, dict(model.numerics)]


def make_distances(context: Context, task: Task, model: Model, split_set: str) -> Distances:
    """Return the distances of a model that has a similarity of its own, for a split set's queries."""
    similarity = model.similarity
    assert similarity is not None
    vectors = context.vectors(task, model)
    queries = {page.split: page.query for page in task.test_splits(split_set)}

    def distances(_: int, split: Split) -> np.ndarray:
        text: Any = None
        if (query := queries[split.split]) is not None:
            text = vectors.subset(np.array([query])).load()
            text = np.asarray(text.toarray() if hasattr(text, "toarray") else text)[0]
        return similarity.distances(vectors.subset(split.rows).load(), text)

    return distances


def _make_metric_way(context: Context, task: Task, method: str, base: str, model: Model, metric: str) -> Way:
    def distances() -> Distances:
        vectors = context.vectors(task, model)
        return lambda _, split: _compute_distances(vectors.subset(split.rows).load(), metric)

    return Way((method, base, "", ""), [_identify(model), metric], distances)


def _compute_distances(vectors: Any, metric: str) -> np.ndarray:
    from sklearn.metrics import pairwise_distances

    return np.asarray(pairwise_distances(vectors, metric=metric))


def _measure_once(context: Context, task: Task, fold: str, way: Way, splits: Sequence[Split]) -> pd.DataFrame:
    """Return the scores of a way on some pages; measured once for all tables, figures and publications."""
    made_of = [VERSION, task.data_version, fold, way.made_of, get_versions(("scikit-learn", "scipy"))]
    storage, key = context.storage, digest(made_of)
    for row in storage.read_rows(ArtifactRow, kind=PAGES, key=key):
        with suppress(Corrupt):
            scores = storage.read_table(row.files["scores"])
            break
    else:
        distances = way.distances()
        rows = [(split.split, *score_pages(distances(i, split), split)) for i, split in enumerate(splits)]
        scores = pd.DataFrame(rows, columns=["page", *METRICS])
        storage.save(ArtifactRow(kind=PAGES, key=key), {"scores": write_table(scores)})
    return scores.assign(**dict(zip(KEYS, way.key, strict=True)))


def score_pages(distances: np.ndarray, split: Split) -> tuple[float, float, float]:
    """Return AUC of balanced and of all pairs, and ARI of average linkage with the true number of clusters.

    They are computed from the distances between the items of the split, [n, n].
    """
    from sklearn.metrics import adjusted_rand_score

    labels = split.labels
    assert labels is not None
    pairs = balanced_pairs(split)
    balanced = auc(-distances[pairs.first, pairs.second], pairs.same)
    clusters = fit(parse_method("agglomerative_average"), DistanceView(distances), split.classes).labels
    return balanced, page_auc(-distances, labels), float(adjusted_rand_score(labels, clusters))
