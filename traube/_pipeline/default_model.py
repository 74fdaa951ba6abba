"""The model of whoever names none, chosen by the languages of the texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from traube.models.card import catalogue
from traube.models.packaged import is_installed
from traube.tasks.languages import UNKNOWN, detect_languages, name_languages
from traube.tasks.task import Task

AUTO = "auto"  # in place of a model's name
DEFAULT, MULTILINGUAL = "minilm", "multilingual_e5_small_q4"  # the models of whoever names none


@dataclass(frozen=True)
class DefaultModel:
    """The model that is used where none is named, and the languages that decided."""

    name: str
    languages: tuple[str, ...]  # of the texts, ISO 639-1 codes; none if unknown

    @property
    def reason(self) -> str:
        """Return a line that says why another model than `minilm` was chosen; empty if it was not."""
        if self.name == DEFAULT:
            return ""
        made = name_languages(catalogue()[DEFAULT].languages)
        chosen = f"{self.name} (weights of 4 bits, not the published model) in place of {DEFAULT}, made for {made}"
        return f"texts are {name_languages(self.languages)}: {chosen}"


def choose_model(languages: Sequence[str]) -> DefaultModel:
    """Choose the model for texts in some languages where nobody named one.

    Parameters
    ----------
    languages : sequence of str
        ISO 639-1 codes; none if unknown.

    Returns
    -------
    DefaultModel
        `minilm` for English and for unknown languages, and where the package of the other model is not installed.
    """
    cards = catalogue()
    is_other = not cards[DEFAULT].is_made_for(languages) and is_installed(cards[MULTILINGUAL])
    return DefaultModel(MULTILINGUAL if is_other else DEFAULT, tuple(languages))


def languages_of(task: Task) -> tuple[str, ...]:
    """Return the languages of a task's texts: the one that its card states, or those that are detected."""
    return (task.card.language,) if task.card.language != UNKNOWN else tuple(detect_languages(task.texts))
