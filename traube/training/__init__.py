"""Training: a task and a base model in, a checkpoint folder out.

`trainers/` holds the trainers, found by themselves; `trainer` says what a trainer is, `recipe` and
`examples` what it is made of, `loop` trains, `measure` scores on the way, `clusterings` is what
trainers on gold clusterings share, and `study` searches for a recipe's best values. What is left is
a model like any other: evaluating it is the engine's.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from traube.training import trainers
from traube.training.loop import Entry
from traube.training.recipe import Recipe
from traube.training.trainer import Checkpoint, Trainer

__all__ = ["TRAINERS", "Checkpoint", "Entry", "Recipe", "Trainer", "find_trainers", "searched_trainers"]


def find_trainers() -> dict[str, type[Trainer[Any]]]:
    """The trainers of the folder `trainers`, by name."""
    modules = [import_module(f"{trainers.__name__}.{module.name}") for module in iter_modules(trainers.__path__)]
    return {module.TRAINER.name: module.TRAINER for module in modules}


TRAINERS = find_trainers()


def searched_trainers() -> list[str]:
    """The trainers whose recipe a study can search."""
    return [name for name, trainer in TRAINERS.items() if trainer.searched]
