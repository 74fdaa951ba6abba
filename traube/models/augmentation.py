"""Other texts that mean the same: what contrastive clusterers learn from besides the texts.

An augmenter is a function (texts, seed) -> as many texts; the same seed, the same texts. There are
`Eda`, whose synonyms are neighbours in a model's own space (`neighbours`), so that it works offline
and in any language; `Contextual`, by a masked language model; and `Published`, of texts that others
have published (`traube.tasks.source.Source.augmented`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from traube.core.errors import TraubeError
from traube.models.base import Model
from traube.models.language import load_language_model
from traube.models.transformer import best_device

Augment: TypeAlias = Callable[[Sequence[str], int], list[str]]
Generator: TypeAlias = np.random.Generator
WORD = re.compile(r"\w+")
BLOCK = 2_048
NEIGHBOURS, NEAREST = 5, 0.5  # of a word at most, and the smallest cosine of one


def words_of(text: str) -> list[str]:
    """The words of a text as augmentation sees them: in lower case and without punctuation. An
    apostrophe joins, a hyphen parts.
    """
    return WORD.findall(text.lower().replace("'", "").replace("\u2019", ""))


# EDA


@dataclass(frozen=True)
class Eda:
    """Easy data augmentation (Wei & Zou 2019) with the rates that the published texts of AECL show
    (ALGORITHMS E.1): each text is changed by exactly one of four operations, each as likely: some
    words become synonyms, or get a synonym somewhere in the text, or change places, or go.

    A text without words stays as it is; one whose words have no synonyms may.

    Parameters
    ----------
    synonyms : of a word, in lower case
    share : of a text's words that are changed, at least one
    """

    synonyms: Mapping[str, Sequence[str]]
    share: float = 0.2

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """One changed text for each, in their order."""
        random = np.random.default_rng(seed)
        return [self._changed(text, random) for text in texts]

    def _changed(self, text: str, random: Generator) -> str:
        words = words_of(text)
        if not words:
            return text
        operation = (self.replaced, self.inserted, self.swapped, self.deleted)[random.integers(4)]
        return " ".join(operation(words, random))

    def _count(self, words: Sequence[str]) -> int:
        return max(1, round(self.share * len(words)))

    def replaced(self, words: Sequence[str], random: Generator) -> list[str]:
        """Some words have become synonyms."""
        changed = list(words)
        able = [i for i, word in enumerate(words) if self.synonyms.get(word)]
        for i in random.permutation(able)[: self._count(words)]:
            changed[int(i)] = str(random.choice(self.synonyms[words[int(i)]]))
        return changed

    def inserted(self, words: Sequence[str], random: Generator) -> list[str]:
        """Synonyms of some words are somewhere among them."""
        changed = list(words)
        able = [word for word in words if self.synonyms.get(word)]
        for i in random.permutation(len(able))[: self._count(words)]:
            changed.insert(int(random.integers(len(changed) + 1)), str(random.choice(self.synonyms[able[int(i)]])))
        return changed

    def swapped(self, words: Sequence[str], random: Generator) -> list[str]:
        """Some pairs of words have changed places."""
        changed = list(words)
        for _ in range(self._count(words) if len(words) > 1 else 0):
            i, j = map(int, random.choice(len(words), 2, replace=False))
            changed[i], changed[j] = changed[j], changed[i]
        return changed

    def deleted(self, words: Sequence[str], random: Generator) -> list[str]:
        """Some words are gone; one stays."""
        gone = set(random.permutation(len(words))[: min(self._count(words), len(words) - 1)].tolist())
        return [word for i, word in enumerate(words) if i not in gone]


def neighbours(texts: Iterable[str], model: Model) -> dict[str, list[str]]:
    """For each word of some texts the words of these that a model puts nearest to it. What contains a
    number has no neighbours.

    Parameters
    ----------
    model : its vector of a word is that of the word as a text; so any but a corpus-bound one will do

    Returns
    -------
    by word its neighbours, the nearest first; a word without any is absent

    Raises
    ------
    TraubeError
        If the model is bound to a corpus.
    """
    if model.corpus_bound:
        raise TraubeError(f"model '{model.name}' is fitted on whole texts, and words have no neighbours in it")
    words = sorted({word for text in texts for word in words_of(text) if word.isalpha()})
    if len(words) < 2:
        return {}
    vectors = np.asarray(model.encode(words), dtype=np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    found = {}
    for start in range(0, len(words), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        own = np.arange(len(cosines))
        cosines[own, start + own] = -1
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEIGHBOURS]
        for i, columns in enumerate(best):
            near = [words[j] for j in columns if cosines[i, j] >= NEAREST]
            if near:
                found[words[start + i]] = near
    return found


# what others have published


@dataclass(frozen=True)
class Published:
    """Texts that were augmented once, by somebody else; the seed means nothing.

    Parameters
    ----------
    by_text : the augmented text of each
    """

    by_text: Mapping[str, str]

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """The augmented text of each, in their order.

        Raises
        ------
        TraubeError
            If one of them has none.
        """
        absent = [text for text in texts if text not in self.by_text]
        if absent:
            raise TraubeError(
                f"{len(absent)} of {len(texts)} texts have no published augmentation, such as {absent[0][:60]!r}: "
                "use another augmentation"
            )
        return [self.by_text[text] for text in texts]


# contextual substitution


@dataclass(frozen=True)
class Contextual:
    """Some words are replaced by what a masked language model expects in their place, as SCCL (a fifth
    of the words) and RSTC (a tenth) do.

    Each chosen word is masked, all of a text at once, and drawn from the `most` likeliest whole words
    but the word itself, by their probabilities.

    Parameters
    ----------
    folder : of a model with a head for masked words, as `transformers` saves it
    share : of a text's words that are replaced, at least one
    most : words to draw from
    length : tokens of a text that are read; the rest stays as it is
    batch : texts read at once
    """

    folder: Path
    share: float = 0.2
    most: int = 10
    length: int = 128
    batch: int = 64

    def __call__(self, texts: Sequence[str], seed: int) -> list[str]:
        """One changed text for each, in their order.

        Raises
        ------
        TraubeError
            If the folder holds no masked language model.
        """
        random = np.random.default_rng(seed)
        changed = []
        for start in range(0, len(texts), self.batch):
            changed += self._batch([words_of(text) for text in texts[start : start + self.batch]], random)
        return [" ".join(words) if words else text for words, text in zip(changed, texts, strict=True)]

    def _batch(self, texts: list[list[str]], random: Generator) -> list[list[str]]:
        import torch

        tokenizer, network, whole = self._loaded
        chosen = [self._chosen(len(words), random) for words in texts]
        masked = [
            [tokenizer.mask_token if i in at else word for i, word in enumerate(words)]
            for words, at in zip(texts, chosen, strict=True)
        ]
        read = tokenizer(
            [" ".join(words) for words in masked],
            padding=True,
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
        )
        with torch.inference_mode():
            scores = network(**read.to(network.device)).logits.float().cpu()
        places = (read["input_ids"] == tokenizer.mask_token_id).cpu().numpy()
        for row, (words, at) in enumerate(zip(texts, chosen, strict=True)):
            # of a text that is cut there are fewer places than words were chosen
            for i, place in zip(at, np.flatnonzero(places[row]), strict=False):
                words[i] = self._drawn(scores[row, int(place)].numpy(), words[i], whole, random)
        return texts

    def _chosen(self, n: int, random: Generator) -> list[int]:
        if not n:
            return []
        return sorted(random.permutation(n)[: max(1, round(self.share * n))].tolist())

    def _drawn(self, scores: Any, word: str, whole: Mapping[int, str], random: Generator) -> str:
        """A word for a place, from the scores of all tokens."""
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
            raise TraubeError(f"{self.folder}: its tokenizer has no mask: it is of no masked language model")
        return tokenizer, network.to(best_device()).eval(), _whole_words(tokenizer)


def _whole_words(tokenizer: Any) -> dict[int, str]:
    """The tokens that are words by themselves: those that begin one, where the vocabulary marks
    beginnings, and all but the marked ones, where it marks the rest.
    """
    vocabulary = tokenizer.get_vocab()
    marks = "\u0120\u2581"  # of byte-level BPE, of SentencePiece
    marked = any(token[:1] in marks and len(token) > 1 for token in vocabulary if token)
    begins = {token: i for token, i in vocabulary.items() if token and (token[0] in marks or not marked)}
    plain = {i: token.lstrip(marks) for token, i in begins.items() if token not in tokenizer.all_special_tokens}
    return {i: word for i, word in sorted(plain.items()) if WORD.fullmatch(word)}
