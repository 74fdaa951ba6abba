"""Verdicts: intervals, tests, ranks with ties, promotions and regressions, and nothing else.

Other rooms import what is listed here, and the modules without an underscore.
"""

from traube.comparison.jackknife import Sample
from traube.comparison.ranking import Ranking, rank
from traube.comparison.verdict import Undecided, Verdict, compare

__all__ = ["Ranking", "Sample", "Undecided", "Verdict", "compare", "rank"]
