"""Models looked up once for each question: walking a folder takes a millisecond, and a leaderboard has hundreds."""

from traube._core.errors import TraubeError
from traube.models import Model, Precision, load_model


class Lookup:
    """Models as they are now, by name and precision. What changes later is not seen: make one for each question."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Precision | None], Model | TraubeError] = {}

    def usable(self, name: str, precision: Precision | None = None) -> Model:
        """Return the model of that name, whose weights are here and valid; a TraubeError says why it cannot be had."""
        key = name, precision
        if key not in self._known:
            try:
                model = load_model(name, precision=precision)
                _ = model.fingerprint
                self._known[key] = model
            except TraubeError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, TraubeError):
            raise known
        return known
