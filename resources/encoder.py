"""Models, loaded once a process however many tasks a run evaluates."""

from functools import lru_cache

import dagster as dg

from traube.models import Model, load_model
from traube.models.card import Precision


class EncoderResource(dg.ConfigurableResource):
    """Turns the name of a model (a partition key) into the model.

    Attributes
    ----------
    device : cuda, mps or cpu; by default the best one there is
    """

    device: str = ""

    def model(self, name: str, precision: Precision | None) -> Model:
        return _model(name, self.device or None, precision)


@lru_cache(maxsize=1)  # the next model's weights replace this one's
def _model(name: str, device: str | None, precision: Precision | None) -> Model:
    return load_model(name, device, precision)
