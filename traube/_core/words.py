"""Words of texts in any script: letters with their marks, and words of scripts that put no spaces between them."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec

import regex

from traube._core.versions import get_version

SAMPLE = 200
VERSION = "2"  # raise when `split_words` would give other words of some text
INSTALL = "pip install 'traube[segmentation]'"
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SYLLABIC = regex.compile(r"[\p{Han}\p{Hiragana}]")
_KATAKANA = regex.compile(r"[\p{Katakana}ー]+")  # in which Japanese writes words from elsewhere, each as a whole
_SPECIAL = regex.compile(rf"[\p{{M}}{_UNSPACED}]")
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_PLAIN = re.compile(r"\b\w\w+\b")  # scikit-learn's
_WITH_MARKS = regex.compile(r"[\p{L}\p{N}_](?:[\u200c\u200d]?[\p{L}\p{N}\p{M}_])+")
_OTHER = _UNSPACED.replace(r"\p{Katakana}", "")
# runs of Katakana, of other scripts without spaces, and of what stands between them
_RUNS = regex.compile(rf"\p{{Katakana}}[\p{{Katakana}}ー]*|[{_OTHER}][{_OTHER}\p{{M}}々]*|[^{_UNSPACED}]+")
_GRAPHEME = regex.compile(r"\X")
SYLLABLES, LETTERS = 2, 4  # characters of an n-gram that stands for a word: in Chinese and Japanese, and elsewhere


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, of two characters or more.

    A text without combining marks whose script has spaces has the words of scikit-learn's default analyzer. Marks
    belong to their letters, in composed form (NFC). Words of scripts without spaces are those of `segment`.
    """
    if text.isascii() or not _SPECIAL.search(text):
        return _PLAIN.findall(text.lower())
    text = unicodedata.normalize("NFC", text.lower())
    words = []
    for match in _WITH_MARKS.finditer(text):
        words += [word for _, word in cut_unspaced(match[0]) if len(word) > 1]
    return words


def cut_unspaced(word: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of what stands between spaces, and where each begins; a word of a script with spaces is one."""
    if not is_unspaced(word):
        yield 0, word
        return
    for run in _RUNS.finditer(word):
        start = run.start()
        if not is_unspaced(run[0]) or _KATAKANA.fullmatch(run[0]):
            yield start, run[0]
            continue
        for at, part in segment(run[0]):
            yield start + at, part


def is_unspaced(text: str) -> bool:
    """Return whether some of a text is in a script that puts no spaces between words."""
    return not text.isascii() and _IS_UNSPACED.search(text) is not None


def has_segmenter() -> bool:
    """Return whether ICU's dictionaries are installed, which know the words of scripts without spaces."""
    return find_spec("icu4py") is not None


def segment(run: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a run of a script without spaces, and where each begins; without ICU, n-grams of characters."""
    if has_segmenter():
        from icu4py.breakers import WordBreaker

        at = 0
        for part in map(str, WordBreaker(run, "en")):
            yield at, part
            at += len(part)
        return
    length = SYLLABLES if _SYLLABIC.match(run) else LETTERS
    graphemes = list(_GRAPHEME.finditer(run))
    for i in range(max(1, len(graphemes) - length + 1)):
        start, end = graphemes[i].start(), graphemes[min(i + length, len(graphemes)) - 1].end()
        yield start, run[start:end]


def lack_words(texts: Sequence[str]) -> bool:
    """Return whether most of a sample of texts are in a script without spaces, whose words are not known here."""
    if has_segmenter():
        return False
    sample = texts[:: max(1, len(texts) // SAMPLE)]
    return sum(map(is_unspaced, sample)) > len(sample) / 2


@cache
def get_words_version() -> str:
    """Return the version of what splits texts into words, with that of its dictionaries where they are installed."""
    return f"{VERSION}, icu4py {get_version('icu4py')}" if has_segmenter() else VERSION
