"""Training: a task and a base model in, a checkpoint folder out.

Trainers are modules of `_trainers/` and of plug-ins, found by themselves; `trainer` says what a trainer is and scores on the way, `loop`
makes the stream of examples and trains, `clusterings` is what trainers on gold clusterings share, and `study` searches
for a recipe's best values. What is left is a model like any other: evaluating it is the pipeline's.

Other rooms import what is listed here, and the modules without an underscore.
"""

from typing import TYPE_CHECKING, Any

from traube._core.plugins import collect, import_plugins, modules_of
from traube.training import _trainers as trainers
from traube.training.loop import Entry, TrainingRecipe
from traube.training.trainer import Checkpoint, Trainer

__all__ = ["TRAINERS", "Checkpoint", "Entry", "Trainer", "TrainingRecipe", "find_trainers", "searched_trainers"]


def find_trainers() -> dict[str, type[Trainer[Any]]]:
    """Return the trainers by name: Traube's own and those of plug-ins.

    Returns
    -------
    dict of str to type of Trainer
        Classes of trainers.

    Examples
    --------
    >>> from traube.training import find_trainers
    >>> find_trainers()["triplet"].name
    'triplet'
    """
    modules = (*modules_of(trainers), *(module for _, module in import_plugins("trainers")))
    return collect("trainer", ((module.TRAINER.name, module.TRAINER) for module in modules))


if TYPE_CHECKING:
    TRAINERS: dict[str, type[Trainer[Any]]]
else:

    def __getattr__(name: str) -> Any:
        """Return the trainers, which import this package, when they are first needed."""
        if name == "TRAINERS":
            return find_trainers()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def searched_trainers() -> list[str]:
    """Return the trainers whose recipe a study can search.

    Returns
    -------
    list of str
        Names of trainers.

    Examples
    --------
    >>> from traube.training import searched_trainers
    >>> "triplet" in searched_trainers()
    False
    """
    return [name for name, trainer in find_trainers().items() if trainer.searched]
