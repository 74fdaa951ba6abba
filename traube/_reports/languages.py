"""Models made for the languages of some texts: those that were tried, and others of the catalog."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psutil

from traube._core.errors import join_words
from traube.models import model_cards, split_cut
from traube.models.card import ModelCard, catalogue
from traube.models.choosing import fits_memory, sort_by_promise
from traube.models.packaged import is_installed
from traube.tasks.languages import name_languages

NAMED = 3  # models that a line names; `traube models` lists all


@dataclass(frozen=True)
class LanguageFit:
    """The models that are made for the languages of some texts, and those that are not."""

    languages: tuple[str, ...]  # of the texts, ISO 639-1 codes; none if unknown
    unfit: tuple[ModelCard, ...]  # tried, and made for others
    fit: tuple[ModelCard, ...]  # tried, and made for these; models that are fitted on the texts are neither
    left_out: tuple[ModelCard, ...]  # of the catalog, made for these and not tried, the best published score first
    suggestions: tuple[ModelCard, ...]  # the first of those that this machine's free memory holds
    not_installed: tuple[ModelCard, ...] = ()  # the same, of packages that an extra of Traube's would install

    @property
    def warning(self) -> str:
        """Return a sentence if all models that were tried are made for other languages; else an empty text."""
        if not self.unfit or self.fit:
            return ""
        tried = [card.name for card in self.unfit]
        others = sorted({code for card in self.unfit for code in card.languages})
        are = "is" if len(tried) == 1 else "are"
        left_out = f" Made for {self.words} and not tried: {self.suggested}." if self.left_out else ""
        extras = "".join(f" `pip install 'traube[{card.extra}]'` adds {card.name}." for card in self.not_installed)
        made = f"{join_words(tried)} {are} made for {name_languages(others)}"
        return f"The texts are {self.words}, and {made}.{left_out}{extras}"

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
        """The suggestions, with sizes of their downloads, and how many more were left out."""
        sizes = {card.name: describe_size(card) for card in self.suggestions}
        first = [f"{name} ({size})" if size else name for name, size in sizes.items()]
        more = len(self.left_out) - len(first)
        listed = f"`traube models{''.join(f' --language {code}' for code in self.languages)}`"
        if not first:
            return f"{more} that need more memory than this machine has free ({listed})"
        return f"{', '.join(first)} and {more} more ({listed})" if more else join_words(first)

    def command(self, start: str) -> str:
        """Return the command that adds the suggestions, which begins with `start`; empty if there is none."""
        models = "".join(f" -m {card.name}" for card in self.suggestions)
        return f"{start}{models}" if models else ""


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
    here = [card for card in left_out.values() if card.package is None or is_installed(card)]
    free = psutil.virtual_memory().available
    # those that need no download go before the best
    best_first = sorted(sort_by_promise(here, languages), key=lambda card: card.package is None)
    return LanguageFit(
        tuple(languages),
        tuple(card for card in made if not card.is_made_for(languages)),
        tuple(card for card in made if card.is_made_for(languages)),
        tuple(best_first),
        tuple([card for card in best_first if fits_memory(card, free)][:NAMED]),
        tuple(card for card in left_out.values() if card not in here),
    )


def describe_size(card: ModelCard) -> str:
    """Return the size of a model's download; empty if it is not known."""
    if card.megabytes is None:
        return ""
    return f"{card.megabytes} MB" if card.megabytes < 1000 else f"{card.megabytes / 1000:.1f} GB"


def describe_count(number: int | None) -> str:
    """Return a number of weights in words of three digits at most, like `118M`; empty if it is not known."""
    if number is None:
        return ""
    return f"{number / 1e6:.3g}M" if number < 999_500_000 else f"{number / 1e9:.2g}B"
