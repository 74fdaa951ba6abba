"""Grouping texts that have no labels: vectors, clusters, and what each cluster is about."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube import methods
from traube.engine.workbench import Workbench
from traube.foundation import paths
from traube.foundation.errors import TraubeError, Unsupported
from traube.methods import Method, parse_method
from traube.models import load_model
from traube.serving.describe import distances, keywords, typical


@dataclass(frozen=True)
class Clusters:
    """Groups of texts.

    Attributes
    ----------
    labels : int64 [n], -1 for noise
    distances : float64 [n], to the mean of the text's cluster, in the model's space
    words : key words by cluster
    typical : positions of typical texts by cluster
    k_table : silhouette by number of clusters, where the number was chosen
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]
    words: dict[int, list[str]]
    typical: dict[int, list[int]]
    k_table: pd.DataFrame | None


def cluster_texts(
    texts: Sequence[str],
    *,
    model: str = "minilm",
    method: str | Method = "none/kmeans",
    k: int | None = None,
    seed: int = 42,
) -> Clusters:
    """Group texts, and say what each group is about.

    Vectors are kept in TRAUBE_HOME, so that the same texts are not encoded twice.

    Parameters
    ----------
    model : name of a model; its weights are downloaded if they are not on this machine
    method : like "umap/hdbscan", a reducer and a clusterer
    k : number of clusters; by default the one with the best silhouette
    seed : of everything random

    Raises
    ------
    TraubeError
        If there are no texts or fewer than clusters, or the method makes no sense.
    """
    texts = list(texts)
    if not texts:
        raise TraubeError("there are no texts to group")
    if k is not None and k > len(texts):
        raise TraubeError(f"{k} clusters cannot be made of {len(texts)} texts")
    method = parse_method(method) if isinstance(method, str) else method
    reason = method.unsupported()
    if reason:
        raise Unsupported(f"{method.name}: {reason}")
    encoder = load_model(model)
    encoder.fetch()
    values = Workbench.at(paths.home()).vectors_of_texts(texts, encoder).load()
    points = methods.reduce(method.reducer, method.reducer_params, values, seed) if method.reduces else values
    table = None
    if k is None and methods.CLUSTERERS[method.clusterer].takes_k:
        k, table = methods.choose_k(points, seed)
    labels = methods.cluster(method.clusterer, method.clusterer_params, points, k, seed)
    distance = distances(values, labels)
    return Clusters(labels, distance, keywords(texts, labels), typical(labels, distance), table)
