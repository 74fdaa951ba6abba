"""Triplet loss on gold clusterings (Kashyapi & Dietz 2021, section 4.2).

The loss is max(0, |a - p| - |a - n| + margin), of all triples of a split in which the first two share a class and the
third does not. (The reference's enumeration has some triples twice, and some with anchor and positive the same: its
third index begins too early.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube._core.errors import TooFew
from traube.tasks.task import Task
from traube.training.clusterings import ClusteringRecipe, ClusteringTrainer, Problem, make_text_encoder
from traube.training.loop import Examples


class TripletRecipe(ClusteringRecipe):
    """Recipe of a training with triplets."""

    margin: float = Field(5.0, ge=0, description="how much farther the negative is to be")
    share: float = Field(1.0, gt=0, le=1, description="share of all triples that makes an epoch, drawn once")


class Triplet(ClusteringTrainer[TripletRecipe]):
    """Trainer that moves anchors nearer to texts of their class than to others."""

    name = "triplet"
    section = "Kashyapi & Dietz 2021, section 4.2, SBERT Triplet"
    defaults = TripletRecipe(
        epochs=1, batch=16, learning_rate=2e-5, schedule="linear", warmup=0.1, weight_decay=0.01, evaluate_every=100
    )
    paper: ClassVar[Mapping[str, Any]] = {"share": 0.04}  # of the reference code: a random 25th, drawn once

    @override
    def make_examples(self, network: Any, task: Task, texts: Sequence[str]) -> "Triples":
        return Triples(self.split_problems(task, texts), texts, self.recipe.share, self.recipe.seed)

    @override
    def make_learner(self, network: Any, examples: "Triples") -> Any:
        import torch
        from torch import nn

        recipe = self.recipe

        class Anchored(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.encoder = make_text_encoder(network, examples.texts, recipe)
                self.loss = nn.TripletMarginLoss(margin=recipe.margin, p=2)

            def forward(self, batch: NDArray[np.int64]) -> torch.Tensor:
                vectors = self.encoder(batch.reshape(-1)).float()
                anchors, positives, negatives = vectors.reshape(len(batch), 3, -1).unbind(dim=1)
                return self.loss(anchors, positives, negatives)

        return Anchored()


class Triples(Examples):
    """Rows of anchor, positive and negative, of a share of all triples in (0, 1]."""

    def __init__(self, problems: Sequence[Problem], texts: Sequence[str], share: float, seed: int) -> None:
        self.problems, self.texts = problems, texts
        self.pairs = []  # int64 [m, 2] for each split: all pairs i < j of one class
        for problem in problems:
            i, j = np.triu_indices(len(problem.classes), k=1)
            same = problem.classes[i] == problem.classes[j]
            self.pairs.append(np.stack([i[same], j[same]], axis=1))
        # each pair of a split goes with every text of another class
        counts = [
            len(p.classes) - np.bincount(p.classes)[p.classes[pairs[:, 0]]]
            for p, pairs in zip(problems, self.pairs, strict=True)
        ]
        self.split_of_pair = np.repeat(np.arange(len(problems)), [len(c) for c in counts])
        self.first_of_pair = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        self.first_pair = np.concatenate([[0], np.cumsum([len(c) for c in counts])]).astype(np.int64)
        self.total = int(self.first_of_pair[-1])
        if not self.total:
            raise TooFew("there are no triples: no train split has two texts of one class and one of another")
        n = max(1, round(share * self.total))
        self.drawn = None if n == self.total else np.random.default_rng(seed).choice(self.total, n, replace=False)
        super().__init__(n, seed)

    def make(self, example: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the rows of anchor, positive and negative, int64 [3]; the first two come in random order."""
        number = example if self.drawn is None else int(self.drawn[example])
        pair = int(np.searchsorted(self.first_of_pair, number, side="right")) - 1
        split = int(self.split_of_pair[pair])
        problem = self.problems[split]
        a, p = self.pairs[split][pair - self.first_pair[split]]
        negatives = np.flatnonzero(problem.classes != problem.classes[a])
        n = negatives[number - self.first_of_pair[pair]]
        return problem.rows[[a, p, n] if rng.random() < 0.5 else [p, a, n]]

    def collate(self, made: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return a batch of triples, int64 [b, 3]."""
        return np.stack(made)


TRAINER = Triplet
