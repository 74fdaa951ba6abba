"""COB: training on the clustering metric itself (Kashyapi & Dietz, "Learn The Big Picture", RepL4NLP 2021).

The loss is the metric of a clustering of a split's vectors, which has no gradient; blackbox backpropagation
(Vlastelica et al. 2020) says dL/dD = (A' - A) / lambda, with A = cluster(D), g = dL/dA and A' = cluster(max(D +
lambda g, 0)).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube._core.errors import Failed, Invalid
from traube._pipeline.executors import cores
from traube.tasks.task import Task
from traube.training.clusterings import ClusteringRecipe, ClusteringTrainer, Problem, make_text_encoder
from traube.training.loop import Examples
from traube.training.trainer import Ranges

if TYPE_CHECKING:
    import torch

# Distances float64 [n, n] and a number of clusters in; labels int64 [n] out.
Clusterer = Callable[[NDArray[np.float64], int], NDArray[np.int64]]
Loss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


def linkage(kind: Literal["average", "complete", "single"]) -> Clusterer:
    """Return scikit-learn's agglomerative clustering of a distance matrix."""
    from sklearn.cluster import AgglomerativeClustering

    def cluster(distances: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        return AgglomerativeClustering(k, metric="precomputed", linkage=kind).fit_predict(distances)

    return cluster


class Blackbox:
    """Clustering of distance matrices, with blackbox backpropagation's gradient.

    Parameters
    ----------
    lam : float
        The paper's lambda: how far distances are moved; above 0.
    cluster : Clusterer
        Any clusterer of a distance matrix.
    """

    def __init__(self, lam: float, cluster: Clusterer) -> None:
        if not 0 < lam < np.inf:
            raise Invalid(
                f"lambda is {lam:g}; it must be above 0 and finite, since distances are moved by lambda times the gradient"
            )
        self.lam = lam
        self.cluster = cluster
        self.steps = self.shortcuts = 0  # gradients, and those of them that needed no second clustering

    def adjacency(
        self, distances: Sequence["torch.Tensor"], gold: Sequence["torch.Tensor"]
    ) -> tuple["torch.Tensor", ...]:
        """Return the adjacency matrix of each split's clustering, with as many clusters as there are classes.

        Parameters
        ----------
        distances : sequence of Tensor
            Distances of each split, float [n, n], symmetric with diagonal 0; n may differ.
        gold : sequence of Tensor
            Adjacency of the classes of each split, float [n, n], 1 where two items share a class.

        Returns
        -------
        like `gold`, of the clusterings
            In backward, the gradient (A' - A) / lambda.
        """
        import torch

        class AdjacencyFunction(torch.autograd.Function):
            @staticmethod
            def forward(
                ctx: Any, box: Blackbox, gold: list[torch.Tensor], *distances: torch.Tensor
            ) -> tuple[torch.Tensor, ...]:
                given = [d.detach().double().cpu().numpy() for d in distances]
                golden = [t.double().cpu().numpy() for t in gold]
                clustered = _map_in_threads(box.solve, given, [count_classes(t) for t in golden])
                ctx.box, ctx.given, ctx.golden, ctx.clustered = box, given, golden, clustered
                return tuple(torch.from_numpy(a).to(d) for a, d in zip(clustered, distances, strict=True))

            @staticmethod
            def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
                slopes = [g.double().cpu().numpy() for g in gradients]
                moved = _map_in_threads(ctx.box.cluster_moved, ctx.given, slopes, ctx.golden)
                differences = [(m - a) / ctx.box.lam for m, a in zip(moved, ctx.clustered, strict=True)]
                return (None, None, *(torch.from_numpy(d).to(g) for d, g in zip(differences, gradients, strict=True)))

        return AdjacencyFunction.apply(self, [t.detach() for t in gold], *distances)

    def solve(self, distances: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        """Return the adjacency matrix [n, n] of the clustering into k; one cluster and n clusters need no clusterer."""
        n = len(distances)
        if not np.isfinite(distances).all():
            raise Failed("a distance between two vectors is NaN or infinite")
        if k == 1:
            return np.ones((n, n))
        if k == n:
            return np.eye(n)
        labels = self.cluster(distances, k)
        return (labels[:, None] == labels[None, :]).astype(np.float64)

    def cluster_moved(
        self, distances: NDArray[np.float64], gradient: NDArray[np.float64], gold: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return A', the adjacency matrix of the distances moved by lambda times the gradient."""
        self.steps += 1
        after = np.maximum(distances + self.lam * (gradient + gradient.T) / 2, 0.0)
        np.fill_diagonal(after, 0.0)
        # where all distances within classes are 0 and those between them are not, A' is the gold clustering
        within = gold > 0
        if not after[within].any() and after[~within].all():
            self.shortcuts += 1
            return gold
        return self.solve(after, count_classes(gold))


def count_classes(gold: NDArray[np.float64]) -> int:
    """Return the number of classes of an adjacency matrix."""
    return round(float((1 / gold.sum(axis=1)).sum()))


def _map_in_threads(function: Callable[..., Any], *arguments: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(min(cores(), len(arguments[0]))) as threads:
        return list(threads.map(function, *arguments))


# Losses of an adjacency matrix A, float [n, n] with diagonal 1, against the gold one, T; lambda goes with their scale.


def rand_loss(clustered: "torch.Tensor", gold: "torch.Tensor") -> "torch.Tensor":
    """Return the Rand loss, sum |A - T| = n (n - 1) (1 - RI).

    It is computed as A (1 - T) + (1 - A) T, which has a slope at its minimum (section 3.2).
    """
    return (clustered * (1 - gold) + (1 - clustered) * gold).sum()


def ari_loss(clustered: "torch.Tensor", gold: "torch.Tensor") -> "torch.Tensor":
    """Return 1 - ARI (Hubert & Arabie 1985) from counts of ordered pairs.

    The loss is 0 where both clusterings have single items only, or both have one cluster.
    """
    n = len(gold)
    together, in_class, in_cluster = (clustered * gold).sum() - n, gold.sum() - n, clustered.sum() - n
    chance = in_class * in_cluster / max(n * (n - 1), 1)
    rest = (in_class + in_cluster) / 2 - chance
    return 1 - (together - chance) / rest if rest.detach() != 0 else (clustered - gold).abs().sum()


def purity_loss(clustered: "torch.Tensor", gold: "torch.Tensor") -> "torch.Tensor":
    """Return 1 - purity; purity is the mean over items of the share of their cluster's commonest class."""
    # (A T) counts, for items i and j, how many of i's cluster are of j's class
    commonest = (clustered * (clustered @ gold)).amax(dim=1)
    return 1 - (commonest / clustered.sum(dim=1)).mean()


LOSSES: dict[str, Loss] = {"ri": rand_loss, "ari": ari_loss, "purity": purity_loss}


def margin(distances: Sequence["torch.Tensor"], gold: Sequence["torch.Tensor"]) -> "torch.Tensor":
    """Return the mean distance within classes less that between them, if any.

    The means are over all pairs with the diagonal (section 3.4).
    """
    within = sum((d * t).sum() for d, t in zip(distances, gold, strict=True)) / sum(t.sum() for t in gold)
    between = sum((1 - t).sum() for t in gold)
    if between == 0:
        return within
    return within - sum((d * (1 - t)).sum() for d, t in zip(distances, gold, strict=True)) / between


def pairwise_distances(vectors: "torch.Tensor") -> "torch.Tensor":
    """Return Euclidean distances [n, n] of vectors [n, d]; between equal vectors 0, with gradient 0."""
    import torch

    return torch.cdist(vectors[None], vectors[None], compute_mode="donot_use_mm_for_euclid_dist")[0]


class CobRecipe(ClusteringRecipe):
    """Recipe of a training with COB.

    The paper tuned lambda and r by task: 90 and 1 on 20 Newsgroups, 47 and 3.8 on CAR coarse, 103 and 0.3 on fine.
    """

    lam: float = Field(90.0, gt=0, description="the paper's lambda: how far distances are moved for the gradient")
    r: float = Field(1.0, ge=0, description="weight of the margin between classes")
    metric: Literal["ri", "ari", "purity"] = Field("ri", description="what is optimized; lambda goes with its scale")
    clusterer: Literal["average", "complete", "single"] = Field("average", description="linkage")


class Cob(ClusteringTrainer[CobRecipe]):
    """Clustering Optimization as Blackbox."""

    name = "cob"
    section = "Kashyapi & Dietz 2021, section 3"
    searched: ClassVar[Ranges] = {"lam": (20.0, 200.0), "r": (0.0, 10.0), "batch": [1, 2]}  # of the paper's code
    defaults = CobRecipe(
        epochs=1, batch=1, learning_rate=2e-5, schedule="linear", warmup=0.1, weight_decay=0.01, evaluate_every=100
    )

    @override
    def make_examples(self, network: Any, task: Task, texts: Sequence[str]) -> "Problems":
        return Problems(self.split_problems(task, texts), texts, self.recipe.seed)

    @override
    def make_learner(self, network: Any, examples: "Problems") -> Any:
        import torch
        from torch import nn

        recipe = self.recipe

        class Clustering(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.encoder = make_text_encoder(network, examples.texts, recipe)
                self.box = Blackbox(recipe.lam, linkage(recipe.clusterer))

            def forward(self, batch: list[Problem]) -> torch.Tensor:
                sizes = [len(p.rows) for p in batch]
                vectors = self.encoder(np.concatenate([p.rows for p in batch])).float()
                distances = [pairwise_distances(v) for v in vectors.split(sizes)]
                classes = [torch.from_numpy(p.classes).to(vectors.device) for p in batch]
                gold = [(c[:, None] == c[None, :]).to(vectors) for c in classes]
                return cob_loss(self.box, LOSSES[recipe.metric], recipe.r, distances, gold)

        return Clustering()

    def report(self, learner: Any) -> dict[str, float]:
        """Return `shortcut`: the share of gradients since the last report that needed no second clustering."""
        box: Blackbox = learner.box
        share = {"shortcut": box.shortcuts / box.steps} if box.steps else {}
        box.steps = box.shortcuts = 0
        return share


class Problems(Examples):
    """Examples of which each is a split."""

    def __init__(self, problems: list[Problem], texts: Sequence[str], seed: int) -> None:
        super().__init__(len(problems), seed)
        self.problems, self.texts = problems, texts

    @override
    def make(self, example: int, rng: np.random.Generator) -> Problem:
        return self.problems[example]


def cob_loss(
    box: Blackbox, loss: Loss, r: float, distances: Sequence["torch.Tensor"], gold: Sequence["torch.Tensor"]
) -> "torch.Tensor":
    """Return L_r: the mean loss of the clusterings over the batch, and r times the margin (sections 3.3 and 3.4)."""
    clustered = box.adjacency(distances, gold)
    missed = sum(loss(a, t) for a, t in zip(clustered, gold, strict=True)) / len(gold)
    return missed + r * margin(distances, gold)


TRAINER = Cob
