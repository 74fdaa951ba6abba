"""How rich the words of a text are: tokens, types, RTTR and MTLD (GiCCS, section 3.5). Both measures are to depend
less on a text's length than types per token do; RTTR still does, so only texts of about one length compare by it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from traube.core.errors import TraubeError


@dataclass(frozen=True)
class Richness:
    """The words of a text.

    Attributes
    ----------
    tokens, types : how many, and how many different ones
    lemmas : different base forms; None without spaCy's model of the language
    rttr : root type-token ratio
    mtld : measure of textual lexical diversity
    """

    tokens: int
    types: int
    lemmas: int | None
    rttr: float
    mtld: float


def words(text: str) -> list[str]:
    """Tokens between white space, as they are."""
    return text.split()


def rttr(tokens: Sequence[str]) -> float:
    """Types over the root of tokens; nan of nothing."""
    return len(set(tokens)) / len(tokens) ** 0.5 if tokens else float("nan")


def mtld(tokens: Sequence[str], threshold: float = 0.72) -> float:
    """The mean length of the stretches of a text in which types per token stay above a threshold
    (by default that of McCarthy and Jarvis, 2010);
    the mean of reading it forwards and backwards.

    A last stretch that ends above the threshold counts for the part of the way to it. A text of
    only different tokens has no such part: it counts as one stretch. Nan of nothing.

    Raises
    ------
    TraubeError
        If the threshold is not between 0 and 1.
    """
    if not 0 < threshold < 1:
        raise TraubeError(f"threshold {threshold:g}: types per token are between 0 and 1")
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
    """The words of some texts, taken as one.

    Parameters
    ----------
    language : a spaCy model such as `de_core_news_sm`, for lemmas; without spaCy or this model
        there are none
    """
    text = "\n".join(texts)
    tokens = words(text)
    lemmas = None
    if language and (pipeline := _spacy(language)) is not None:
        lemmas = len({word.lemma_ for word in pipeline(text) if not (word.is_space or word.is_punct)})
    return Richness(len(tokens), len(set(tokens)), lemmas, rttr(tokens), mtld(tokens))


@lru_cache(maxsize=2)
def _spacy(language: str) -> Any:
    """spaCy's pipeline, where it is installed."""
    if find_spec("spacy") is None or find_spec(language) is None:
        return None
    return import_module("spacy").load(language)
