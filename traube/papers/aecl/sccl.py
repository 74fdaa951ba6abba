"""SCCL: supporting clustering with contrastive learning (Zhang et al. 2021).

Two augmentations of each text are contrasted; the text itself is drawn to centers that move, as in DEC. As the
authors answered, the clusters are those of k-means on the learned representations, not those of
the centers (`labels`).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field
from typing_extensions import override

from traube.components.deep.clusterer import BatchResult, Labels, Rows, Views
from traube.components.deep.encoding import Base
from traube.components.deep.grouping import k_means, take_largest
from traube.components.new_points import find_nearest
from traube.papers.aecl.on_encoder import EncoderClusterer, EncoderFit, EncoderRecipe

if TYPE_CHECKING:
    from torch import Tensor


class ScclRecipe(EncoderRecipe):
    """Hyperparameters of SCCL."""

    iterations: int = Field(3000, ge=1, le=1_000_000, description="batches in all; long trainings degrade")
    temperature: float = Field(0.5, gt=0, le=1_000, description="of the contrast")
    contrast_weight: float = Field(10.0, ge=0, le=1e6, description="eta, of the contrast")
    labels: Literal["k_means", "centres"] = Field("k_means", description="whose clusters count in the end")


class ScclFit(EncoderFit[ScclRecipe]):
    """A training by SCCL."""

    def prepare(self, views: Views, base: Base) -> None:
        """Build the networks."""
        import torch

        from traube.papers.aecl.networks import Centers, projection

        super().prepare(views, base)
        self.project, self.centers = projection(self.first.shape[1]), Centers(self.k, self.first.shape[1])
        _, centers = k_means(self.first, self.k, self.seed)
        self.centers.put(torch.from_numpy(centers))
        self.learn(torch.nn.ModuleDict({"project": self.project, "centres": self.centers}))

    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the loss of equation 6: the contrast of two augmentations and the divergence from sharpened targets."""
        from traube.papers.aecl import losses

        original, one, other = self.encoded(rows)
        contrast = losses.cross_entropy_contrast(self.project(one), self.project(other), self.recipe.temperature)
        log_q = self.centers(original)
        target = losses.sharpen(log_q.detach().exp())
        parts = {"contrast": contrast, "divergence": losses.divergence(target, log_q)}
        loss = self.recipe.contrast_weight * contrast + parts["divergence"]
        return BatchResult(loss, parts, log_q.argmax(dim=1), original)

    @override
    def labels(self) -> Labels:
        vectors = self.vectors()
        if self.recipe.labels == "centres":
            return self._by_centers(vectors)
        return k_means(vectors, self.k, self.seed)[0]

    def predict(self, texts: Sequence[str]) -> Labels:
        """Return the cluster of the nearest center."""
        new = self.vectors_of(texts)
        if self.recipe.labels == "centres":
            return self._by_centers(new)
        _, centers = k_means(self.vectors(), self.k, self.seed)
        return find_nearest(new.cpu().numpy(), centers)

    def _by_centers(self, vectors: "Tensor") -> Labels:
        with self.at_rest():
            return take_largest(self.centers(vectors))


class Sccl(EncoderClusterer[ScclRecipe]):
    """Contrast of two augmentations, and centers that move."""

    name = "sccl"
    section = "Zhang et al. 2021, section 3"
    training = ScclFit
    augmentations = 2
    defaults = ScclRecipe(batch=400, learning_rate=1e-5, head_learning_rate=1e-3)

    @override
    def epochs(self, n: int) -> int:
        return math.ceil(self.recipe.iterations / math.ceil(n / self.recipe.batch))
