"""A map of groups of texts: a page that needs no server."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from traube import components
from traube.components.apply import Matrix
from traube.reports.figures import text_map, tip
from traube.reports.rendering import figures_page

MOST = 5_000  # texts that are shown
FEWEST = 16  # texts that UMAP places; fewer are placed by their two principal directions
ALONE = "in no group"


def group_map(
    texts: Sequence[str],
    vectors: Matrix,
    groups: NDArray[np.int64],
    names: Mapping[int, str],
    title: str,
    seed: int = 42,
) -> str:
    """Return a page with a point for each text as UMAP places them, in its group's colour and shape; of many
    texts some, evenly spaced, which the title says. Pointing at one shows its text.

    Parameters
    ----------
    vectors : [n, d], dense or csr
    groups : int64 [n], -1 for noise
    names : of the groups
    """
    rows = np.unique(np.linspace(0, len(texts) - 1, min(MOST, len(texts)), dtype=int))
    points = components.reduce("umap" if len(rows) >= FEWEST else "pca", None, vectors[rows], seed)
    if points.shape[1] < 2:
        points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    by_size = Counter(np.sort(groups[rows]).tolist()).most_common()
    shown_as = {i: f"{i}: {names.get(i, '')}" if i >= 0 else ALONE for i, _ in by_size}
    own = {name: np.flatnonzero(groups[rows] == group) for group, name in shown_as.items()}
    tips = [tip(shown_as[group], texts[row]) for row, group in zip(rows, groups[rows].tolist(), strict=True)]
    shown = f"{len(rows):,} of {len(texts):,} texts" if len(rows) < len(texts) else f"{len(texts):,} texts"
    return figures_page(f"{title}: {shown}", [text_map("", points, tips, own, quiet=ALONE, height=720)])
