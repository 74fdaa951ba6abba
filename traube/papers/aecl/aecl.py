"""AECL: attention-enhanced contrastive learning for short-text clustering (Yao & Li).

Where the paper and its code differ, the default is the code, which is what was measured; the printed variants are
available by name (`attention`, `contrast`, `cluster_contrast`, `signs`, `temperatures`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field
from typing_extensions import override

from traube.components._deep.clusterer import BatchResult, Entry, Labels, Rows, Views, make_even_batches
from traube.components._deep.encoding import Base
from traube.components._deep.grouping import k_means, take_largest
from traube.papers.aecl.on_encoder import EncoderClusterer, EncoderFit, EncoderRecipe

if TYPE_CHECKING:
    from torch import Tensor

# Section 4.10, and E1 + 1 as the code counts: epochs of stage 1 of 70, by number of texts from
# which a set counts as such.
LARGE, MEDIUM = 15_000, 5_000
FIRST = {"large": 3, "medium": 11, "small": 21}
# Epochs of stage 2 of 70: from this many clusters there are many. A set of few clusters has one
# epoch, or more if these are fewer batches than that of AgNews, the smallest one of the paper: with
# 8 batches the labels of k-means are not learned, and stage 3 goes astray.
MANY, BATCHES = 50, 20
SECOND = {"many": 6, "many, small": 10}
EPOCHS = 70
BALANCE = {"even": 10.0, "slight": 0.18, "heavy": 0.09}  # lambda 4 by how unlike in size clusters are


class AeclRecipe(EncoderRecipe):
    """Recipe of a training with AECL (section 4.2)."""

    epochs: int = Field(EPOCHS, ge=1, le=10_000, description="passes over the texts")
    stage_1: int | None = Field(None, ge=0, le=10_000, description="epochs of contrast alone; by default by data size")
    stage_2: int | None = Field(None, ge=0, le=10_000, description="epochs with k-means' labels; by default by size, k")
    attention: Literal["coded", "printed"] = Field("coded", description="a whole transformer layer, or bare attention")
    contrast: Literal["coded", "printed", "unguided", "confident"] = Field(
        "coded", description="L_I; unguided: without equation 7; confident: with a confidence filter in its place"
    )
    cluster_contrast: Literal["coded", "printed"] = Field("coded", description="L_C")
    signs: Literal["coded", "printed"] = Field("coded", description="of both entropies; printed, they work in reverse")
    instance_temperature: float = Field(0.5, gt=0, le=1_000, description="of L_I; the paper prints 1")
    cluster_temperature: float = Field(1.0, gt=0, le=1_000, description="of L_C; the paper prints .5")
    instance_weight: float = Field(10.0, ge=0, le=1e6, description="lambda 1, of L_I")
    label_weight: float = Field(5.0, ge=0, le=1e6, description="lambda 2, of labels; 0 in stage 3: no pseudo-labels")
    cluster_weight: float = Field(1.0, ge=0, le=1e6, description="of L_C, in stage 3; the paper has none, which is 1")
    softness_weight: float = Field(0.01, ge=0, le=1e6, description="lambda 3, of L_E1")
    balance: Literal["auto", "even", "slight", "heavy"] | Annotated[float, Field(ge=0, le=1e6)] = Field(
        "auto",
        description="how unlike in size clusters are, which sets lambda 4, or lambda 4 itself; auto: heavy from 50 on, "
        "else slight",
    )
    pseudo_labels: bool = Field(True, description="L_P in stage 3; off: the ablation No PG")
    threshold: float = Field(0.95, ge=0, le=1, description="from which the clusterer is sure of a label")


def count_stages(recipe: AeclRecipe, n: int, k: int) -> tuple[int, int]:
    """Return the epochs of the stages 1 and 2 (section 4.10).

    Where fewer than 70 are trained in all, they keep their share.
    """
    size = "small"
    if n >= MEDIUM:
        size = "large" if n >= LARGE else "medium"
    share = min(1.0, recipe.epochs / EPOCHS)
    first = max(1, round(share * FIRST[size])) if recipe.stage_1 is None else recipe.stage_1
    if recipe.stage_2 is not None:
        return first, recipe.stage_2
    if k < MANY:
        return first, math.ceil(BATCHES / math.ceil(n / recipe.batch))
    return first, max(1, round(share * SECOND["many, small" if size == "small" else "many"]))


def spread_weight(recipe: AeclRecipe, k: int) -> float:
    """Return lambda 4.

    The paper sets it by the gold labels. The sizes of k-means' clusters do not tell it, being even where the classes
    are not, but the paper's heavily imbalanced sets are those of many classes.
    """
    if isinstance(recipe.balance, float):
        return recipe.balance
    guessed = "heavy" if k >= MANY else "slight"
    return BALANCE[guessed if recipe.balance == "auto" else recipe.balance]


@dataclass
class AeclBatch(BatchResult):
    """Result of a batch, with the weights of the other texts for each, [n, n]."""

    similarity: Any = None


class AeclFit(EncoderFit[AeclRecipe]):
    """AECL on two views of some texts.

    Both views of a batch go through one encoder; a projection gives z, attention over the batch gives consistent
    representations h and similarities S, and a clustering network assigns h to clusters. Three stages: contrast alone;
    contrast and the labels of k-means; all losses, with labels of which the clusterer itself is sure. The paper says
    the batch's last part is kept whatever its size; here all batches are of like size.
    """

    def prepare(self, views: Views, base: Base) -> None:
        """Build the heads, and count the steps of both stages."""
        from traube.papers.aecl.networks import AeclHeads

        super().prepare(views, base)
        self.stage_1, self.stage_2 = count_stages(self.recipe, self.n, self.k)
        self.memory["targets"] = None
        self.heads = AeclHeads(self.first.shape[1], self.k, self.recipe.attention)
        self.learn(self.heads)

    def find_stage(self, epoch: int) -> int:
        """Return the stage of an epoch: 1, 2 or 3."""
        return 1 + (epoch >= self.stage_1) + (epoch >= self.stage_1 + self.stage_2)

    def begin_epoch(self, epoch: int) -> None:
        """Run k-means on the encoder's vectors once stage 1 has ended.

        See section 3.4; as in the code, with one start.
        """
        if self.find_stage(epoch) == 1 or self.memory["targets"] is not None:
            return
        import torch

        labels, _ = k_means(self.vectors(), self.k, self.seed, starts=1, max_iter=3000, tol=0.01)
        self.memory["targets"] = torch.from_numpy(labels)

    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the loss of equations 9, 14 and 15."""
        from torch.nn import functional

        from traube.papers.aecl import losses

        recipe = self.recipe
        z, h, logits, similarity = self.heads(self.encoded(rows))
        predicted = logits[0].argmax(dim=1)
        if recipe.contrast == "confident":
            p = logits[0].softmax(dim=1)
            contrast = losses.confident_contrast(z, p, recipe.instance_temperature, recipe.threshold)
        else:
            contrast = losses.CONTRASTS[recipe.contrast](z, h, similarity, predicted, recipe.instance_temperature)
        parts, loss = {"contrast": contrast}, recipe.instance_weight * contrast
        stage = self.find_stage(epoch)
        if stage == 2:
            parts["labels"] = functional.cross_entropy(logits[1], self.memory["targets"][rows].to(logits.device))
            loss = loss + recipe.label_weight * parts["labels"]
        if stage == 3:
            log_p = logits.log_softmax(dim=-1)
            cluster_contrast = losses.CLUSTER_CONTRASTS[recipe.cluster_contrast]
            entropies = losses.ENTROPIES[recipe.signs]
            parts["clusters_contrast"] = cluster_contrast(log_p.exp(), recipe.cluster_temperature)
            parts["entropies"] = entropies(log_p, recipe.softness_weight, spread_weight(recipe, self.k))
            loss = loss + recipe.cluster_weight * parts["clusters_contrast"] + parts["entropies"]
            if recipe.pseudo_labels:
                parts["labels"] = losses.sure_cross_entropy(logits[0], logits[1], recipe.threshold)
                loss = loss + recipe.label_weight * parts["labels"]
        sure = (logits[0].detach().softmax(dim=1).amax(dim=1) >= recipe.threshold).float().mean()
        return AeclBatch(loss, parts, predicted, z[0], {"sure": sure}, similarity[0].detach())

    @override
    def compare(self, gold: Labels, step: BatchResult) -> Entry:
        """Add PS and NS (equations 18 and 19), the shares of a batch's similarity that are of the own class and of others."""
        import torch

        assert isinstance(step, AeclBatch)
        codes, weights = torch.from_numpy(gold), step.similarity  # dropout leaves rows that add up to about 1
        same = (codes[:, None] == codes[None, :]).to(weights.device)
        within_class = float((weights * same).sum() / weights.sum())
        return {"ps": within_class, "ns": 1 - within_class, **super().compare(gold, step)}

    def representations(self) -> "Tensor":
        """Return z, which the contrast makes similar; unlike h, z depends on no other text of a batch."""
        from torch.nn import functional

        with self.at_rest():
            return functional.normalize(self.heads.project(self.vectors()), dim=1)

    def labels(self) -> Labels:
        """Return the clusters of the texts, int64 [n].

        Attention makes them depend on the batch: batches are always the same.
        """
        return self._assign(self.vectors(), np.random.default_rng(0).permutation(self.n))

    def predict(self, texts: Sequence[str]) -> Labels:
        """Return the clusters that other texts join, int64 [n].

        Fewer texts than half a batch are joined by texts of the training: a text by itself would be compared with
        nothing.
        """
        import torch

        new = self.vectors_of(texts)
        known = self.vectors()[np.random.default_rng(0).permutation(self.n)]
        company = known[: max(0, self.recipe.batch // 2 - len(new))]
        order = np.random.default_rng(0).permutation(len(new) + len(company))
        return self._assign(torch.cat([new, company]), order)[: len(new)]

    def _assign(self, vectors: "Tensor", order: Rows) -> Labels:
        labels = np.empty(len(order), dtype=np.int64)
        with self.at_rest():
            for rows in make_even_batches(order, self.recipe.batch):
                _, _, logits, _ = self.heads(vectors[rows][None])
                labels[rows] = take_largest(logits[0])
        return labels


class Aecl(EncoderClusterer[AeclRecipe]):
    """Sample attention, similarity-guided contrast, pseudo-labels."""

    name = "aecl"
    section = "Yao & Li, section 3"
    training = AeclFit
    augmentations = 1
    defaults = AeclRecipe(batch=400, learning_rate=5e-6, head_learning_rate=5e-4)

    @override
    def epochs(self, n: int) -> int:
        return self.recipe.epochs
