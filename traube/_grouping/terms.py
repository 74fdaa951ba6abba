"""The words that can name a group: no stop words, one form of each, and two together where they mostly go together."""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import unescape
from typing import TypeAlias

import numpy as np
import regex
from numpy.typing import NDArray
from scipy import sparse

from traube._core.words import cut_unspaced
from traube.tasks.languages import detect_languages

SHORTEST, SHORTEST_COMPACT = 3, 2  # letters of a word, and of one in a script whose letters are syllables
CHARACTERS = 10_000  # that are read of a text
SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
# letters with their marks, perhaps with an apostrophe
_WORD = regex.compile(r"\p{L}(?:[\u200c\u200d]?[\p{L}\p{M}])*(?:['’]\p{L}[\p{L}\p{M}]*)?")
_COMPACT = regex.compile(r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
# what is no word: addresses, names of accounts, line breaks as programs spell them, and what stretches Arabic words
_NO_WORDS = re.compile(r"(?:https?://|www\.)\S+|\S*@\S+|\\[nrt]")
_STRETCH = "\u0640"
_ADJACENT = re.compile(r"[\s\-]+")  # what may stand between the words of a pair

Term: TypeAlias = tuple[str, ...]  # the stems of a word, or of two


@dataclass(frozen=True)
class Terms:
    """The terms of texts, and which texts have them."""

    counts: sparse.csr_matrix  # csr [texts, terms], how often a text has a term
    stems: list[Term]  # of each term, one or two
    shown: NDArray[np.object_]  # each term in its most frequent form


class TermReader:
    """A reader of texts' terms: they are read once, however many clusterings of the texts are described."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._read: tuple[NDArray[np.int64], Terms] | None = None

    def read(self, rows: NDArray[np.int64]) -> Terms:
        """Return the terms of some of the texts."""
        if self._read is None or not np.array_equal(rows, self._read[0]):
            self._read = rows, find_terms([self._texts[i][:CHARACTERS] for i in rows])
        return self._read[1]


def find_terms(texts: Sequence[str]) -> Terms:
    """Return the words and pairs of words of texts, without stop words, stemmed.

    Stop words are those of the texts' languages and of English; stems follow the most frequent language.
    """
    import stopwordsiso
    from Stemmer import Stemmer

    spoken = detect_languages(texts)
    stop = frozenset(word for code in {*spoken, "en"} & stopwordsiso.langs() for word in stopwordsiso.stopwords(code))
    algorithm = SNOWBALL.get(spoken[0]) if spoken else None
    stem = cache(Stemmer(algorithm).stemWord) if algorithm else str
    forms: dict[Term, Counter[str]] = {}
    numbers: dict[Term, int] = {}
    rows, columns = array("q"), array("q")
    for row, text in enumerate(texts):
        for term, form in _terms(text, stop, stem):
            forms.setdefault(term, Counter())[form] += 1
            rows.append(row)
            columns.append(numbers.setdefault(term, len(numbers)))
    # entries of one place are added up
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(numbers)))
    # the most frequent form; of several the shortest, then the first of the alphabet
    ranked = [min((-count, len(form), form) for form, count in forms[term].items()) for term in numbers]
    return Terms(counts, list(numbers), np.array([form for _, _, form in ranked], dtype=object))


def _terms(text: str, stop: frozenset[str], stem: Callable[[str], str]) -> Iterator[tuple[Term, str]]:
    """Yield the terms of a text, each with its form in the text."""
    before: tuple[str, str, int] | None = None  # stem, form and end of the word before
    text = _NO_WORDS.sub(" | ", unescape(text))  # a sign, since words on its two sides do not belong together
    text = text if text.isascii() else unicodedata.normalize("NFC", text.replace(_STRETCH, ""))
    for start, word in _find_words(text):
        shortest = SHORTEST_COMPACT if _COMPACT.match(word) else SHORTEST
        if len(word) < shortest or word.lower() in stop:
            before = None
            continue
        now = stem(unicodedata.normalize("NFKC", word).lower())
        yield (now,), word
        if before and before[0] != now and _ADJACENT.fullmatch(text, before[2], start):
            yield (before[0], now), f"{before[1]} {word}"
        before = now, word, start + len(word)


def _find_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a text, and where each begins."""
    for match in _WORD.finditer(text):
        for at, word in cut_unspaced(match[0]):
            yield match.start() + at, word
