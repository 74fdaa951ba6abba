"""Order of the catalog's models for some languages, by MTEB's published clustering scores where there are any."""

import csv
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from math import inf
from pathlib import Path
from statistics import mean

from traube.models.card import ModelCard

SCORES = Path(__file__).with_name("published_scores.csv")  # written by deploy/make_catalogue.py; names its source
MEMORY_SHARE = 0.25  # of the free memory: the weights of a model that is suggested take no more
BYTES = (
    4  # of a weight in memory, whatever it takes on disk: models compute in float32 unless their card says otherwise
)


@lru_cache(maxsize=1)
def published_scores() -> Mapping[tuple[str, str], float]:
    """Return the mean v-measure in percent by model of the catalog and language."""
    with SCORES.open(encoding="utf-8", newline="") as file:
        return {(row["model"], row["language"]): float(row["v_measure"]) for row in csv.DictReader(file)}


def find_score(card: ModelCard, languages: Collection[str]) -> float | None:
    """Return the mean of a model's published scores in some languages; None if one of them is not known."""
    scores = [published_scores().get((card.name, language)) for language in languages]
    known = [score for score in scores if score is not None]
    return mean(known) if known and len(known) == len(scores) else None


def sort_by_score(cards: Iterable[ModelCard], languages: Collection[str]) -> list[ModelCard]:
    """Return models, the best published score first; those without one follow, the smallest download first."""
    return sorted(cards, key=lambda card: (-(find_score(card, languages) or 0), card.megabytes or inf))


def sort_by_promise(cards: Iterable[ModelCard], languages: Collection[str]) -> list[ModelCard]:
    """Return models, the best published score first; those without one follow, the newest first."""
    return sorted(
        cards,
        key=lambda card: (-(find_score(card, languages) or 0), -card.released.toordinal() if card.released else 0),
    )


def fits_memory(card: ModelCard, free: int) -> bool:
    """Return whether a model's weights are known to take at most their share of some bytes of free memory."""
    size = max((card.megabytes or 0) * 10**6, (card.parameters or 0) * BYTES)
    return 0 < size <= MEMORY_SHARE * free
