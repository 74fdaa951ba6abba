"""Vectors of the sentences of a passage, to which attention looks (QS3M, section 3.1.3)."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from traube._core.arrays import Ints
from traube._core.hashing import digest
from traube.models.base import BatchEncoder
from traube.models.pairwise import DelegateMixin
from traube.models.transformer import Transformer
from traube.models.vectors import Dense

SENTENCES = 10  # of a passage, at most
TEXTS_AT_ONCE = 256
_END_OF_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’»)\]]))\s+")  # perhaps with a quotation's end


class Sentences(DelegateMixin, BatchEncoder):
    """An encoder of whole texts and their first sentences.

    The vector of a text is the whole text's and those of its first sentences, one after the other: float32
    [n, (1 + SENTENCES) d], with zeros where a text has fewer.
    """

    def __init__(self, base: Transformer) -> None:
        self.base = self._other = base
        self.name = base.name
        self.card = base.card

    @property
    def fingerprint(self) -> str:
        """Return a hash of the way sentences are split and of the encoder's fingerprint."""
        return digest(["split_sentences", SENTENCES, _END_OF_SENTENCE.pattern, self.base.fingerprint])

    def load(self) -> int:
        """Bring the encoder's weights into memory; return their bytes."""
        return self.base.load()

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield vectors in the order of the texts, some at once: positions and float32 [b, (1 + SENTENCES) d]."""
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            pieces = [[text, *split_sentences(text)[:SENTENCES]] for text in texts[start : start + TEXTS_AT_ONCE]]
            different = list(dict.fromkeys(piece for of_text in pieces for piece in of_text))
            vectors, row = self.base.encode(different), {piece: i for i, piece in enumerate(different)}
            block = np.zeros((len(pieces), 1 + SENTENCES, vectors.shape[1]), dtype=np.float32)
            for i, of_text in enumerate(pieces):
                block[i, : len(of_text)] = vectors[[row[piece] for piece in of_text]]
            yield np.arange(start, start + len(pieces)), block.reshape(len(pieces), -1)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, at least one.

    A sentence ends with a full stop, exclamation or question mark, perhaps a closing quotation mark or bracket, and white
    space. (Abbreviations end some too early; attention weighs the halves.)
    """
    return [piece for part in _END_OF_SENTENCE.split(text) if (piece := part.strip())] or [text]
