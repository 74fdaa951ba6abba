"""COB's network before its first step, as a model to compare with."""

from typing import ClassVar

from traube._core.errors import Invalid
from traube.papers.cob.trainers.cob import Cob, CobRecipe
from traube.training.trainer import Ranges


class Untrained(Cob):
    """COB's network before its first step: the reference code's "SBERT raw", pooled tokens and a random head."""

    name = "untrained"
    section = "Kashyapi & Dietz 2021, Table 4, SBERT raw"
    searched: ClassVar[Ranges] = {}
    defaults = Cob.defaults.model_copy(update={"epochs": 0.0})

    def __init__(self, recipe: CobRecipe | None = None) -> None:
        super().__init__(recipe)
        if self.recipe.epochs:
            raise Invalid(f"recipe: epochs: {self.name} is not trained; leave it at 0, or train by {Cob.name}")


TRAINER = Untrained
