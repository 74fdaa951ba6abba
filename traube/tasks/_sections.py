"""Sectioned documents as clustering problems for a query.

A split is a page: its passages, grouped by its sections. What stands before the first section is no passage but
describes the page. (The mean of the passages, a third kind of query, is no text: it comes from their vectors.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from traube._core.errors import Malformed
from traube._core.frames import TEXT
from traube.tasks._task import SPLIT_COLUMNS, Subset

Level = Literal["flat", "hier"]

LEVELS: tuple[Level, ...] = ("flat", "hier")  # the top section; the whole path of sections
SEPARATOR = "/"  # between the sections of a label at level `hier`


@dataclass(frozen=True)
class Passage:
    """A paragraph of a page."""

    page: str
    sections: tuple[str, ...]  # headings from the top section down; empty before the first
    text: str
    identifier: str = ""  # passages of a page that share it are one passage; by default its text


@dataclass(frozen=True)
class Page:
    """A document."""

    name: str  # of its split; no two pages share it
    title: str  # its query
    passages: list[Passage]  # in their order


def get_path(passage: Passage, level: Level) -> tuple[str, ...]:
    """Return the section that a passage belongs to, from the top down."""
    return passage.sections[:1] if level == "flat" else passage.sections


def make_label(passage: Passage, level: Level) -> str:
    """Return the label of a passage.

    Slashes in headings are `%2F`: `Rise/Set` and `Set` below `Rise` stay two labels.
    """
    path = get_path(passage, level)
    if level == "flat":
        return path[0]
    return SEPARATOR.join(heading.replace("%", "%25").replace(SEPARATOR, "%2F") for heading in path)


def select_passages(passages: Iterable[Passage]) -> list[Passage]:
    """Return a page's passages to group: those in a section (the first of several), not blank, each once."""
    selected: dict[str, Passage] = {}
    for passage in passages:
        if passage.sections and passage.text.strip():
            selected.setdefault(passage.identifier or passage.text, passage)
    return list(selected.values())


def make_records(pages: Iterable[Page], level: Level, where: Path, subset: Subset = "test") -> pd.DataFrame:
    """Return the clustering problems of some pages; pages that are not a clustering problem are left out.

    The query is the page's title in the split set `default`; in the split set `description` it is the text before the
    first section, or the title where there is none. That split set exists where some page has such a text: else both
    would be the same.

    Parameters
    ----------
    where : Path
        The file or folder they are from, for errors.

    Returns
    -------
    DataFrame
        Columns split_set, part, page, query, label, text (str); a row a passage in each split set, in the order of the
        pages.
    """
    rows: list[tuple[str, ...]] = []
    for page in pages:
        passages = select_passages(page.passages)
        if len({make_label(passage, level) for passage in passages}) < 2:
            continue
        if not page.title.strip():
            raise Malformed(f"{where}: a page has no title, which is its query; it begins {passages[0].text[:60]!r}")
        lead = "\n".join(p.text.strip() for p in page.passages if not p.sections and p.text.strip())
        rows += [(page.name, page.title, lead, make_label(passage, level), passage.text) for passage in passages]

    records = pd.DataFrame(rows, columns=["page", "query", "lead", "label", "text"], dtype=TEXT)
    described = records["lead"] != ""
    titles = records.assign(split_set="default")
    leads = records.assign(split_set="description", query=records["lead"].where(described, records["query"]))
    tables = [titles, leads] if described.any() else [titles]
    columns = ["split_set", "part", "page", "query", "label", "text"]
    return pd.concat(tables, ignore_index=True).assign(part=subset)[columns]


def draw(indexed: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Return the splits table, a split a page and split set.

    The table is made from `make_records` with `text_id` and `query_id` in place of texts.
    """
    item = indexed.groupby(["split_set", "part", "page"], sort=False).cumcount()
    return indexed.assign(split=indexed["page"], level=level, item=item)[list(SPLIT_COLUMNS)]
