"""On which splits one model does better than another, and what these splits are like."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from traube.comparison.jackknife import Sample
from traube.comparison.standings import Standing
from traube.comparison.verdict import Verdict, compare
from traube.reports.explorer.board import number
from traube.tasks.task import Split


def differences(standings: Mapping[str, Standing], splits: Sequence[Split], most: int) -> list[dict[str, Any]]:
    """Compare each pair of models at each level, split by split, x100.

    Parameters
    ----------
    standings : mapping of str to Standing
        How models stand at each level.
    splits : sequence of Split
        Those that are scored.
    most : int
        Number of models, the best of each level.

    Returns
    -------
    list of dict
        For each pair and level what the verdict says, and every split's size, classes, difference
        and interval (None where one split does not say how much scores vary).
    """
    shapes = {(s.split, s.level): (s.size, s.classes) for s in splits}
    found = []
    for level, standing in standings.items():
        own = dict(zip(standing.ranking.names[:most], standing.samples, strict=False))
        for a, b in combinations(own, 2):
            verdict = standing.ranking.verdict(a, b)
            said = {"p": number(verdict.p, 4), "better": verdict.better, "comparisons": verdict.comparisons}
            note = verdict.undecided.value if verdict.undecided else ""
            rows = _splits(own[a], own[b], level, shapes)
            found.append({"level": level, "a": a, "b": b, **_numbers(verdict), **said, "note": note, "splits": rows})
    return found


def _splits(a: Sample, b: Sample, level: str, shapes: Mapping[tuple[str, str], tuple[int, int | None]]) -> list[Any]:
    rows = []
    for split in [name for name in a.splits if name in b.splits]:
        size, classes = shapes.get((split, level), (0, None))
        one, other = a.on([split]), b.on([split])
        numbers = _numbers(compare("a", one, "b", other))
        numbers["difference"] = number(100 * (one.mean - other.mean))
        rows.append({"split": split, "size": size, "classes": classes, **numbers})
    return rows


def _numbers(verdict: Verdict) -> dict[str, float | None]:
    return {name: number(100 * getattr(verdict, name)) for name in ("difference", "low", "high")}
