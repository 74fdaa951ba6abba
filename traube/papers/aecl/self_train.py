"""Self-training on SIF embeddings (Hadifar et al. 2019).

An autoencoder learns codes of the texts' vectors; then its codes are drawn to centers that move, as in DEC. Where paper
and code differ, as in the layers, which are trained together from the start, this is the code. Targets are made every
epoch, where the code's are every 30 to 500 steps by the data set. Its rate of .1 is for its own three sets: on AgNews such
steps end in one cluster.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field
from typing_extensions import override

from traube.components.deep.clusterer import BatchResult, DeepClusterer, DeepRecipe, Fit, Labels, Rows, Views
from traube.components.deep.encoding import Base
from traube.components.deep.grouping import k_means, take_largest
from traube.papers.aecl.words import Sif, Source, Words

if TYPE_CHECKING:
    from torch import Tensor


class SelfTrainRecipe(DeepRecipe):
    """Hyperparameters of Self-Train."""

    pretraining: int = Field(15, ge=1, le=10_000, description="epochs of the autoencoder alone")
    steps: int = Field(
        1000, ge=1, le=1_000_000, description="steps of self-training after that, at most, in whole epochs"
    )
    settled: float = Field(1e-4, ge=0, lt=1, description="share of labels that change in an epoch when it ends")
    learning_rate: float = Field(1e-3, gt=0, le=1, description="of Adam for the autoencoder")
    self_learning_rate: float = Field(
        0.01, gt=0, le=1, description="of gradient descent with momentum .9; .1 in the code"
    )
    rarity: float = Field(0.1, gt=0, le=1e6, description="a of SIF: the greater, the less rare words count more")
    width: int = Field(500, ge=1, le=100_000, description="of the first two layers; the third is four times as wide")
    code: int = Field(20, ge=1, le=10_000, description="size of a code")
    words: Source = Field("corpus", description="whose word vectors; corpus: made of the texts; glove: GloVe's")


class SelfTrainFit(Fit[SelfTrainRecipe]):
    """A training by Self-Train."""

    def prepare(self, views: Views, base: Base) -> None:
        """Build the networks."""
        import torch

        from traube.papers.aecl import networks

        recipe, texts = self.recipe, views[0]
        self.sif = Sif.fit(Words.of(texts, recipe.words, base.network, self.seed), texts, recipe.rarity)
        self.device = torch.device(base.device)
        self.points = self._make_points(texts)
        shape = self.points.shape[1], self.k, recipe.width, recipe.code
        self.modules = networks.Autoencoder(*shape).to(self.device)
        self.optimizer = networks.adam(self.modules.parameters(), recipe.learning_rate, self.device)
        self.memory = {"settled": False, "is_self_training": False}

    @override
    def resume(self) -> None:
        """Take the optimizer of self-training, if it has begun."""
        from torch.optim import SGD

        if self.memory["is_self_training"]:
            self.optimizer = SGD(self.modules.parameters(), lr=self.recipe.self_learning_rate, momentum=0.9)

    def _make_points(self, texts: Sequence[str]) -> "Tensor":
        import torch

        return torch.from_numpy(self.sif.of(texts).astype(np.float32)).to(self.device)

    def _encode(self, points: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.modules.encode(points)

    def begin_epoch(self, epoch: int) -> None:
        """Put the centers where k-means finds them, and make the targets of an epoch."""
        import torch

        from traube.papers.aecl import losses

        if epoch < self.recipe.pretraining:
            return
        codes = self._encode(self.points)
        if epoch == self.recipe.pretraining:
            _, centers = k_means(codes, self.k, self.seed)
            self.modules.centres.put(torch.from_numpy(centers).to(self.device))
            self.memory["is_self_training"] = True
            self.resume()
        q = self._assign(self.points).exp()
        self.targets, labels = losses.sharpen(q), q.argmax(dim=1).cpu()
        self.settle(labels, self.recipe.settled)

    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the reconstruction loss of the autoencoder; later the divergence from sharpened targets."""
        from torch.nn import functional

        from traube.papers.aecl import losses

        points = self.points[rows]
        codes = self.modules.encode(points)
        if epoch < self.recipe.pretraining:
            loss = functional.mse_loss(self.modules.decode(codes), points)
            return BatchResult(loss, {"reconstruction": loss}, points=codes)
        log_q = self.modules.centres(codes)
        loss = losses.divergence(self.targets[rows], log_q)
        return BatchResult(loss, {"divergence": loss}, log_q.argmax(dim=1), codes)

    def _assign(self, points: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.modules.centres(self.modules.encode(points))

    def representations(self) -> "Tensor":
        """Return the codes."""
        return self._encode(self.points)

    @override
    def labels(self) -> Labels:
        return take_largest(self._assign(self.points))

    @override
    def predict(self, texts: Sequence[str]) -> Labels:
        return take_largest(self._assign(self._make_points(texts)))


class SelfTrain(DeepClusterer[SelfTrainRecipe]):
    """SIF embeddings, an autoencoder, self-training."""

    name = "self_train"
    version = "3"
    section = "Hadifar et al. 2019, section 3"
    training = SelfTrainFit
    defaults = SelfTrainRecipe(batch=64)

    @override
    def epochs(self, n: int) -> int:
        return self.recipe.pretraining + math.ceil(self.recipe.steps / math.ceil(n / self.recipe.batch))
