"""Layers of groups: cuts through their tree, each nested in the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import Conflict, Missing, Unknown
from traube._core.short_repr import ShortRepr
from traube._grouping.describe import find_keywords, find_typical
from traube._grouping.terms import TermReader
from traube.components import Fitted, View
from traube.components._apply import NestedLabels


@dataclass(frozen=True, eq=False, repr=False)
class Layer(ShortRepr):
    """One cut through the tree of groups.

    Attributes
    ----------
    labels : ndarray of shape (n_texts,)
        Clusters; -1 for noise and for blank texts.
    words : dict of int to list of str
        Key words of each cluster.
    typical : dict of int to list of int
        Positions of the typical texts of each cluster.
    stability : dict of int to float
        Of each cluster, from 0 to 1, where it was measured.
    """

    labels: NDArray[np.int64]
    words: dict[int, list[str]] = field(default_factory=dict)
    typical: dict[int, list[int]] = field(default_factory=dict)
    stability: dict[int, float] = field(default_factory=dict)

    def name(self, cluster: int) -> str:
        """Return the first key words of a cluster; empty for noise."""
        return ", ".join(self.words.get(cluster, [])[:3])

    def of_all(self, first: NDArray[np.int64], which: NDArray[np.int64]) -> "Layer":
        """Return the layer of all texts; as in `Clustering`."""
        labels = np.where(which < 0, -1, self.labels[which])
        return replace(self, labels=labels, typical=map_positions(self.typical, first))


def describe_layers(fitted: Fitted, view: View, texts: list[str]) -> list[Layer]:
    """Return the layers with words and typical texts, or where there are none the clusters as the only one."""
    reader, layers = TermReader(texts), []
    for labels, stability in fitted.layers or [(fitted.labels, fitted.stability)]:
        typical = find_typical(labels, view.to_own_cluster(labels), view)
        layers.append(Layer(labels, find_keywords(reader, labels), typical, stability))
    return layers


def find_level(layers: Sequence[Layer | NestedLabels], layer: int | str, n_clusters: int | None = None) -> int:
    """Return the number of a layer, which may be called "coarse" or "fine"; refuse a layer that does not exist.

    Raises
    ------
    TypeError
        If it is neither a number nor a name.
    TraubeError
        If there is no such layer, or a number of clusters is given as well.
    """
    if isinstance(layer, bool) or not isinstance(layer, (int, np.integer, str)):
        raise TypeError(f'layer is of type {type(layer).__name__}: pass a whole number, "coarse" or "fine"')
    if n_clusters is not None:
        raise Conflict("a layer and a number of clusters both say where to cut: leave one of them out")
    if not layers:
        raise Missing(
            "there are no layers: none/stable_kmeans makes them where there are enough texts; leave the layer out, or "
            "choose a number of clusters"
        )
    last = len(layers) - 1
    name = str(layer).strip().casefold()
    level = {"coarse": 0, "fine": last}.get(name, int(name) if name.isdecimal() else -1)
    if not 0 <= level <= last:
        raise Unknown(f"there is no layer {layer}: choose from 0 (coarse) to {last} (fine)")
    return level


def make_tree(layers: Sequence[Layer | NestedLabels]) -> pd.DataFrame:
    """Return the clusters of all layers, from the coarsest layer on.

    Returns
    -------
    DataFrame
        `layer` (0 is the coarsest), `cluster`, `parent` (the cluster of the layer before that holds it, none in the
        coarsest), `size` and `stability`. Without layers it has no rows.
    """
    rows = []
    for number, layer in enumerate(layers):
        for cluster in np.unique(layer.labels[layer.labels >= 0]).tolist():
            members = np.flatnonzero(layer.labels == cluster)
            parent = int(layers[number - 1].labels[members[0]]) if number else pd.NA
            rows.append((number, cluster, parent, len(members), layer.stability.get(cluster, np.nan)))
    table = pd.DataFrame(rows, columns=["layer", "cluster", "parent", "size", "stability"])
    whole = {"layer": "int64", "cluster": "int64", "parent": "Int64", "size": "int64", "stability": "float64"}
    return table.astype(whole)


def map_positions(typical: dict[int, list[int]], first: NDArray[np.int64]) -> dict[int, list[int]]:
    """Return the positions of typical texts among all texts, from those among the distinct ones."""
    return {c: [int(first[i]) for i in positions] for c, positions in typical.items()}
