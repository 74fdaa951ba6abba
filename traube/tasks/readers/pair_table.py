"""Pairs with a gold score in a table: the user's own, by a card in `cards/`.

    pairs: utterances.csv     # relative to the card's folder; as of a task of texts
    text_a: first
    text_b: second
    score: similarity
    scale: [0, 5]             # optional; by default 0 to 1
    groups: [domain]          # optional: columns of which each value is also scored by itself; `{domain: Thema}`
                              # where a group has another name than its column
    part: part                # optional: a column of train / validation / test

Of a dialogue, `turns` takes the place of `text_a`: a column that holds all turns (a line each, or a list), or a list of
columns with a turn each. The last turn is compared with `text_b`, those before it are the history, and how many there
are is a group, `n_turns`. `dialogue` is the column that says which dialogue a pair is of; without it, equal turns are
the same dialogue.
"""

from contextlib import suppress
from typing import Any, Self

import pandas as pd
from pydantic import Field, model_validator
from typing_extensions import override

from traube._core.config import OneOrMany, PathName
from traube._core.errors import TooFew
from traube._core.inputs import parse_json
from traube.tasks.reading import Rows, TableFormat, as_score, as_text, read_rows
from traube.tasks.scored_pairs import PairCard, PairSource
from traube.tasks.source import CardSource

N_TURNS = "n_turns"


class PairTableCard(PairCard, TableFormat):
    """A pair task's card that says where the data lies, and names its columns."""

    pairs: PathName
    text_a: str | None = None
    turns: OneOrMany = ()
    text_b: str
    score: str
    dialogue: str | None = None
    part: str | None = None
    group_columns: dict[str, str] = Field({}, description="the columns of groups that have other names")

    @model_validator(mode="before")
    @classmethod
    def _with_other_names(cls, value: Any) -> Any:
        groups = value.get("groups") if isinstance(value, dict) else None
        return {**value, "groups": list(groups), "group_columns": groups} if isinstance(groups, dict) else value

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.text_a is None) == (not self.turns):
            raise ValueError("expected either text_a or turns")
        return self

    def plain(self) -> PairCard:
        """Return the fields that every pair task has; the number of turns is a group."""
        plain = self.model_dump(include=set(PairCard.model_fields) - {"groups"})
        return PairCard(**plain, groups=(*self.groups, *((N_TURNS,) if self.turns else ())))


class PairTable(CardSource[PairTableCard], PairSource):
    """A table of pairs that a card describes."""

    form = PairTableCard
    key = "pairs"
    version = "2"  # without rows that lack a text or the score

    @override
    def read(self) -> pd.DataFrame:
        card = self.settings
        rows = read_rows(self.files()[0], card)
        rows.require_rows()
        needed = {"text_b": card.text_b, "score": card.score} | ({} if card.text_a is None else {"text_a": card.text_a})
        values = [self._column(rows, key, column) for key, column in needed.items()]
        rows = rows.leave_out([not all(row) for row in zip(*values, strict=True)], "without a text or a score")
        records: dict[str, list[Any]] = {"text_b": self._column(rows, "text_b", card.text_b)}
        if card.turns:
            columns = [rows.column(name, self.place("turns")) for name in card.turns]
            dialogues = [
                [turn for value in values for turn in _turns(value, place)]
                for *values, place in zip(*columns, rows.places, strict=True)
            ]
            for turns, place in zip(dialogues, rows.places, strict=True):
                if not turns:
                    raise TooFew(f"{place}: the dialogue has no turns")
            records["text_a"] = [turns[-1] for turns in dialogues]
            records["history"] = ["\n".join(turns[:-1]) for turns in dialogues]
            records["dialogue"] = ["\n".join(turns) for turns in dialogues]
            records[N_TURNS] = [str(len(turns)) for turns in dialogues]
        else:
            records["text_a"] = self._column(rows, "text_a", str(card.text_a))
        records["score"] = list(map(as_score, self._column(rows, "score", card.score), rows.places))
        if card.part is not None:
            records["part"] = self._column(rows, "part", card.part)
        if card.dialogue is not None:
            records["dialogue"] = self._column(rows, "dialogue", card.dialogue)
        for name in card.groups:
            records[name] = self._column(rows, "groups", card.group_columns.get(name, name))
        return pd.DataFrame(records)

    def _column(self, rows: Rows, key: str, column: str) -> list[str]:
        return [(text or "").strip() for text in rows.texts(column, self.place(key))]


def _turns(value: Any, place: str) -> list[str]:
    """Return the turns in a value: a list, a list in JSON, or lines."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError):  # a turn may begin with a bracket
            value = parse_json(value)
    parts = value if isinstance(value, list) else (as_text(value, place, "turns") or "").splitlines()
    return [turn for part in parts if (turn := (as_text(part, place, "turns") or "").strip())]


CARDS = {"pairs": PairTable}
