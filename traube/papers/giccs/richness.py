"""Lexical richness of a text: tokens, types, RTTR and MTLD (GiCCS, section 3.5).

Both measures are meant to depend less on a text's length than types per token do. RTTR still depends on it, so compare
RTTR only of texts of about one length.

The paper computes them with the library LexicalRichness, whose tokens are not those between white space: see
`lexical_tokens`. What the library gives is pinned in tests/papers/giccs/lexical_richness.json.
"""

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from traube._core.errors import Invalid

DASHES = "-\N{EN DASH}\N{EM DASH}"
# punctuation of ASCII alone: German opening quotes and ellipses stay part of a token, as in LexicalRichness
_LEXICAL = {ord(c): " " for c in string.punctuation} | {ord(c): None for c in string.digits + DASHES}


@dataclass(frozen=True)
class Richness:
    """The words of a text."""

    tokens: int  # between white space
    lexical_tokens: int  # of LexicalRichness, of which the measures below are computed
    types: int  # different ones of these
    lemmas: int | None  # different base forms; None without spaCy's model of the language
    rttr: float  # root type-token ratio
    mtld: float  # measure of textual lexical diversity


def lexical_tokens(text: str) -> list[str]:
    """Return the tokens that LexicalRichness 0.5.1 makes of a text by default.

    The text is in lower case, without the digits 0 to 9 and without hyphens and dashes, whose sides close up; any
    other ASCII punctuation separates tokens.

    Examples
    --------
    >>> lexical_tokens("Um 20 Uhr im Kino-Saal, geht's?")
    ['um', 'uhr', 'im', 'kinosaal', 'geht', 's']
    """
    return text.lower().translate(_LEXICAL).split()


def rttr(tokens: Sequence[str]) -> float:
    """Return types over the root of tokens; nan without tokens."""
    return len(set(tokens)) / len(tokens) ** 0.5 if tokens else float("nan")


def mtld(tokens: Sequence[str], threshold: float = 0.72) -> float:
    """Return the mean length of the stretches of a text in which types per token stay above a threshold.

    The threshold is by default that of McCarthy and Jarvis (2010). The value is the mean of reading the text forwards and
    backwards. A last stretch that ends above the threshold counts for the part of the way to it. A text of only different
    tokens has no such part: it counts as one stretch. The value is nan without tokens.
    """
    if not 0 < threshold < 1:
        raise Invalid(f"threshold {threshold:g}: types per token are between 0 and 1")
    if not tokens:
        return float("nan")
    lengths = []
    for way in (tokens, tokens[::-1]):
        stretches, length, types = 0.0, 0, set[str]()
        for token in way:
            length += 1
            types.add(token)
            if len(types) / length <= threshold:
                stretches, length, types = stretches + 1, 0, set()
        if length:
            stretches += (1 - len(types) / length) / (1 - threshold)
        lengths.append(len(tokens) / (stretches or 1.0))
    return sum(lengths) / 2


def richness(texts: Iterable[str], language: str | None = None) -> Richness:
    """Return the words of some texts, taken as one text.

    Types, RTTR and MTLD are of the tokens of LexicalRichness. `language` is a spaCy model such as `de_core_news_sm`,
    for lemmas; without spaCy or this model there are none.
    """
    text = "\n".join(texts)
    tokens = lexical_tokens(text)
    lemmas = None
    if language and (pipeline := _spacy(language)) is not None:
        lemmas = len({word.lemma_ for word in pipeline(text) if not (word.is_space or word.is_punct)})
    return Richness(len(text.split()), len(tokens), len(set(tokens)), lemmas, rttr(tokens), mtld(tokens))


@lru_cache(maxsize=2)
def _spacy(language: str) -> Any:
    """Return spaCy's pipeline, where it is installed."""
    if find_spec("spacy") is None or find_spec(language) is None:
        return None
    return import_module("spacy").load(language)
