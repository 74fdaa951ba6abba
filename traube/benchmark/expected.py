"""What missing cells will cost, said before they are computed: where many classes make k-means slow."""

from collections.abc import Iterable

from traube.benchmark.plan import Cell
from traube.methods import get_clusterer
from traube.models import model_cards
from traube.store import Store

WORTH_SAYING = 60.0  # seconds of a core
SPARSE = ("bow", "tfidf", "tokens")


def slow_cells(store: Store, cells: Iterable[Cell]) -> list[str]:
    """A line for each task whose missing cells take more than a minute because of its many classes.

    Parameters
    ----------
    cells : the missing ones; their tasks are read
    """
    kinds = {name: card.kind for name, card in model_cards().items()}
    sizes: dict[str, list[tuple[int, int]]] = {}
    seconds: dict[str, float] = {}
    for cell in cells:
        clusterer = get_clusterer(cell.method.clusterer)
        if not any(clusterer.seconds):
            continue
        if cell.task not in sizes:
            sizes[cell.task] = _sizes(store, cell.task)
        is_sparse = kinds.get(cell.model) in SPARSE and cell.method.reducer == "none"
        spent = sum(clusterer.seconds_needed(n, k, is_sparse) for n, k in sizes[cell.task])
        seconds[cell.task] = seconds.get(cell.task, 0.0) + spent
    return [
        f"{task}: {max(n for n, _ in sizes[task]):,} texts in {max(k for _, k in sizes[task]):,} classes: "
        f"k-means of its missing cells takes about {total / 60:,.0f} minutes of one core"
        for task, total in seconds.items()
        if total > WORTH_SAYING
    ]


def _sizes(store: Store, task: str) -> list[tuple[int, int]]:
    """Texts and classes of each split and level that is scored."""
    card = store.card(task)
    if card is None:
        return []
    return [(split.size, split.classes or 0) for split in store.task(card).test_splits()]
