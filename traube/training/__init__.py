"""Trainers: a task's texts and a base model in, a checkpoint folder out."""

from traube.training.base import Checkpoint, Recipe, Trainer
from traube.training.tsdae import Tsdae
from traube.training.wwm import Wwm

__all__ = ["TRAINERS", "Checkpoint", "Recipe", "Trainer", "Tsdae", "Wwm"]

TRAINERS: dict[str, type[Trainer]] = {"wwm": Wwm, "tsdae": Tsdae}
