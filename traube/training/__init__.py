"""Training: a task and a base model in, a checkpoint folder out.

`trainers/` holds the trainers, found by themselves; `trainer` says what a trainer is and scores on the way, `loop`
makes the stream of examples and trains, `clusterings` is what trainers on gold clusterings share, and `study` searches
for a recipe's best values. What is left is a model like any other: evaluating it is the pipeline's.
"""

from typing import Any

from traube._core.plugins import modules_of
from traube.training import _trainers as trainers
from traube.training._loop import Entry, TrainingRecipe
from traube.training._trainer import Checkpoint, Trainer

__all__ = ["TRAINERS", "Checkpoint", "Entry", "Trainer", "TrainingRecipe", "find_trainers", "searched_trainers"]


def find_trainers() -> dict[str, type[Trainer[Any]]]:
    """Return the trainers of the folder `trainers` by name.

    Returns
    -------
    dict of str to type of Trainer
        Classes of trainers.

    Examples
    --------
    >>> from traube.training import find_trainers
    >>> find_trainers()["cob"].name
    'cob'
    """
    return {module.TRAINER.name: module.TRAINER for module in modules_of(trainers)}


TRAINERS = find_trainers()


def searched_trainers() -> list[str]:
    """Return the trainers whose recipe a study can search.

    Returns
    -------
    list of str
        Names of trainers.

    Examples
    --------
    >>> from traube.training import searched_trainers
    >>> "cob" in searched_trainers()
    True
    """
    return [name for name, trainer in TRAINERS.items() if trainer.searched]
