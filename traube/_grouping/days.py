"""Verdicts on days of assigned texts: whether a day drifts, what is said that was not, and groups of what fits none.

A day is judged by the present champion against 30 days (`comparison/drift.py`): those before its first one, or the first
ones where there are not so many. Days that another champion assigned are counted again, not assigned again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from traube._core.errors import Missing, TraubeError
from traube._grouping.assigned import TEXTS, Assigned, Champion, Groups, count_again, read_assigned, read_day
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.describe import find_keywords
from traube._grouping.served import Served
from traube._reports.days_page import NewGroup, ShownDay, write_days_page
from traube._storage import Document, Lease, Storage
from traube.comparison.drift import REFERENCE, judge_day

FEWEST = 20  # texts that fit no group, from which on they are grouped
STABLE = 0.4  # stability of a group from which on it is offered: texts on many things make groups of about .3
SHOWN = 300  # characters of a text
NEWEST = 30  # days whose texts that fit no group are grouped together


class DayVerdict(Document):
    """The verdict on a day of a task; the key is `task/day`."""

    kind: ClassVar[str] = "drift"
    made_of: str  # the blob of the day's texts
    version: str  # of the champion
    texts: int
    strays: int  # texts that fit no group
    reference: tuple[
        str, ...
    ] = ()  # the days that it is compared with; none if it is one of them, or there are too few
    usual_share: float | None = None  # of texts that fit no group
    p: float | None = None
    by_share: bool = False
    by_sizes: bool = False
    changes: Mapping[int, float] = {}  # of each group's share of the texts that fit
    new_words: tuple[str, ...] = ()
    new_groups: tuple[NewGroup, ...] = ()

    @property
    def day(self) -> str:
        """The day."""
        return self.key.rpartition("/")[2]

    @property
    def drifts(self) -> bool:
        """True if the day drifts."""
        return self.by_share or self.by_sizes

    @property
    def share(self) -> float:
        """Share of texts that fit no group."""
        return self.strays / max(1, self.texts)

    def describe(self, words: Mapping[int, Sequence[str]]) -> list[str]:
        """Return what has changed, a line each; `words` are the key words of the groups."""
        lines = []
        if self.by_share:
            lines.append(f"{self.share:.1%} of {self.texts} texts fit no group, usually {self.usual_share or 0:.1%}")
        if self.by_sizes:
            largest = sorted(self.changes.items(), key=lambda item: -abs(item[1]))[:3]
            parts = [f"{', '.join(words.get(c, [])[:3]) or c} {100 * change:+.1f} points" for c, change in largest]
            lines.append(f"groups have other sizes: {'; '.join(parts)}")
        return lines


def read_verdicts(storage: Storage, task: str) -> dict[str, DayVerdict]:
    """Return the verdicts on a task's days, by day, the first one first."""
    return {one.day: one for one in storage.read_documents(DayVerdict) if one.key.rpartition("/")[0] == task}


def judge(
    storage: Storage,
    task: str,
    day: str,
    load: Callable[[], Champion],
    since: date | None = None,
    lease: Lease | None = None,
) -> DayVerdict:
    """Judge a day whose texts are assigned, and store the verdict.

    Parameters
    ----------
    storage : Storage
        Where days and verdicts are stored.
    task : str
        The task.
    day : str
        The day, in ISO 8601.
    load : callable
        Returns the champion.
    since : date, optional
        First day of the reference period. By default as the module says.
    lease : Lease, optional
        The lease of the task's inbox.

    Returns
    -------
    DayVerdict
        What is stored.

    Raises
    ------
    TraubeError
        If no text of the day is assigned.
    """
    days = {name: one for name, one in read_assigned(storage, task).items() if one.texts}
    if day not in days:
        raise Missing(f"{task}: no text of {day} is assigned; materialize {task}/assigned of this day first")
    served, version = load()
    reference = choose_reference(days, storage.get_document(Groups, f"{task}/{version}"), since)
    for name in (*reference, day):
        if version not in (one := days[name]).sizes:  # another champion assigned the texts
            days[name] = count_again(one, version, served.predict(read_day(storage, one)["text"].tolist()))
            storage.save_document(days[name], {TEXTS: storage.get_path(one.files[TEXTS])}, lease)
    one = days[day]
    verdict = DayVerdict(
        key=one.key, made_of=one.files[TEXTS], version=version, texts=one.count(version), strays=one.strays[version]
    )
    if len(reference) == REFERENCE and day not in reference:
        verdict = _compare(verdict, one, [days[name] for name in reference])
        usual = [text for name in reference for text in read_day(storage, days[name], ["text"])["text"]]
        verdict = verdict.model_copy(update={"new_words": find_new_words(usual, read_day(storage, one)["text"])})
    if verdict.drifts or day in [*days][-2:]:  # of other days nobody asks, and it takes seconds
        newest = [one for name, one in days.items() if name <= day][-NEWEST:]
        verdict = verdict.model_copy(update={"new_groups": _group_strays(storage, newest, served, version)})
    storage.save_document(verdict)
    return verdict


def choose_reference(days: Mapping[str, Assigned], groups: Groups | None, since: date | None) -> list[str]:
    """Return the days that others are compared with, at most 30."""
    names = sorted(days)
    if since is not None:
        return [name for name in names if name >= since.isoformat()][:REFERENCE]
    before = list(takewhile(lambda name: groups is not None and name < groups.since, names))
    return before[-REFERENCE:] if len(before) >= REFERENCE else names[:REFERENCE]


def _compare(verdict: DayVerdict, one: Assigned, reference: Sequence[Assigned]) -> DayVerdict:
    """Return the verdict on a day against others."""
    version, days = verdict.version, [*reference, one]
    clusters = sorted({c for each in days for c in each.sizes[version]})
    sizes = [[each.sizes[version].get(c, 0) for c in clusters] for each in days]
    drift = judge_day(sizes, [each.strays[version] for each in days])
    return verdict.model_copy(
        update={
            "reference": tuple(each.day for each in reference),
            "usual_share": drift.usual_share,
            "p": drift.p,
            "by_share": drift.by_share,
            "by_sizes": drift.by_sizes,
            "changes": dict(zip(clusters, drift.changes.tolist(), strict=True)),
        }
    )


def find_new_words(usual: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Return the key words that set texts apart from the usual ones, the most telling first."""
    sides = np.repeat([0, 1], [len(usual), len(texts)])
    return tuple(find_keywords([*usual, *texts], sides).get(1, []))


def _group_strays(storage: Storage, days: Sequence[Assigned], served: Served, version: str) -> tuple[NewGroup, ...]:
    """Group the texts of some days that fit no group, and return the groups that are stable; none if the texts are few."""
    tables = [read_day(storage, one, ["text", "fits", "version"]) for one in days]
    table = pd.concat(tables, ignore_index=True)
    texts = table.loc[(table["version"] == version) & ~table["fits"].astype(bool), "text"].tolist()
    if len(texts) < FEWEST or served.query is not None:  # a query's text is not kept, and it says what is compared
        return ()
    try:
        clustering = cluster_texts(texts, model=served.model)
    except TraubeError:  # the model knows no word of them, or they are one text
        return ()
    return tuple(
        NewGroup(
            words=tuple(clustering.words.get(c, [])),
            texts=size,
            typical=tuple(texts[i][:SHOWN] for i in clustering.typical.get(c, [])),
        )
        for c, size in clustering.sizes().items()
        if not clustering.stability.get(c, np.nan) < STABLE
    )


def publish_days(storage: Storage, task: str, home: Path) -> Path:
    """Write the page of a task's days, and return its path."""
    days, verdicts = (
        {name: one for name, one in read_assigned(storage, task).items() if one.texts},
        read_verdicts(storage, task),
    )
    newest = [*verdicts.values()][-1] if verdicts else None
    version = newest.version if newest else [*days.values()][-1].version
    groups = storage.get_document(Groups, f"{task}/{version}")
    words = groups.words if groups else {}
    rows = [
        ShownDay(
            name,
            one.texts,
            one.strays.get(one.version, 0) / one.texts,
            verdicts[name].p if name in verdicts else None,
            verdicts[name].describe(words) if name in verdicts else (),
        )
        for name, one in days.items()
    ]
    counted = {name: one.sizes[version] for name, one in days.items() if version in one.sizes}
    sizes = pd.DataFrame.from_dict(counted, orient="index").fillna(0.0).sort_index()
    shares = sizes.div(sizes.sum(axis=1).clip(lower=1), axis=0)
    shares.columns = [f"{c}: {', '.join(words.get(c, [])[:3])}" for c in shares.columns]
    return write_days_page(task, rows, shares, newest.new_groups if newest else (), home)
