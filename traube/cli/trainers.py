"""What the commands say of trainers: it is read from the trainers themselves, when somebody asks."""

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

from traube.foundation.errors import TraubeError, unknown


class TrainCommand(TyperCommand):
    """A command whose help names the trainers. They take a second to import, so that is done for
    this help alone.
    """

    searched = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        argument: Any = next(parameter for parameter in self.params if parameter.name == "trainer")
        argument.help = trainers_in_words(self.searched)
        super().format_help(ctx, formatter)


class TuneCommand(TrainCommand):
    """The same for trainers with a study."""

    searched = True


def trainers_in_words(searched: bool) -> str:
    """The trainers by what they learn from; those with a study alone, if `searched`."""
    from traube.training import TRAINERS, searched_trainers

    if searched:
        return f"A trainer with values to search: {', '.join(searched_trainers())}."
    words = {"texts": "Without labels", "splits": "On gold clusterings", "pairs": "On pairs of texts"}
    names = {kind: [name for name, t in TRAINERS.items() if t.learns_from == kind] for kind in words}
    return " ".join(f"{words[kind]}: {', '.join(of_kind)}." for kind, of_kind in names.items() if of_kind)


def trainer_rows() -> list[dict[str, str]]:
    """The trainers, what they learn from, and where they are described."""
    from traube.training import TRAINERS, searched_trainers

    studies = searched_trainers()
    return [
        {
            "trainer": name,
            "learns from": trainer.learns_from,
            "tune": "yes" if name in studies else "",
            "section": trainer.section,
        }
        for name, trainer in TRAINERS.items()
    ]


def recipe_rows(trainer: Any) -> list[dict[str, str]]:
    """The values of a trainer's recipe, and what they are by default."""
    recipe = trainer.defaults
    return [
        {
            "value": name,
            "default": "" if getattr(recipe, name) is None else str(getattr(recipe, name)),
            "what": field.description or "",
        }
        for name, field in type(recipe).model_fields.items()
    ]


def trainer_named(name: str, trainers: Mapping[str, Any], kind: str = "trainer") -> Any:
    """The trainer of that name.

    Raises
    ------
    Unknown
        If there is none.
    """
    if name not in trainers:
        raise unknown(kind, name, trainers)
    return trainers[name]


def trainer_for(name: str, task: str, searched: bool = False) -> Any:
    """The trainer of that name.

    Raises
    ------
    TraubeError
        If there is none, if it has no study and one is asked for, or if it cannot learn from the
        task.
    """
    from traube.tasks import get_source
    from traube.training import TRAINERS, searched_trainers

    known = {trainer: TRAINERS[trainer] for trainer in (searched_trainers() if searched else TRAINERS)}
    chosen = trainer_named(name, known, "trainer with a study" if searched else "trainer")
    if reason := chosen.unsuited(get_source(task)):
        raise TraubeError(reason)
    return chosen
