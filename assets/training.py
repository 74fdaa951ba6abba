"""The tasks that methods train on: only for these the graph shows a stage of training."""

from collections.abc import Iterable

from traube._core import paths, settings
from traube._core.errors import TraubeError
from traube._pipeline.params import load_params
from traube._storage import open_storage
from traube.components import CLUSTERERS
from traube.tasks import Source

SHORT_TEXTS = "shorttext"  # the family whose protocols train


def list_without_training(sources: Iterable[Source]) -> list[str]:
    """Return the tasks without a stage for methods that train.

    They are not short texts, the benchmark trains no method on them, and no trained method has a result on them.
    """
    if settings.database():  # which may be away, and pages do not wait for it: they show every stage
        return []
    trains = [name for name, clusterer in CLUSTERERS.items() if clusterer.input_kind == "encoder"]
    try:
        params, trained = load_params(), open_storage(paths.home()).list_tasks_of(trains)
    except TraubeError:  # what cannot be read keeps nobody from the pages
        return []
    if any(method.trains for method in params.chosen().methods()):
        trained |= {*params.tasks}
    return [source.name for source in sources if source.card.family != SHORT_TEXTS and source.name not in trained]
