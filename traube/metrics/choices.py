"""Multiple choice: how often what a model likes best is among the best answers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

TIED = 1e-9


def right_answers(gold: ArrayLike) -> list[int]:
    """Positions of the best answers: all that have the greatest gold score."""
    scores = np.asarray(gold, dtype=np.float64)
    return np.flatnonzero(scores >= scores.max() - TIED).tolist()


def credit(liked: ArrayLike, right: Sequence[int]) -> float:
    """Of the answers that a model likes best, the share that is right: 0 or 1 without a tie, and
    what guessing among them would give with one. Of how much each option is liked, and the positions of right answers.
    """
    best = right_answers(liked)
    return len(set(best) & set(right)) / len(best)


def accuracy(credits: ArrayLike, chances: ArrayLike) -> tuple[float, float, float]:
    """The accuracy of some questions, and what guessing would give.

    Parameters
    ----------
    credits : float [n], in [0, 1]
    chances : float [n], the share of each question's options that is right

    Returns
    -------
    value : mean over questions
    error : standard error, the root of p (1 - p) / (n - 1); nan for one question
    chance : the mean share of right answers
    """
    values = np.asarray(credits, dtype=np.float64)
    n = len(values)
    p = float(values.mean()) if n else float("nan")
    error = float(np.sqrt(p * (1 - p) / (n - 1))) if n > 1 else float("nan")
    return p, error, float(np.asarray(chances, dtype=np.float64).mean()) if n else float("nan")
