"""The data model: a task is a corpus of unique texts and the splits that group them."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field

from traube._core.arrays import Ints
from traube._core.config import Strict
from traube._core.errors import Malformed, TooFew, TraubeError
from traube._core.frames import TEXT
from traube._core.hashing import digest, frame_digest
from traube._core.short_repr import ShortRepr
from traube.metrics import GROUPS, full_name
from traube.tasks._texts import check_whole, read_labels, read_texts, to_frame

# The columns of a table, and their meanings. All are str but `item`.
CORPUS_COLUMNS = {"text_id": "Id of the text, from its hash.", "text": "The text."}
SPLIT_COLUMNS = {
    "split_set": "Splits that are evaluated together; protocols choose one.",
    "split": "Clustering problem that the text is part of.",
    "level": "Column of labels that the text is grouped by.",
    "item": "Number of the row inside its split.",
    "text_id": CORPUS_COLUMNS["text_id"],
    "label": "Gold label; missing where the text has none.",
    "query_id": "Id of the text that is the split's query, if it has one.",
    "part": "Train, validation or test.",
}
SUBSETS = ("train", "validation", "test")
NULLABLE = ("label", "query_id")


def _metric(name: str) -> str:
    try:
        return full_name(name)
    except TraubeError as error:
        raise ValueError(str(error)) from None


def _number_or_range(value: object) -> object:
    numbers = value if isinstance(value, list | tuple) else [value]
    is_one = value is None or (len(numbers) in (1, 2) and all(type(n) is int and n >= 1 for n in numbers))
    if not is_one:
        raise ValueError("expected a number from 1 on, or the fewest and most, like [39, 74]")
    return value


# What is checked of every task; a card may raise any of them to blocking.
CheckName = Literal[
    "texts_present", "text_ids_unique", "texts_unique", "text_lengths", "no_mojibake", "items_valid", "labels_present",
    "two_classes", "declared_sizes", "texts_once", "one_label", "class_sizes", "parts_disjoint",
    "pairs_valid", "scores_in_scale", "scores_vary", "pairs_once", "one_score", "pairs_disjoint",
]  # fmt: skip
MetricName = Annotated[str, AfterValidator(_metric)]


class Stage(StrEnum):
    """A stage of the graph, by the name of its asset, in their order."""

    EMBEDDINGS = "embeddings"
    CLUSTERINGS = "clusterings"
    DEEP_CLUSTERINGS = "deep_clusterings"
    SCORES = "scores"
    PAIR_SCORES = "pair_scores"


CLUSTERING_STAGES = (Stage.CLUSTERINGS, Stage.DEEP_CLUSTERINGS)


@dataclass(frozen=True)
class TaskType:
    """A type of tasks.

    Attributes
    ----------
    name : str
        Name in the storage.
    table : {"splits", "pairs"}
        Table that a task has besides its corpus; also the asset that makes it, and its checks.
    stages : tuple of Stage
        Stages that a model passes.
    make_splits : callable
        Returns the scored items of a task, a table in the form of splits.
    command : str
        Command of `traube` that scores such tasks.

    Examples
    --------
    >>> from traube.tasks import CLUSTERING
    >>> CLUSTERING.name, CLUSTERING.table
    ('clustering', 'splits')
    """

    name: str
    table: Literal["splits", "pairs"]
    stages: tuple[Stage, ...]
    make_splits: "Callable[[Task], pd.DataFrame]"
    command: str = "run"


CLUSTERING = TaskType(
    "clustering",
    "splits",
    (Stage.EMBEDDINGS, *CLUSTERING_STAGES, Stage.SCORES),
    lambda task: task.rows,
)


class Declared(Strict):
    """Expected shape of a task's splits, from its card; a check compares the splits with it."""

    splits: Annotated[int | tuple[int, int] | None, BeforeValidator(_number_or_range)] = Field(
        None, description="number of test splits; or the fewest and most of a split set"
    )
    rows: tuple[int, int] | None = Field(None, description="fewest and most rows of a test split")
    classes: tuple[int, int] | None = Field(None, description="fewest and most classes of a test split")


class TaskCard(Strict):
    """Facts that people must know of a task before they quote a number of it."""

    type: ClassVar[TaskType] = CLUSTERING

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$")
    family: str = Field("own", pattern=r"^[a-z0-9_]+$", description="benchmark family")
    description: str = ""
    language: str = "und"
    license: str = "unknown"
    citation: str = Field("", description="keys of references.bib, or free text")
    source: str = Field("", description="where the raw data comes from")
    mteb: str = Field(
        "",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9_.+-]*)?$",
        description="the task's name in MTEB, where it is one of MTEB's",
    )
    main_metric: MetricName = "v_measure/noise_as_cluster"
    declared: Declared = Declared()
    clusters: int | None = Field(None, ge=2, description="number of clusters for a task without labels")
    blocking: tuple[CheckName, ...] = Field((), description="warnings that shall stop the task, by check name")

    def plain(self) -> "TaskCard":
        """Return the fields that every task has, of a card that has more."""
        return TaskCard.model_validate(self.model_dump(include=set(TaskCard.model_fields)))


@dataclass(frozen=True, repr=False)
class Split(ShortRepr):
    """One clustering problem: the texts to group, their gold labels and, where there is one, the query they answer.

    A split may carry several levels of labels; a clusterer is run on (split, level).
    """

    split: str
    level: str
    items: Ints  # the rows' numbers in the split, [n]
    rows: Ints  # the rows' positions in the corpus, [n]
    labels: NDArray[np.object_] | None  # [n] of str; None where the split has no labels
    query: int | None = None  # the position in the corpus of the text of the split's query

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.rows)

    @property
    def classes(self) -> int | None:
        """Number of gold classes; None without labels."""
        return None if self.labels is None else len(set(self.labels))


def text_id(text: str) -> str:
    """Return the id of a text: 16 hexadecimal characters of its BLAKE2b hash."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def get_groups(text_ids: Iterable[str]) -> Ints:
    """Return the jackknife group of each text, int64 [n].

    The group is the id modulo `GROUPS`, the same in all splits, models and nightly runs.
    """
    return np.array([int(name, 16) % GROUPS for name in text_ids], dtype=np.int64)


@dataclass(frozen=True, repr=False)
class Task:
    """A named benchmark data set.

    Its tables do not change: their versions are hashed once.
    """

    card: TaskCard
    corpus: pd.DataFrame  # of `CORPUS_COLUMNS`
    rows: pd.DataFrame  # of its type: splits (`SPLIT_COLUMNS`), or pairs (`traube.tasks._scored_pairs`)

    def __repr__(self) -> str:
        counts = [(len(self.corpus), "text"), (len(self.rows), "row")]
        if {"split", "label"} <= set(self.rows):
            counts[1:] = [(self.rows["split"].nunique(), "split"), (self.rows["label"].nunique(), "class")]
        parts = (f"{n:,} {noun}{'' if n == 1 else 'es' if noun == 'class' else 's'}" for n, noun in counts)
        return f"Task('{self.name}', {', '.join(parts)})"

    @property
    def splits(self) -> pd.DataFrame:
        """The rows of a task of clustering."""
        return self.rows

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.card.name

    @property
    def texts(self) -> list[str]:
        """The unique texts, in corpus order."""
        return self.corpus["text"].tolist()

    def texts_at(self, rows: NDArray[np.integer]) -> list[str]:
        """Return some of the texts, by their positions in the corpus, in the order given."""
        return self.corpus["text"].take(rows).tolist()

    @property
    def scored(self) -> Ints:
        """Return the positions in the corpus of the texts and queries of test splits, ascending."""
        tested = self.splits[self.splits["part"] == "test"]
        needed = pd.unique(pd.concat([tested["text_id"], tested["query_id"].dropna()]))
        at = pd.Index(self.corpus["text_id"]).get_indexer(pd.Index(needed))  # isin is slow on strings
        return np.unique(at[at >= 0]).astype(np.int64)

    @cached_property
    def corpus_version(self) -> str:
        """Content hash of the corpus."""
        return frame_digest(self.corpus)

    @cached_property
    def rows_version(self) -> str:
        """Content hash of the rows."""
        return frame_digest(self.rows)

    @property
    def data_version(self) -> str:
        """Content hash of the corpus and the rows."""
        return data_version(self.corpus_version, self.rows_version)

    @property
    def is_labeled(self) -> bool:
        """Return whether any item has a label."""
        return bool(self.splits["label"].notna().any())

    def test_splits(self, split_set: str = "default") -> Iterator[Split]:
        """Yield the clustering problems that the engine scores, in table order.

        Raises
        ------
        TraubeError
            If a text or a query is not in the corpus, or the rows of a split name more than one query; says which.
        """
        table = self.splits[(self.splits["split_set"] == split_set) & (self.splits["part"] == "test")]
        corpus = pd.Index(self.corpus["text_id"])
        rows = _positions(corpus, table["text_id"], f"{self.name}: splits: text_id")
        codes, query_ids = pd.factorize(table["query_id"])  # -1 where there is none
        queries = _positions(corpus, query_ids, f"{self.name}: splits: query_id")
        items = table["item"].to_numpy(np.int64)
        labels = table["label"].to_numpy(dtype=object, na_value=None)
        for (split, level), at in table.groupby(["split", "level"], sort=False).indices.items():
            split_queries = queries[np.unique(codes[at][codes[at] >= 0])]
            if len(split_queries) > 1:
                named = ", ".join(f"'{self.corpus['text'].iloc[i][:60]}'" for i in sorted(split_queries)[:3])
                more = ", ..." if len(split_queries) > 3 else ""
                raise Malformed(
                    f"{self.name}: split '{split}' ({level}): its rows name {len(split_queries)} queries ({named}{more}); "
                    "a split has one at most"
                )
            known = None if all(label is None for label in labels[at]) else labels[at]
            query = int(split_queries[0]) if len(split_queries) else None
            yield Split(str(split), str(level), items[at], rows[at], known, query)

    def validate(self, source: str = "") -> "Task":
        """Refuse a task whose numbers would be wrong.

        Raises
        ------
        TraubeError
            Naming the table, the row and the column of the first fault: empty corpus or text, null label, duplicate
            item, text_id that is not in the corpus, or a test split with fewer than two classes.
        """
        where = source or self.name
        corpus, splits = f"{where}: corpus", f"{where}: splits"
        for place, frame, columns in ((corpus, self.corpus, CORPUS_COLUMNS), (splits, self.splits, SPLIT_COLUMNS)):
            if absent := [column for column in columns if column not in frame.columns]:
                there = ", ".join(frame.columns)
                raise Malformed(f"{place}: column {', '.join(absent)} is missing (there are: {there})")
            for column in columns:
                if column not in NULLABLE:
                    _refuse(frame[column].isna(), place, column, "is null")
        if self.corpus.empty:
            raise TooFew(f"{corpus}: there are no texts")
        _refuse(~self.corpus["text"].map(lambda t: isinstance(t, str)), corpus, "text", "is no text")
        _refuse(self.corpus["text"].str.strip() == "", corpus, "text", "is empty")
        _refuse(self.corpus["text_id"].duplicated(), corpus, "text_id", "occurs twice")
        split = ["split_set", "split", "level"]
        _refuse(self.splits.duplicated([*split, "item"]), splits, "item", "occurs twice in its split")
        at = pd.Index(self.corpus["text_id"]).get_indexer(pd.Index(self.splits["text_id"]))
        _refuse(pd.Series(at < 0), splits, "text_id", "is not in the corpus")
        _refuse(~self.splits["part"].isin(SUBSETS), splits, "part", f"is none of {', '.join(SUBSETS)}")
        if not self.is_labeled:
            return self
        _refuse(self.splits["label"].isna(), splits, "label", "is missing")
        tested = self.splits[self.splits["part"] == "test"]
        classes = tested.groupby(split, sort=False)["label"].nunique()
        for _, split, level in classes.index[classes < 2]:
            raise TooFew(f"{where}: split '{split}' ({level}): there is only one class; clustering needs two")
        return self


def _positions(corpus: pd.Index, text_ids: Iterable[str], where: str) -> Ints:
    """Return the positions of some texts in the corpus, int64 [n]."""
    ids = pd.Index(text_ids)
    positions = corpus.get_indexer(ids)
    if (positions < 0).any():
        raise Malformed(f"{where} '{ids[int(positions.argmin())]}' is not in the corpus")
    return positions.astype(np.int64)


def data_version(corpus_version: str, rows_version: str) -> str:
    """Return a task's data version, from the content hashes of its two tables."""
    return digest([corpus_version, rows_version])


def _refuse(faulty: pd.Series, where: str, column: str, fault: str) -> None:
    if faulty.any():
        row = int(np.flatnonzero(faulty.to_numpy())[0])
        more = f" ({int(faulty.sum())} such rows)" if faulty.sum() > 1 else ""
        raise Malformed(f"{where}: row {row}, column {column}: {fault}{more}")


def index_texts(records: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split records into the corpus of unique texts and the records that point into it.

    Parameters
    ----------
    records : DataFrame
        One row per item of the raw data, with a column `text` and perhaps a column `query`, the text of the query
        that the item answers.

    Returns
    -------
    corpus : DataFrame (text_id, text), in order of first occurrence
        Queries come last.
    indexed : DataFrame
        The records with `text_id` in place of `text` and `query_id` in place of `query`.
    """
    texts = records["text"].tolist()
    indexed = records.drop(columns="text").assign(text_id=[text_id(t) for t in texts])
    if "query" in records:
        queries = records["query"]
        indexed = indexed.drop(columns="query").assign(query_id=queries.map(text_id, na_action="ignore"))
        texts += queries.dropna().tolist()
    corpus = pd.DataFrame({"text_id": [text_id(t) for t in texts], "text": texts})
    return corpus.drop_duplicates("text_id", ignore_index=True), indexed


Subset = Literal["train", "validation", "test"]


def names_texts(labels: Sequence[str | None]) -> bool:
    """Return whether labels name texts, as ids do, and no groups of texts.

    They do if there are 20 or more, and most of them occur once.
    """
    return len(labels) >= 20 and len(set(labels)) > 0.5 * len(labels)


def make_split(
    records: pd.DataFrame,
    split: str,
    level: str,
    *,
    label: str | None = None,
    subset: Subset | pd.Series = "test",
    split_set: str = "default",
) -> pd.DataFrame:
    """Return rows of the splits table for one (split, level), from records with `text_id`.

    Parameters
    ----------
    label : str, optional
        The records' column that holds the gold labels, or None for a split without labels.
    """
    n = len(records)
    return pd.DataFrame(
        {
            "split_set": split_set,
            "split": split,
            "level": level,
            "item": np.arange(n, dtype=np.int64),
            "text_id": records["text_id"].to_numpy(),
            "label": records[label].to_numpy() if label else pd.array([None] * n, dtype=TEXT),
            "query_id": records["query_id"].to_numpy() if "query_id" in records else pd.array([None] * n, dtype=TEXT),
            "part": subset if isinstance(subset, str) else subset.to_numpy(),
        },
        columns=list(SPLIT_COLUMNS),
    )


def make_task(
    texts: Any,
    labels: Any = None,
    *,
    name: str = "texts",
    clusters: int | None = None,
    text_column: str | int | None = None,
) -> Task:
    """Make a task of texts that are at hand: one split called `all`, with one level called `label`.

    Texts that are blank, missing or without a label are left out, and counted by a warning.

    Parameters
    ----------
    texts : sequence of str, ndarray, Series, Arrow column, or DataFrame
        The texts, or a table of any library that has a column of them.
    labels : sequence, str or int, optional
        The gold label of each text, or the name of the table's column. Without them, clusterings are judged by their
        silhouette.
    name : str, default="texts"
        Name of the task.
    clusters : int, optional
        Number of clusters for a task without labels. By default the one with the best silhouette.
    text_column : str or int, optional
        The table's column of texts. By default its only one.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    TypeError
        If texts or labels are of a type that holds none.
    TraubeError
        If there are no texts, more than half are blank or have no label, the labels are not as many as the texts, or
        all are the same.

    Examples
    --------
    >>> task = make_task(["a goal", "a match", "the moon"], ["sport", "sport", "space"])
    >>> [(split.size, split.classes) for split in task.test_splits()]
    [(3, 2)]
    """
    if clusters is not None:
        check_whole(clusters, "clusters")
    table = to_frame(texts)
    texts = texts if table is None else table  # read once: a stream has no second time
    values = read_texts(texts, "make_task", text_column, labels).values
    named = None if labels is None else read_labels(labels, "make_task", texts)
    if named is not None and len(named) != len(values):
        raise Malformed(f"{name}: there are {len(values)} texts and {len(named)} labels")
    is_kept = [bool(text.strip()) and (named is None or named[i] is not None) for i, text in enumerate(values)]
    if left_out := len(values) - sum(is_kept):
        reason = "are blank" if named is None else "are blank or have no label"
        counted = f"{name}: {left_out} of {len(values)} texts {reason}"
        if 2 * left_out > len(values):
            raise Malformed(f"{counted}, such as text {is_kept.index(False)}: more than half; see what was passed")
        warnings.warn(f"{counted}: left out", stacklevel=2)
    records = pd.DataFrame({"text": pd.array(values, dtype="object")})
    if named is not None:
        records["label"] = pd.array(named, dtype="object")
    records = records.iloc[np.flatnonzero(is_kept)].reset_index(drop=True)
    corpus, indexed = index_texts(records)
    label = None if labels is None else "label"
    splits = make_split(indexed, "all", label or "none", label=label)
    return Task(TaskCard(name=name, clusters=clusters), corpus, splits).validate()
