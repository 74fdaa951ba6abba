"""Augmentation of texts by others that mean the same, for contrastive clusterers.

An augmenter (`Augment`) gives the same texts for the same seed: `Eda`, with `find_neighbors` in a model's own space for
synonyms, so that it works offline and in any language; `Contextual`; `Published`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from traube._core.errors import Invalid, Malformed, Missing
from traube._core.hashing import digest
from traube.models.base import Model
from traube.models.language import load_language_model
from traube.models.transformer import best_device

Generator: TypeAlias = np.random.Generator
WORD = re.compile(r"\w+")
BLOCK = 2_048
NEIGHBORS, NEAREST = 5, 0.5  # of a word at most, and the smallest cosine of one
_neighbors: dict[str, dict[str, list[str]]] = {}


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case and without punctuation; an apostrophe joins, a hyphen parts."""
    return WORD.findall(text.lower().replace("'", "").replace("\u2019", ""))


@dataclass(frozen=True)
class Eda:
    """Easy data augmentation (Wei & Zou 2019) with the rates that published augmentations show.

    One of four equally likely operations is applied: some words are replaced by synonyms, synonyms of some words are
    inserted somewhere in the text, some words change places, or some words are deleted. A text without words stays as
    it is; a text whose words have no synonyms may.
    """

    synonyms: Mapping[str, Sequence[str]]  # of a word, in lower case
    share: float = 0.2  # of a text's words that are changed, at least one

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """Return one changed text for each, in their order."""
        random = np.random.default_rng(seed)
        changed = []
        for text in texts:
            if words := split_words(text):
                operation = (self.replace, self.insert, self.swap, self.delete)[random.integers(4)]
                text = " ".join(operation(words, random))
            changed.append(text)
        return changed

    def _count(self, words: Sequence[str]) -> int:
        return max(1, round(self.share * len(words)))

    def replace(self, words: Sequence[str], random: Generator) -> list[str]:
        """Replace some words by synonyms."""
        changed = list(words)
        able = [i for i, word in enumerate(words) if self.synonyms.get(word)]
        for i in random.permutation(able)[: self._count(words)]:
            changed[int(i)] = str(random.choice(self.synonyms[words[int(i)]]))
        return changed

    def insert(self, words: Sequence[str], random: Generator) -> list[str]:
        """Insert synonyms of some words at random places."""
        changed = list(words)
        able = [word for word in words if self.synonyms.get(word)]
        for i in random.permutation(len(able))[: self._count(words)]:
            changed.insert(int(random.integers(len(changed) + 1)), str(random.choice(self.synonyms[able[int(i)]])))
        return changed

    def swap(self, words: Sequence[str], random: Generator) -> list[str]:
        """Swap some pairs of words."""
        changed = list(words)
        for _ in range(self._count(words) if len(words) > 1 else 0):
            i, j = map(int, random.choice(len(words), 2, replace=False))
            changed[i], changed[j] = changed[j], changed[i]
        return changed

    def delete(self, words: Sequence[str], random: Generator) -> list[str]:
        """Delete some words; one stays."""
        gone = set(random.permutation(len(words))[: min(self._count(words), len(words) - 1)].tolist())
        return [word for i, word in enumerate(words) if i not in gone]


def find_neighbors(texts: Iterable[str], model: Model) -> dict[str, list[str]]:
    """Return the nearest words of each word, by a model, nearest first.

    Only words of the given texts are neighbors. A word that contains a number has none, and a word without any is
    absent.

    The vector of a word is that of the word as a text, so any model but a corpus-bound one will do. The result of the
    last call is kept: other seeds and methods ask for the same one.
    """
    if model.corpus_bound:
        raise Invalid(f"model '{model.name}' is fitted on whole texts, and words have no neighbors in it")
    words = sorted({word for text in texts for word in split_words(text) if word.isalpha()})
    if len(words) < 2:
        return {}
    key = digest([words, model.fingerprint])
    if (known := _neighbors.get(key)) is not None:
        return known
    vectors = np.asarray(model.encode(words), dtype=np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    neighbors = {}
    for start in range(0, len(words), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        diagonal = np.arange(len(cosines))
        cosines[diagonal, start + diagonal] = -1
        for i, row in enumerate(cosines):
            near = np.flatnonzero(row >= NEAREST)
            if len(near):
                best = near[np.argsort(-row[near], kind="stable")][:NEIGHBORS]
                neighbors[words[start + i]] = [words[j] for j in best]
    _neighbors.clear()
    _neighbors[key] = neighbors
    return neighbors


@dataclass(frozen=True)
class Published:
    """Texts that were augmented once, by somebody else; the seed has no effect."""

    by_text: Mapping[str, str]  # the augmented text of each

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """Return the augmented text of each, in their order."""
        if absent := [text for text in texts if text not in self.by_text]:
            raise Missing(
                f"{len(absent)} of {len(texts)} texts have no published augmentation, such as {absent[0][:60]!r}: "
                "use another augmentation"
            )
        return [self.by_text[text] for text in texts]


@dataclass(frozen=True)
class Contextual:
    """Augmentation by a masked language model, which replaces some words, as SCCL (a fifth of the words) and RSTC (a tenth) do.

    All chosen words of a text are masked at once, and each is drawn from the `most` likeliest other whole words by their
    probabilities.
    """

    folder: Path  # of a model with a head for masked words, as `transformers` saves it
    share: float = 0.2  # of a text's words that are replaced, at least one
    most: int = 10  # words to draw from
    length: int = 128  # tokens of a text that are read; the rest stays as it is
    batch: int = 64  # texts read at once

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """Return one changed text for each, in their order."""
        import torch

        random = np.random.default_rng(seed)
        changed = []
        for start in range(0, len(texts), self.batch):
            tokenizer, network, whole = self._loaded
            batch = [split_words(text) for text in texts[start : start + self.batch]]
            chosen, masked = [], []
            for words in batch:
                count = max(1, round(self.share * len(words)))
                at = sorted(random.permutation(len(words))[:count].tolist()) if words else []
                chosen.append(at)
                masked.append(" ".join(tokenizer.mask_token if i in at else word for i, word in enumerate(words)))

            read = tokenizer(masked, padding=True, truncation=True, max_length=self.length, return_tensors="pt")
            with torch.inference_mode():
                scores = network(**read.to(network.device)).logits.float().cpu()
            places = (read["input_ids"] == tokenizer.mask_token_id).cpu().numpy()

            for row, (words, at) in enumerate(zip(batch, chosen, strict=True)):
                # a truncated text has fewer places than chosen words
                for i, place in zip(at, np.flatnonzero(places[row]), strict=False):
                    words[i] = self._draw(scores[row, int(place)].numpy(), words[i], whole, random)
            changed += batch
        return [" ".join(words) if words else text for words, text in zip(changed, texts, strict=True)]

    def _draw(self, scores: Any, word: str, whole: Mapping[int, str], random: Generator) -> str:
        """Draw a word for a place, from the scores of all tokens."""
        ids = np.array([i for i, other in whole.items() if other.lower() != word])
        if not len(ids):
            return word
        best = ids[np.argsort(-scores[ids], kind="stable")[: self.most]]
        weights = np.exp(scores[best].astype(np.float64) - scores[best].max())
        return whole[int(random.choice(best, p=weights / weights.sum()))]

    @cached_property
    def _loaded(self) -> tuple[Any, Any, dict[int, str]]:
        """The tokenizer, the network, and the tokens that are whole words."""
        tokenizer, network = load_language_model(self.folder, "masked")
        if tokenizer.mask_token is None:
            raise Malformed(f"{self.folder}: its tokenizer has no mask: it is of no masked language model")

        # whole words are the tokens that begin one, where the vocabulary marks beginnings, and all but the marked ones,
        # where it marks the rest
        vocabulary = tokenizer.get_vocab()
        marks = "\u0120\u2581"  # of byte-level BPE, of SentencePiece
        marked = any(token[:1] in marks and len(token) > 1 for token in vocabulary if token)
        begins = {token: i for token, i in vocabulary.items() if token and (token[0] in marks or not marked)}
        plain = {i: token.lstrip(marks) for token, i in begins.items() if token not in tokenizer.all_special_tokens}
        whole = {i: word for i, word in sorted(plain.items()) if WORD.fullmatch(word)}
        return tokenizer, network.to(best_device()).eval(), whole
