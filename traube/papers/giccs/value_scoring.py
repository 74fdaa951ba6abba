"""Value scoring of best-worst judgments (Hollis, 2017).

Scores are learned from pairs of items, for designs in which items meet others of unequal strength. Counting
(`traube.papers.giccs.agreement.counting_scores`) ignores whom an item was better than.
"""

from typing import Any
from zlib import crc32

import numpy as np

from traube._core.arrays import Floats
from traube.components._estimators.compiled import compiled
from traube.papers.giccs.agreement import SEED, Judgments, implied_pairs

ITERATIONS = 100
RATE = 0.025  # of learning, in the first iteration; divided by the number of the iteration in later ones


def value_scores(judgments: Judgments, iterations: int = ITERATIONS, seed: int = SEED) -> Floats:
    """Return each item's value, learned from the pairs that the judgments put in order.

    Parameters
    ----------
    judgments : Judgments
        Whose implied pairs are learned.
    iterations : int, default=100
        Number of passes over all pairs, each in another random order.
    seed : int, default=42
        Of the orders, together with the judgments: other judgments are learned in other orders.

    Returns
    -------
    ndarray of shape (n_items,)
        Between 0 and 1; nan for an item that was not shown.

    Notes
    -----
    Every value begins at 0.5. With w the value of a pair's winner and l that of its loser, the winner is expected to win
    with the probability p = o(w) / (o(w) + o(l)), where o(x) = x / (1 - x) are the odds; then w grows by
    (1 - p) r (1 - w), and l falls by (1 - p) r l. The rate r is 0.025 divided by the number of the iteration. Two items
    are added that every item meets once in each iteration: one always wins, the other always loses. They keep items
    apart that have always won or always lost.

    References
    ----------
    .. [1] Hollis, "Scoring best/worst data in unbalanced, many-item designs", 2017. Rates, iterations and the two items
       are those of the author's program, https://github.com/haratimo/best-worst-tools.
    """
    winners, losers, _ = implied_pairs(judgments)
    positions, n = np.unique(judgments.shown), len(judgments.items)
    always_wins, always_loses = np.full(len(positions), n), np.full(len(positions), n + 1)
    winners = np.concatenate([winners, always_wins, positions])
    losers = np.concatenate([losers, positions, always_loses])
    # two halves of judgments must not share their orders: items that are tied would be put apart alike in both
    values, rng = np.full(n + 2, 0.5), np.random.default_rng([seed, crc32(np.append(winners, losers).tobytes())])
    for iteration in range(1, iterations + 1):
        order = rng.permutation(len(winners))
        learn_pairs(winners[order], losers[order], values, RATE / iteration)
    scores: Floats = np.full(n, np.nan)
    scores[positions] = values[positions]
    return scores


@compiled
def learn_pairs(winners: Any, losers: Any, values: Any, rate: float) -> None:
    """Change the values of items, in place, by one pair after the other."""
    for i in range(len(winners)):
        winner, loser = values[winners[i]], values[losers[i]]
        against, expected = loser * (1 - winner), winner * (1 - loser)
        step = rate * against / (expected + against)  # against / (expected + against) is 1 - p
        values[winners[i]] += step * (1 - winner)
        values[losers[i]] -= step * loser
