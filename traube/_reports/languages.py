"""Models made for the languages of a task's texts: of those that were tried, and of the catalog."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from traube._core.errors import join_words
from traube.models import model_cards, split_cut
from traube.models._card import ModelCard, catalogue
from traube.tasks._languages import UNKNOWN, detect_languages, name_languages
from traube.tasks._task import Task

NAMED = 3  # models that a line names; `traube models` lists all


@dataclass(frozen=True)
class LanguageFit:
    """The models that are made for the languages of some texts, and those that are not."""

    languages: tuple[str, ...]  # of the texts, ISO 639-1 codes; none if unknown
    unfit: tuple[ModelCard, ...]  # tried, and made for others
    fit: tuple[ModelCard, ...]  # tried, and made for these; models that are fitted on the texts are neither
    left_out: tuple[ModelCard, ...]  # of the catalog, made for these and not tried, the smallest download first

    @property
    def warning(self) -> str:
        """Return a sentence if all models that were tried are made for other languages; else an empty text."""
        if not self.unfit or self.fit:
            return ""
        tried = [card.name for card in self.unfit]
        others = sorted({code for card in self.unfit for code in card.languages})
        are = "is" if len(tried) == 1 else "are"
        left_out = f" Made for {self.words} and not tried: {self.suggested}." if self.left_out else ""
        return f"The texts are {self.words}, and {join_words(tried)} {are} made for {name_languages(others)}.{left_out}"

    @property
    def not_compared(self) -> str:
        """Return a sentence on the models of the catalog that were left out; empty if there is none."""
        return f"Not compared, of the models made for {self.words}: {self.suggested}." if self.left_out else ""

    @property
    def words(self) -> str:
        """Return the texts' languages in words."""
        return name_languages(self.languages)

    @property
    def suggested(self) -> str:
        """The first of those that were left out, with sizes of their downloads, and how many more there are."""
        sizes = [describe_size(card) for card in self.left_out[:NAMED]]
        first = [
            f"{card.name} ({size})" if size else card.name for card, size in zip(self.left_out, sizes, strict=False)
        ]
        more = len(self.left_out) - len(first)
        listed = f"`traube models{''.join(f' --language {code}' for code in self.languages)}`"
        return f"{', '.join(first)} and {more} more ({listed})" if more else join_words(first)

    def command(self, start: str) -> str:
        """Return the command that adds those of `suggested`, which begins with `start`; empty if there is none."""
        models = "".join(f" -m {card.name}" for card in self.left_out[:NAMED])
        return f"{start}{models}" if models else ""


def languages_of(task: Task) -> tuple[str, ...]:
    """Return the languages of a task's texts: the one that its card states, or those that are detected."""
    return (task.card.language,) if task.card.language != UNKNOWN else tuple(detect_languages(task.texts))


def fit_languages(languages: Sequence[str], tried: Iterable[str]) -> LanguageFit:
    """Sort models, those that were tried and those of the catalog, by the languages they are made for."""
    known = model_cards()
    cards = [known[name] for name in dict.fromkeys(split_cut(name)[0] for name in tried) if name in known]
    made = [card for card in cards if card.languages and languages]
    weights = {card.weights for card in cards}
    left_out: dict[str | None, ModelCard] = {}
    for card in catalogue().values() if languages else ():
        if card.languages and card.is_made_for(languages) and card.weights not in weights:
            left_out.setdefault(card.weights, card)
    return LanguageFit(
        tuple(languages),
        tuple(card for card in made if not card.is_made_for(languages)),
        tuple(card for card in made if card.is_made_for(languages)),
        tuple(sorted(left_out.values(), key=lambda card: card.megabytes or math.inf)),
    )


def describe_size(card: ModelCard) -> str:
    """Return the size of a model's download; empty if it is not known."""
    if card.megabytes is None:
        return ""
    return f"{card.megabytes} MB" if card.megabytes < 1000 else f"{card.megabytes / 1000:.1f} GB"
