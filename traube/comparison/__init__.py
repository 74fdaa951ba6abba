"""Verdicts: intervals, tests, ranks with ties, promotions and regressions, and nothing else."""

from traube.comparison._jackknife import Sample
from traube.comparison._ranking import Ranking, rank
from traube.comparison._verdict import Undecided, Verdict, compare

__all__ = ["Ranking", "Sample", "Undecided", "Verdict", "compare", "rank"]
