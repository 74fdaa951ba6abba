"""Optimal transport of texts to clusters whose sizes are learnt (RSTC: Zheng et al. 2023, SAOT)."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

HALVINGS = 60
ITERATIONS, TOLERANCE = 1000, 1e-7  # at most, and the change of a size at which they end


def self_adaptive_transport(cost: "Tensor", softness: float, evenness: float) -> tuple["Tensor", "Tensor"]:
    """The plan and the sizes of clusters that cost least.

    Minimises ``<plan, cost> + softness * sum plan (log plan - 1) - evenness * sum (log b + log(1 - b))``
    where each row of the plan adds up to 1/n, its columns to b, and b to 1. Rows and columns are
    scaled in turn (Sinkhorn, in logarithms); then the sizes go towards those that the columns' prices
    ask for. They go the less far the more the prices would answer: otherwise they swing for ever.

    Parameters
    ----------
    cost : [n, k]
    softness : of the plan (epsilon)
    evenness : how much unlike sizes cost

    Returns
    -------
    plan [n, k], sizes [k]
    """
    import torch

    n, k = cost.shape
    by_column = torch.zeros(k, dtype=cost.dtype, device=cost.device)
    by_row = torch.zeros(n, dtype=cost.dtype, device=cost.device)
    sizes = torch.full_like(by_column, 1 / k)
    for _ in range(ITERATIONS):
        by_row = -softness * (math.log(n) + ((by_column - cost) / softness).logsumexp(dim=1))
        by_column = softness * (sizes.log() - ((by_row[:, None] - cost) / softness).logsumexp(dim=0))
        asked = _sizes(by_column, evenness)
        if float((asked - sizes).abs().max()) < TOLERANCE:
            break
        answer = softness / sizes / (evenness * (sizes**-2 + (1 - sizes) ** -2))
        sizes = sizes * (asked / sizes) ** (1 / (1 + answer))
        sizes = sizes / sizes.sum()
    by_row = -softness * (math.log(n) + ((by_column - cost) / softness).logsumexp(dim=1))
    plan = ((by_row[:, None] + by_column - cost) / softness).exp()
    return plan, sizes


def _sizes(prices: "Tensor", evenness: float) -> "Tensor":
    """What makes the sizes' part least where they add up to 1, [k]: of each, the root of a quadratic
    equation, given what all of them share, which is found by halving.
    """
    import torch

    def at(shared: float) -> "Tensor":
        # one stable form of the root that lies between 0 and 1
        c = prices - shared
        return 2 * evenness / (c + 2 * evenness + torch.sqrt(c.square() + 4 * evenness**2))

    low = float(prices.min()) - evenness * (len(prices) + 2) ** 2
    high = float(prices.max()) + evenness * (len(prices) + 2)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(at(middle).sum()) < 1 else (low, middle)
    sizes = at((low + high) / 2)
    return sizes / sizes.sum()
