"""Multiple choice: the share of questions in which a model's preferred answer is among the best answers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

TIED = 1e-9


def right_answers(gold: ArrayLike) -> list[int]:
    """Return the positions of the best answers: all that have the greatest gold score."""
    scores = np.asarray(gold, dtype=np.float64)
    return np.flatnonzero(scores >= scores.max() - TIED).tolist()


def credit(liked: ArrayLike, right: Sequence[int]) -> float:
    """Return the share of right answers among those that a model likes best.

    The share is 0 or 1 without a tie; with one, the share is the chance to be right by guessing among the tied answers.
    `liked` is how much each option is liked, `right` the positions of the right answers.
    """
    best = right_answers(liked)
    return len(set(best) & set(right)) / len(best)


def accuracy(credits: ArrayLike, chances: ArrayLike) -> tuple[float, float, float]:
    """Return the accuracy of some questions, and that of guessing.

    Parameters
    ----------
    credits : array-like of float of shape (n_questions,)
        Credit of each question, in [0, 1].
    chances : array-like of float of shape (n_questions,)
        The share of each question's options that is right.

    Returns
    -------
    value : float
        Mean over questions.
    error : float
        Standard error, the root of p (1 - p) / (n - 1); nan for one question.
    chance : float
        The mean share of right answers.
    """
    values = np.asarray(credits, dtype=np.float64)
    n = len(values)
    p = float(values.mean()) if n else np.nan
    error = float(np.sqrt(p * (1 - p) / (n - 1))) if n > 1 else np.nan
    return p, error, float(np.asarray(chances, dtype=np.float64).mean()) if n else np.nan
