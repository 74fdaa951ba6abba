"""Self-training on SIF embeddings (Hadifar et al. 2019).

An autoencoder learns codes of the texts' vectors; then its codes are drawn to centers that move, as in DEC. Layers
are trained together from the start, not one after the other as the paper's are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field
from typing_extensions import override

from traube.components.deep.clusterer import DeepClusterer, DeepRecipe, Fit, Labels, Points, Rows, Step
from traube.components.deep.encoding import Base
from traube.components.deep.grouping import k_means
from traube.components.deep.words import Sif, Source, Words

if TYPE_CHECKING:
    from torch import Tensor


class SelfTrainRecipe(DeepRecipe):
    """Hyperparameters of Self-Train."""

    pretraining: int = Field(15, ge=1, le=10_000, description="epochs of the autoencoder alone")
    epochs: int = Field(50, ge=1, le=10_000, description="epochs of self-training after that, at most")
    settled: float = Field(0.001, ge=0, lt=1, description="share of labels that change in an epoch when it ends")
    learning_rate: float = Field(1e-3, gt=0, le=1)
    self_learning_rate: float = Field(1e-4, gt=0, le=1, description="of self-training")
    rarity: float = Field(1e-3, gt=0, le=1e6, description="a of SIF: the greater, the less rare words count more")
    width: int = Field(500, ge=1, le=100_000, description="of the first two layers; the third is four times as wide")
    code: int = Field(20, ge=1, le=10_000, description="size of a code")
    words: Source = Field("encoder", description="whose word vectors; corpus: made of the texts")


class SelfTrainFit(Fit[SelfTrainRecipe]):
    """One training of Self-Train."""

    def __init__(self, recipe: SelfTrainRecipe, views: Sequence[Sequence[str]], k: int, base: Base, seed: int) -> None:
        import torch

        from traube.components.deep.networks import Autoencoder

        super().__init__(recipe, views, k, base, seed)
        texts = views[0]
        self.sif = Sif.fit(Words.of(texts, recipe.words, base.network, seed), texts, recipe.rarity)
        self.device = torch.device(base.device)
        self.points = self._points(texts)
        self.modules = Autoencoder(self.points.shape[1], k, recipe.width, recipe.code).to(self.device)
        self.optimizer = torch.optim.Adam(self.modules.parameters(), lr=recipe.learning_rate)
        self.memory = {"settled": False}

    def _points(self, texts: Sequence[str]) -> "Tensor":
        import torch

        return torch.from_numpy(self.sif.of(texts).astype(np.float32)).to(self.device)

    def _codes(self, points: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.modules.encode(points)

    def begin_epoch(self, epoch: int) -> None:
        """Put the centers where k-means finds them, and make the targets of an epoch."""
        import torch

        if epoch < self.recipe.pretraining:
            return
        codes = self._codes(self.points)
        if epoch == self.recipe.pretraining:
            _, centres = k_means(codes.cpu().numpy(), self.k, self.seed, starts=10)
            self.modules.centres.put(torch.from_numpy(centres).to(self.device))
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.self_learning_rate
        q = self._assigned(self.points).exp()
        self.targets, labels = self.losses.sharpened(q), q.argmax(dim=1).cpu()
        self.settle(labels, self.recipe.settled)

    def step(self, epoch: int, rows: Rows) -> Step:
        """Return the reconstruction loss of the autoencoder; later the divergence from sharpened targets."""
        from torch.nn import functional

        points = self.points[rows]
        codes = self.modules.encode(points)
        if epoch < self.recipe.pretraining:
            loss = functional.mse_loss(self.modules.decode(codes), points)
            return Step(loss, {"reconstruction": loss}, points=codes)
        log_q = self.modules.centres(codes)
        loss = self.losses.divergence(self.targets[rows], log_q)
        return Step(loss, {"divergence": loss}, log_q.argmax(dim=1), codes)

    def _assigned(self, points: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.modules.centres(self.modules.encode(points))

    def representations(self) -> Points:
        """Return the codes."""
        return np.asarray(self._codes(self.points).cpu().numpy(), dtype=np.float32)

    @override
    def labels(self) -> Labels:
        return self._assigned(self.points).argmax(dim=1).cpu().numpy().astype(np.int64)

    @override
    def predict(self, texts: Sequence[str]) -> Labels:
        return self._assigned(self._points(texts)).argmax(dim=1).cpu().numpy().astype(np.int64)


class SelfTrain(DeepClusterer[SelfTrainRecipe]):
    """SIF embeddings, an autoencoder, self-training."""

    name = "self_train"
    section = "Hadifar et al. 2019, section 3"
    training = SelfTrainFit
    defaults = SelfTrainRecipe(batch=64)

    @override
    def epochs(self, n: int) -> int:
        return self.recipe.pretraining + self.recipe.epochs


CLUSTERER = SelfTrain
