"""Trainers: a task and a base model in, a checkpoint folder out."""

from typing import Any

from traube.training.base import Checkpoint, Recipe, Trainer
from traube.training.cob import Cob, Untrained
from traube.training.triplet import Triplet
from traube.training.tsdae import Tsdae
from traube.training.wwm import Wwm

__all__ = ["TRAINERS", "Checkpoint", "Cob", "Recipe", "Trainer", "Triplet", "Tsdae", "Untrained", "Wwm"]

TRAINERS: dict[str, type[Trainer[Any]]] = {t.name: t for t in (Wwm, Tsdae, Cob, Triplet, Untrained)}
