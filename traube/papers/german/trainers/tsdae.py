"""TSDAE: an encoder learns to put into one vector what a decoder needs to restore a damaged text (Wang et al. 2021).

The damage is done here: sentence-transformers' keeps words with the probability of deletion, split as in English.
"""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field
from typing_extensions import override

from traube.models.transformer import get_prompt
from traube.tasks.task import Task
from traube.training.loop import Examples, TrainingRecipe
from traube.training.trainer import Trainer

DELETED = 0.6


class TsdaeRecipe(TrainingRecipe):
    """Recipe of a training with TSDAE.

    Its authors pool by the first token; the German benchmark by the mean.
    """

    pooling: Literal["mean", "cls"] = Field("mean", description="how tokens become the one vector, in training")


class Tsdae(Trainer[TsdaeRecipe]):
    """Denoising: the decoder is the encoder, with the same weights."""

    name = "tsdae"
    learns_from = "texts"
    section = "Wehrli et al. 2023, 3.3 and Table 5; Wang et al. 2021"
    defaults = TsdaeRecipe(epochs=1, batch=8, learning_rate=3e-5, evaluate_every=512)

    @override
    def make_examples(self, network: Any, task: Task, texts: Sequence[str]) -> "DamagedTexts":
        return DamagedTexts(network, texts, self.recipe.seed)

    @override
    def make_learner(self, network: Any, examples: "DamagedTexts") -> Any:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss
        from sentence_transformers.sentence_transformer.modules import Pooling
        from torch import nn

        recipe = self.recipe

        class Denoising(nn.Module):
            """The encoder, which also serves as a decoder that sees nothing of the text but its vector."""

            def __init__(self) -> None:
                super().__init__()
                torch.manual_seed(recipe.seed)  # of the cross attention's first weights
                logging.getLogger("transformers").setLevel(logging.ERROR)  # it reports at length that these are new
                pooled = Pooling(network[0].get_embedding_dimension(), pooling_mode=recipe.pooling)
                encoder = SentenceTransformer(modules=[network[0], pooled], device=str(network.device))
                self.loss = DenoisingAutoEncoderLoss(encoder, tie_encoder_decoder=True).to(network.device)

            def forward(self, batch: list[dict[str, torch.Tensor]]) -> torch.Tensor:
                return self.loss(batch, None)

        return Denoising()


class DamagedTexts(Examples):
    """Pairs of a damaged text and the text."""

    def __init__(self, network: Any, texts: Sequence[str], seed: int) -> None:
        super().__init__(len(texts), seed)
        self.network = network
        self.texts = texts

    @override
    def make(self, example: int, rng: np.random.Generator) -> tuple[str, str]:
        return damage(self.texts[example], rng), self.texts[example]

    def collate(self, made: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """Return the tokens of the damaged texts, and of the texts, behind the model's prompt."""
        prompt = get_prompt(self.network)
        return [dict(self.network.preprocess(list(side), prompt=prompt)) for side in zip(*made, strict=True)]


def damage(text: str, rng: np.random.Generator) -> str:
    """Delete six words of ten from a text.

    The text is split at white space, and the words are chosen at random; at least one stays.
    """
    words = text.split()
    kept = rng.random(len(words)) >= DELETED
    if not kept.any() and words:
        kept[int(rng.random() * len(words))] = True
    return " ".join(word for word, stays in zip(words, kept, strict=True) if stays)


TRAINER = Tsdae
