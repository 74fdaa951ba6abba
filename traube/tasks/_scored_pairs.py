"""Pair tasks: pairs of texts with a gold score of their similarity, which a model's similarities should follow.

A pair may have a history, the turns of a dialogue before its texts: then the first text is the dialogue's last turn,
and the second one is compared with it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from typing_extensions import override

from traube._core.arrays import Bools, Ints
from traube._core.config import OneOrMany
from traube._core.errors import Invalid, Malformed, TooFew, Unknown
from traube.tasks._source import Source
from traube.tasks._task import SPLIT_COLUMNS, SUBSETS, Stage, Task, TaskCard, TaskType, text_id

# Columns and their meanings. `pair` is int64, `score` float64, the others are str; so are the columns of the card's groups,
# such as domain, which follow them.
PAIR_COLUMNS = {
    "pair": "Number of the pair.",
    "text_id_a": "Id of the first text, from its hash.",
    "text_id_b": "Id of the second text, from its hash.",
    "score": "Gold score of the pair's similarity.",
    "part": SPLIT_COLUMNS["part"],
    "dialogue": "Dialogue of the pair; pairs of one belong together.",
    "history": "Turns before the pair, one a line.",
}
ALL = "all"  # the group of all pairs
BETWEEN_TURNS = " "  # where a history is joined to a text


def _check_group_names(groups: tuple[str, ...]) -> tuple[str, ...]:
    taken = [name for name in groups if name in (*PAIR_COLUMNS, ALL)]
    if taken or len(set(groups)) < len(groups):
        raise ValueError(f"{', '.join(taken) or 'a column'}: a group's column has a name of its own")
    return groups


def iterate_groups(task: Task) -> Iterator[tuple[str, str, Bools]]:
    """Yield group, value and a mask of its pairs: first of all pairs, then of each value of a group with several."""
    yield ALL, "", np.ones(len(task.rows), dtype=bool)
    for name in _get_card(task).groups:
        values = task.rows[name].to_numpy()
        for value in sorted(set(values)) if len(set(values)) > 1 else ():
            yield name, value, values == value


def make_splits(task: Task) -> pd.DataFrame:
    """Return a split for each value of each group: its split set is the subset, its level the group."""
    tables = []
    for subset in task.rows["part"].unique():
        subset_task = select_pairs(task, subset)
        for group, value, chosen in iterate_groups(subset_task):
            split = {"split_set": subset, "split": value, "level": group, "label": subset_task.rows["dialogue"][chosen]}
            tables.append(pd.DataFrame({**split, "part": "test"}))
    return pd.concat(tables, ignore_index=True)


PAIRS = TaskType("pairs", "pairs", (Stage.EMBEDDINGS, Stage.PAIR_SCORES), make_splits, command="pairs")


class PairCard(TaskCard):
    """Facts that people must know of a pair task before they quote a number of it.

    Examples
    --------
    >>> from traube.tasks import PairCard
    >>> PairCard(name="foods").scale
    (0.0, 1.0)
    """

    type: ClassVar[TaskType] = PAIRS

    family: str = Field("similarity", pattern=r"^[a-z0-9_]+$", description="benchmark family")
    scale: tuple[float, float] = (0.0, 1.0)  # the least and the greatest score
    groups: Annotated[OneOrMany, AfterValidator(_check_group_names)] = ()  # each value is also scored by itself

    @field_validator("clusters", "declared", "main_metric")
    @classmethod
    def _refuse_clustering_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if value != cls.model_fields[str(info.field_name)].default:
            raise ValueError("a pair task has no clusters")
        return value


def _get_card(task: Task) -> PairCard:
    if not isinstance(task.card, PairCard):
        raise Invalid(f"task '{task.name}' is no pair task")
    return task.card


def has_history(pairs: pd.DataFrame) -> bool:
    """Return whether any pair has turns before it."""
    return "history" in pairs and bool((pairs["history"] != "").any())


def select_pairs(task: Task, subset: str) -> Task:
    """Return the pairs of a subset; the corpus stays whole."""
    _get_card(task)
    pairs = task.rows[task.rows["part"] == subset].reset_index(drop=True)
    if pairs.empty:
        there = ", ".join(name for name in SUBSETS if name in set(task.rows["part"]))
        raise TooFew(f"task '{task.name}': no pair is of the subset '{subset}' (there are: {there})")
    return replace(task, rows=pairs)


def locate_texts(task: Task) -> tuple[Ints, Ints]:
    """Return the positions in the corpus of both texts of each pair, int64 [p] each."""
    corpus = pd.Index(task.corpus["text_id"])
    first, second = (corpus.get_indexer(task.rows[name]) for name in ("text_id_a", "text_id_b"))
    if (first < 0).any() or (second < 0).any():
        raise Malformed(f"task '{task.name}': a pair's text is not in the corpus")
    return first.astype(np.int64), second.astype(np.int64)


def join_histories(task: Task) -> Task:
    """Return the same pairs with the history joined to both texts, in front."""
    texts, pairs = task.corpus.set_index("text_id")["text"], task.rows
    before = pairs["history"].str.split("\n").str.join(BETWEEN_TURNS)
    joined = {side: (before + BETWEEN_TURNS + pairs[f"text_id_{side}"].map(texts)).str.strip() for side in "ab"}
    return make_pairs(_get_card(task), pairs.assign(text_a=joined["a"], text_b=joined["b"]))


def make_pairs(card: PairCard, records: pd.DataFrame) -> Task:
    """Make a pair task from records.

    Parameters
    ----------
    card : PairCard
        The task's card.
    records : DataFrame
        Columns text_a, text_b, score and, where they exist, part, dialogue, history and the card's groups.

    Returns
    -------
    Task
        The task, with a corpus of the unique texts.

    Raises
    ------
    TraubeError
        If there are no records, a text is empty, a score is no number of the card's scale, a group's column is missing, or a
        subset is unknown; says which pair.

    Examples
    --------
    >>> import pandas as pd
    >>> from traube.tasks import PairCard, make_pairs
    >>> records = pd.DataFrame({"text_a": ["a loaf"], "text_b": ["a bread"], "score": [0.9]})
    >>> make_pairs(PairCard(name="foods"), records).corpus["text"].tolist()
    ['a loaf', 'a bread']
    """
    if records.empty:
        raise TooFew(f"task '{card.name}': there are no pairs")
    numbers = [str(i) for i in range(len(records))]
    given = pd.DataFrame(
        {
            "pair": np.arange(len(records), dtype=np.int64),
            "text_id_a": [text_id(text) for text in records["text_a"]],
            "text_id_b": [text_id(text) for text in records["text_b"]],
            "score": records["score"].to_numpy(np.float64),
            "part": _fill_texts(records, "part", "test"),
            "dialogue": _fill_texts(records, "dialogue", numbers),
            "history": _fill_texts(records, "history", ""),
        }
    )
    for group in card.groups:
        if group not in records:
            raise Unknown(f"task '{card.name}': there is no column '{group}' to group by")
        given[group] = _fill_texts(records, group, "")
    empty = (records["text_a"].str.strip() == "") | (records["text_b"].str.strip() == "")
    low, high = card.scale
    faults = (
        (empty.to_numpy(), "a text is empty"),
        (~given["score"].between(low, high).to_numpy(), f"its score is no number from {low:g} to {high:g}"),
        (~given["part"].isin(SUBSETS).to_numpy(), f"its subset is none of {', '.join(SUBSETS)}"),
    )
    for fault, reason in faults:
        if fault.any():
            first = int(np.flatnonzero(fault)[0])
            more = f" ({int(fault.sum())} such pairs)" if fault.sum() > 1 else ""
            raise Malformed(f"task '{card.name}': pair {first}: {reason}{more}")
    ids, texts = [*given["text_id_a"], *given["text_id_b"]], [*records["text_a"], *records["text_b"]]
    corpus = pd.DataFrame({"text_id": ids, "text": texts}).drop_duplicates("text_id", ignore_index=True)
    return Task(card, corpus, given)


def _fill_texts(records: pd.DataFrame, name: str, default: str | list[str]) -> list[str]:
    if name in records:
        return ["" if pd.isna(value) else str(value) for value in records[name]]
    return [default] * len(records) if isinstance(default, str) else default


class PairSource(Source):
    """Reader that turns raw data into a pair task.

    One subclass per raw format; `read` returns the records that `make_pairs` takes.
    """

    card: PairCard

    @override
    def ingest(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        self.check()
        task = make_pairs(self.card, self.read())
        return task.corpus, task.rows

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return the pairs as they were read."""
        return records
