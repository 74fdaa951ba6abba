"""RSTC: robust short-text clustering (Zheng et al. 2023).

Pseudo-labels are those of k-means at first; then, at intervals, texts are assigned to clusters by optimal transport with
sizes that are learned too. Two augmentations of each text learn them, and are contrasted as well. As in the authors' code, but
the transport is solved exactly, and reads assignments without dropout.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube.components.deep.clusterer import BatchResult, Labels, Rows, Views
from traube.components.deep.encoding import Base
from traube.components.deep.grouping import k_means, take_largest
from traube.papers.aecl.on_encoder import EncoderClusterer, EncoderFit, EncoderRecipe

if TYPE_CHECKING:
    from torch import Tensor

PLANNED = 4 / 3  # the refreshes are spread over 4,000 batches, of which 3,000 are trained
INTERVAL = 50  # batches between two looks at the predictions
TOLERANCE = 1e-10  # the mean change of the transport's prices at which Newton's method ends


class RstcRecipe(EncoderRecipe):
    """Hyperparameters of RSTC."""

    iterations: int = Field(3000, ge=1, le=1_000_000, description="batches in all, at most")
    alone: int = Field(600, ge=0, le=1_000_000, description="batches with the contrast alone")
    by_k_means: int = Field(40, ge=0, le=1_000_000, description="batches with the labels of k-means after that")
    refreshes: int = Field(
        100, ge=1, le=100_000, description="how often the transport is solved if it begins at once, more often at first"
    )
    settled: float = Field(0.01, ge=0, lt=1, description="share of predictions that change in 50 batches when it ends")
    temperature: float = Field(1.0, gt=0, le=1_000, description="of the contrast")
    contrast_weight: float = Field(10.0, ge=0, le=1e6, description="of the contrast")
    softness: float = Field(0.1, gt=0, le=1_000, description="epsilon of the transport")
    evenness: float = Field(
        0.01,
        gt=0,
        le=1_000,
        description="what unlike sizes cost: .1 where classes are equally large, .001 where they are not",
    )


class RstcFit(EncoderFit[RstcRecipe]):
    """A training by RSTC."""

    def prepare(self, views: Views, base: Base) -> None:
        """Build the networks."""
        from torch import nn

        from traube.papers.aecl.networks import assignment, projection

        super().prepare(views, base)
        dimensions = self.first.shape[1]
        self.project, self.assign = projection(dimensions), assignment(dimensions, dimensions, self.k)
        self.memory |= {"steps": 0, "targets": None, "labels": None, "settled": False}
        self.learn(nn.ModuleDict({"project": self.project, "assign": self.assign}))
        times = np.linspace(0, 1, self.recipe.refreshes) ** 2 * PLANNED * self.recipe.iterations
        self.begins = self.recipe.alone + self.recipe.by_k_means
        self.times = {self.begins} | {int(time) for time in times if time > self.begins}

    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the contrast of two augmentations and, once there are pseudo-labels, their cross entropy."""
        from torch.nn import functional

        from traube.papers.aecl import losses

        self._label()
        self.memory["steps"] += 1
        one, other = self.encoded(rows, views=(1, 2))
        contrast = losses.cross_entropy_contrast(self.project(one), self.project(other), self.recipe.temperature)
        parts, loss = {"contrast": contrast}, self.recipe.contrast_weight * contrast
        logits, other_logits = self.assign(one), self.assign(other)
        if self.memory["targets"] is not None:
            target = self.memory["targets"][rows].to(one.device)
            entropies = functional.cross_entropy(logits, target) + functional.cross_entropy(other_logits, target)
            parts["labels"] = entropies / 2  # the contrast is a mean of both directions, too
            loss = loss + parts["labels"]
        return BatchResult(loss, parts, logits.argmax(dim=1), one)

    def _label(self) -> None:
        """Make pseudo-labels, and look whether predictions still change, where it is time to."""
        import torch

        step = self.memory["steps"]
        if step == self.recipe.alone and step < self.begins:
            self.memory["targets"] = torch.from_numpy(k_means(self.vectors(), self.k, self.seed)[0])
        if step in self.times:
            cost = -self._compute_log_p(self.vectors()).cpu().double()  # which not every device has
            plan, _ = solve_self_adaptive_transport(cost, self.recipe.softness, self.recipe.evenness)
            self.memory["targets"] = plan.argmax(dim=1)
        if step % INTERVAL == 0 and step >= self.begins:
            self.settle(torch.from_numpy(self.labels()), self.recipe.settled)
        self.modules.train()

    def _compute_log_p(self, vectors: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.assign(vectors).log_softmax(dim=1)

    @override
    def labels(self) -> Labels:
        return take_largest(self._compute_log_p(self.vectors()))

    @override
    def predict(self, texts: Sequence[str]) -> Labels:
        return take_largest(self._compute_log_p(self.vectors_of(texts)))


def solve_self_adaptive_transport(cost: "Tensor", softness: float, evenness: float) -> tuple["Tensor", "Tensor"]:
    """Return the plan and the sizes of clusters with the lowest cost.

    Minimizes ``<plan, cost> + softness * sum plan (log plan - 1) - evenness * sum (log b + log(1 - b))``
    where each row of the plan adds up to 1/n, and its columns to b. The dual problem has one price a cluster:
    given prices g, rows of the plan are ``softmax((g - cost) / softness) / n``, and each size is the root of
    ``evenness * (1/b - 1/(1 - b)) = g``. Newton's method finds the prices at which columns and sizes agree.

    Parameters
    ----------
    cost : Tensor
        [n, k], float64, on the CPU.
    softness : float
        Softness of the plan (epsilon).
    evenness : float
        Cost of unequal sizes.

    Returns
    -------
    plan : Tensor
        Plan [n, k].
    sizes : Tensor
        Sizes [k].
    """
    import torch
    from scipy.optimize import minimize

    n, k = cost.shape

    def share(prices: "Tensor") -> "Tensor":
        """Share each text among the clusters, [n, k]."""
        return ((prices - cost) / softness).softmax(dim=1)

    def value(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        prices = torch.from_numpy(at)
        sizes, rest = _sizes(prices, evenness)
        texts = softness * ((prices - cost) / softness).logsumexp(dim=1).mean()
        clusters = prices * sizes - evenness * (sizes.log() + rest.log())
        return float(texts - clusters.sum()), (share(prices).mean(dim=0) - sizes).numpy()

    def curvature(at: NDArray[np.float64]) -> NDArray[np.float64]:
        prices = torch.from_numpy(at)
        shares, (sizes, rest) = share(prices), _sizes(prices, evenness)
        of_texts = (torch.diag(shares.mean(dim=0)) - shares.T @ shares / n) / softness
        return (of_texts + torch.diag(1 / (evenness * (sizes**-2 + rest**-2)))).numpy()

    even = np.full(k, evenness * (k - k / max(k - 1, 1)))  # the prices of equal sizes
    solved = minimize(value, even, jac=True, hess=curvature, method="Newton-CG", options={"xtol": TOLERANCE})
    prices = torch.from_numpy(solved.x)
    return share(prices) / n, _sizes(prices, evenness)[0]


def _sizes(prices: "Tensor", evenness: float) -> tuple["Tensor", "Tensor"]:
    """Return the sizes, [k], for which prices ask, and what each leaves to 1."""
    import torch

    # one stable form of the root that lies between 0 and 1; with the sign turned, it is that of 1 - b
    root = 2 * evenness + torch.sqrt(prices.square() + 4 * evenness**2)
    return 2 * evenness / (root + prices), 2 * evenness / (root - prices)


class Rstc(EncoderClusterer[RstcRecipe]):
    """Pseudo-labels by self-adaptive optimal transport, and a contrast."""

    name = "rstc"
    version = "3"
    section = "Zheng et al. 2023, section 3"
    training = RstcFit
    augmentations = 2
    substituted = 0.1
    defaults = RstcRecipe(batch=200, learning_rate=5e-6, head_learning_rate=5e-4)

    @override
    def epochs(self, n: int) -> int:
        return math.ceil(self.recipe.iterations / math.ceil(n / self.recipe.batch))
