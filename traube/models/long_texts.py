"""Texts that are longer than a model reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traube.models.base import Model
from traube.models.transformer import Transformer

SAMPLE = 200  # texts whose tokens are counted
MOST = 40  # times as many characters as a model reads tokens are looked at, of each text


@dataclass(frozen=True)
class LongTexts:
    """The number of texts that are longer than a model reads, and by how much."""

    count: int
    texts: int
    limit: int  # tokens that the model reads
    median: int  # tokens of the long ones
    is_estimate: bool  # by a sample of those that may be long

    def describe(self, model: str) -> str:
        """Return a line on them: `60 of 60 texts are longer than the 256 tokens that minilm reads (402 in the median)`."""
        about = "about " if self.is_estimate else ""
        are = "text is" if self.texts == 1 else "texts are"
        longer = f"longer than the {self.limit} tokens that {model} reads ({self.median} in the median)"
        return f"{about}{self.count} of {self.texts} {are} {longer}"


def measure_long_texts(model: Model, texts: Sequence[str]) -> LongTexts | None:
    """Return how many texts are longer than a model reads; None if none is, or nothing says how much it reads.

    Tokens are counted of at most 200 of the texts that have more bytes than the model reads tokens.
    """
    encoder = model.encoder
    if not isinstance(encoder, Transformer):
        return None
    limit = encoder.max_length
    if limit is None:
        return None
    candidates = [text for text in texts if len(text.encode(errors="replace")) > limit - 2]  # two mark the ends
    drawn = np.sort(np.random.default_rng(0).permutation(len(candidates))[:SAMPLE])
    lengths = encoder.count_tokens([candidates[i][: MOST * limit] for i in drawn.tolist()])
    long = lengths[lengths > limit]
    if not len(long):
        return None
    count = round(len(candidates) * len(long) / len(lengths))
    return LongTexts(count, len(texts), limit, int(np.median(long)), is_estimate=len(candidates) > SAMPLE)
