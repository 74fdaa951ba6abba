"""Pair tasks: pairs of texts with a gold score of how alike they are.

What a split is for clustering, a pair is here: what is scored is how well a model's similarities
follow the gold scores. A pair may have a history, the turns of a dialogue before its texts: then
the first text is the dialogue's last turn, and the second one is compared with it.

Tables
------
corpus : text_id (str, from the text's hash), text (str)
pairs : pair (int), text_id_a, text_id_b (str), score (float), part (train / validation / test),
    dialogue (str: pairs of the same one belong together), history (str: turns, one a line), and the
    card's groups (str), such as domain
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from traube.foundation.config import Strict
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest, frame_digest
from traube.tasks.source import Raw
from traube.tasks.task import PARTS, TaskCard, text_id

PAIR_COLUMNS = ("pair", "text_id_a", "text_id_b", "score", "part", "dialogue", "history")
BETWEEN_TURNS = " "  # where a history is joined to a text


def _own_names(groups: tuple[str, ...]) -> tuple[str, ...]:
    taken = [name for name in groups if name in PAIR_COLUMNS]
    if taken or len(set(groups)) < len(groups):
        raise ValueError(f"{', '.join(taken) or 'a column'}: a group's column has a name of its own")
    return groups


class PairCard(Strict):
    """What people must know of a pair task before they quote a number of it.

    Attributes
    ----------
    scale : the least and the greatest score
    groups : columns of which each value is also scored by itself
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$")
    family: str = Field("similarity", pattern=r"^[a-z0-9_]+$", description="benchmark family; the asset group")
    description: str = ""
    language: str = "und"
    licence: str = "unknown"
    citation: str = ""
    source: str = Field("", description="where the raw data comes from")
    scale: tuple[float, float] = (0.0, 1.0)
    groups: Annotated[tuple[str, ...], AfterValidator(_own_names)] = ()

    def for_checks(self) -> TaskCard:
        """What the checks of any task's tables ask for."""
        return TaskCard(name=self.name, family=self.family)


@dataclass(frozen=True)
class PairTask:
    """A named set of pairs.

    Attributes
    ----------
    card : PairCard
    corpus, pairs : DataFrame, as described in this module's docstring
    """

    card: PairCard
    corpus: pd.DataFrame
    pairs: pd.DataFrame

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def texts(self) -> list[str]:
        """The unique texts, in corpus order."""
        return self.corpus["text"].tolist()

    @property
    def has_history(self) -> bool:
        return bool((self.pairs["history"] != "").any())

    @property
    def data_version(self) -> str:
        """Content hash of both tables."""
        return digest([frame_digest(self.corpus), frame_digest(self.pairs)])

    def of_part(self, part: str) -> "PairTask":
        """The pairs of a part; the corpus stays whole.

        Raises
        ------
        TraubeError
            If it has none.
        """
        pairs = self.pairs[self.pairs["part"] == part].reset_index(drop=True)
        if pairs.empty:
            there = ", ".join(name for name in PARTS if name in set(self.pairs["part"]))
            raise TraubeError(f"pair task '{self.name}': no pair's part is '{part}' (there are: {there})")
        return replace(self, pairs=pairs)

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions in the corpus of both texts of each pair, int64 [p] each."""
        corpus = pd.Index(self.corpus["text_id"])
        first, second = (corpus.get_indexer(self.pairs[name]) for name in ("text_id_a", "text_id_b"))
        if (first < 0).any() or (second < 0).any():
            raise TraubeError(f"pair task '{self.name}': a pair's text is not in the corpus")
        return first.astype(np.int64), second.astype(np.int64)

    def with_history(self) -> "PairTask":
        """The same pairs with the history joined to both texts, in front."""
        texts = self.corpus.set_index("text_id")["text"]
        before = self.pairs["history"].str.split("\n").str.join(BETWEEN_TURNS)
        joined = {
            side: (before + BETWEEN_TURNS + self.pairs[f"text_id_{side}"].map(texts)).str.strip() for side in "ab"
        }
        records = self.pairs.assign(text_a=joined["a"], text_b=joined["b"])
        return make_pairs(self.card, records[[name for name in records if name not in ("text_id_a", "text_id_b")]])


def make_pairs(card: PairCard, records: pd.DataFrame) -> PairTask:
    """A pair task from records: text_a, text_b, score and, where there are, part, dialogue, history
    and the card's groups.

    Raises
    ------
    TraubeError
        If there are none, a text is empty, a score is no number of the card's scale, a group's
        column is missing, or a part is unknown; says which pair.
    """
    if records.empty:
        raise TraubeError(f"pair task '{card.name}': there are no pairs")
    numbers = [str(i) for i in range(len(records))]
    given = pd.DataFrame(
        {
            "pair": np.arange(len(records), dtype=np.int64),
            "text_id_a": [text_id(text) for text in records["text_a"]],
            "text_id_b": [text_id(text) for text in records["text_b"]],
            "score": records["score"].to_numpy(np.float64),
            "part": _texts(records, "part", "test"),
            "dialogue": _texts(records, "dialogue", numbers),
            "history": _texts(records, "history", ""),
        }
    )
    for group in card.groups:
        if group not in records:
            raise TraubeError(f"pair task '{card.name}': there is no column '{group}' to group by")
        given[group] = _texts(records, group, "")
    _check(card, given, records)
    sides = [records["text_a"].tolist(), records["text_b"].tolist()]
    corpus = pd.DataFrame(
        {"text_id": [*given["text_id_a"], *given["text_id_b"]], "text": [*sides[0], *sides[1]]}
    ).drop_duplicates("text_id", ignore_index=True)
    return PairTask(card, corpus, given)


def _texts(records: pd.DataFrame, name: str, default: str | list[str]) -> list[str]:
    if name in records:
        return ["" if pd.isna(value) else str(value) for value in records[name]]
    return [default] * len(records) if isinstance(default, str) else default


def _check(card: PairCard, pairs: pd.DataFrame, records: pd.DataFrame) -> None:
    low, high = card.scale
    empty = (records["text_a"].str.strip() == "") | (records["text_b"].str.strip() == "")
    faults = (
        (empty.to_numpy(), "a text is empty"),
        (~pairs["score"].between(low, high).to_numpy(), f"its score is no number from {low:g} to {high:g}"),
        (~pairs["part"].isin(PARTS).to_numpy(), f"its part is none of {', '.join(PARTS)}"),
    )
    for fault, reason in faults:
        if fault.any():
            first = int(np.flatnonzero(fault)[0])
            more = f" ({int(fault.sum())} such pairs)" if fault.sum() > 1 else ""
            raise TraubeError(f"pair task '{card.name}': pair {first}: {reason}{more}")


class PairSource(Raw[PairCard]):
    """Turns raw data into a pair task. One subclass per raw format."""

    @abstractmethod
    def read(self) -> pd.DataFrame:
        """The records, in raw order, as `make_pairs` takes them."""

    def load(self) -> PairTask:
        """Read raw data into a pair task.

        Raises
        ------
        Unavailable
            If raw data is missing.
        TraubeError
            If raw data cannot be read; the message names the file and the line.
        """
        self.require("pair task")
        return make_pairs(self.card, self.read())
