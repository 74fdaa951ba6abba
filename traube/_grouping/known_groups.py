"""Assignment of texts to existing groups: those of labeled texts, or of a served clustering."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import TraubeError
from traube._core.progress import SILENT, Progress
from traube._grouping.cluster_texts import (
    Clustering,
    check_query,
    encode_texts,
    find_filled,
    find_unknown,
    resolve_model,
)
from traube._grouping.describe import (
    alike_by_vectors,
    are_equal,
    find_keywords,
    find_strays,
    find_strays_by_distance,
    find_typical,
)
from traube._grouping.served import Served
from traube.components._apply import Matrix
from traube.components._new_points import compute_centers, find_nearest_on_average
from traube.models import load_model
from traube.models._card import Precision
from traube.models._long_texts import measure_long_texts
from traube.tasks._task import names_texts

BLOCK = 2**26  # bytes of a block of cosines


def assign_by_examples(
    texts: Sequence[str],
    examples: Sequence[str],
    groups: Sequence[str],
    *,
    model: str = "auto",
    query: str | None = None,
    precision: Precision | None = "auto",
    progress: Progress = SILENT,
) -> Clustering:
    """Put each text into the group whose examples' mean is nearest by the cosine.

    By a similarity, each text joins the group whose examples are nearest on average. A model that is fitted to texts is
    fitted to the examples and the texts. Blank texts, and those of which the model knows no word, join no group;
    examples that are blank, or whose group is blank, are left out.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    examples : sequence of str, of length n_examples
        Labeled texts.
    groups : sequence of str, of length n_examples
        The group of each example.
    model : str, default="auto"
        As in `cluster_texts`.
    query : str, optional
        As in `cluster_texts`.
    precision : {"auto", "fp32", "bf16"}, optional
        As in `cluster_texts`.
    progress : Progress, optional
        As in `cluster_texts`.

    Returns
    -------
    Clustering
        Named as the groups are, numbered in the order of their names; a group that no text joins has no typical texts.
        `strays` are texts that fit no group.

    Examples
    --------
    >>> examples = ["dough and bread", "a loaf of bread", "a ship and its crew", "the crew of the ship"]
    >>> found = assign_by_examples(["bread", "the ship"], examples, ["food", "food", "sea", "sea"], model="tfidf")
    >>> [found.name(group) for group in found.labels]
    ['food', 'sea']
    """
    given, rows = texts, find_filled(texts)
    texts = [given[i] for i in rows]
    examples, groups = keep_labeled(examples, groups)
    check_groups(groups)
    model = resolve_model(model, given)
    loaded = load_model(model, precision=precision)
    check_query(model, loaded.similarity, query)
    names, of = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    unknown = np.zeros(len(texts), dtype=bool)
    values = encode_texts(loaded, [*examples, *texts, *([] if query is None else [query])], progress)
    known, new = values[: len(examples)], values[len(examples) : len(examples) + len(texts)]
    if loaded.similarity:
        pairs = loaded.similarity.distances_to(known, new, None if query is None else values[-1])
        labels, distance = find_nearest_on_average(pairs, of)
        strange, alike = find_strays_by_distance(pairs, labels, of), are_equal(texts)
    else:
        unknown = find_unknown(new)
        labels, distance = find_nearest(known, of, new)
        labels[unknown], distance[unknown] = -1, np.nan
        strange, alike = find_strays(new, labels, known, of), alike_by_vectors(new, distance)
    words, nearest = find_keywords(examples, of), find_typical(labels, distance, alike)
    called = {c: str(name) for c, name in enumerate(names)}
    found = Clustering(labels, distance, words, nearest, None, names=called, strays=strange, unknown=unknown)
    found = replace(found, long_texts=measure_long_texts(loaded, given), model=loaded.name)
    return replace(found.of_all(rows, pd.Index(rows).get_indexer(range(len(given)))), texts=given)


def keep_labeled(examples: Sequence[str], groups: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the examples that have words and a group, and their groups."""
    whole = [(text, group) for text, group in zip(examples, groups, strict=True) if text.strip() and group.strip()]
    return [text for text, _ in whole], [group for _, group in whole]


def find_nearest(
    known: Matrix, clusters: NDArray[np.int64], new: Matrix
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the cluster whose mean is nearest to each new vector by the cosine, and the Euclidean distance to its mean.

    Parameters
    ----------
    known : array or csr_matrix of shape (n_known, n_dimensions)
        Vectors whose clusters are known.
    clusters : ndarray of shape (n_known,)
        The clusters of the known vectors; -1 is noise.
    new : array or csr_matrix of shape (n_new, n_dimensions)
        The new vectors.

    Returns
    -------
    labels : ndarray of shape (n_new,)
        Nearest cluster; -1 where there are no clusters.
    distances : ndarray of shape (n_new,)
        Distance to its mean; nan where there are no clusters.
    """
    from sklearn.preprocessing import normalize

    ids, means = compute_centers(known, clusters)
    labels, distance = np.full(new.shape[0], -1, dtype=np.int64), np.full(new.shape[0], np.nan)
    if not len(ids):
        return labels, distance
    towards = normalize(compute_centers(normalize(known), clusters)[1])
    step = max(1, BLOCK // (8 * max(means.shape)))
    for start in range(0, new.shape[0], step):
        block = new[start : start + step]
        nearest = np.asarray(block @ towards.T).argmax(axis=1)
        rows = block if isinstance(block, np.ndarray) else block.toarray()
        labels[start : start + step] = ids[nearest]
        distance[start : start + step] = np.linalg.norm(rows - means[nearest], axis=1)
    return labels, distance


def check_groups(groups: Sequence[str], column: str = "labels") -> None:
    """Refuse labels that make no groups: none, one, or almost all different."""
    counts = Counter(groups)
    if len(counts) < 2:
        raise TraubeError(
            f"{column}: texts are put into groups, and there is {len(counts)}: give examples of at least two"
        )
    if names_texts(groups):
        raise TraubeError(
            f"{column}: {len(counts):,} different values in {len(groups):,} rows name texts, not groups: "
            "name the column of groups"
        )


def assign_by_served(served: Served, texts: Sequence[str]) -> Clustering:
    """Put texts into the clusters of a served clustering; blank ones join none."""
    rows = find_filled(texts)
    found = served.predict([texts[i] for i in rows])
    labels, distance = found["cluster"].to_numpy(np.int64), found["distance"].to_numpy(np.float64)
    nearest = find_typical(labels, distance, are_equal([texts[i] for i in rows]))
    clusters = Clustering(labels, distance, served.words, nearest, None)
    return replace(clusters.of_all(rows, pd.Index(rows).get_indexer(range(len(texts)))), texts=texts)
