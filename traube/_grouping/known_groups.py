"""Assignment of texts to existing groups: those of labeled texts, or of a served clustering."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from traube._core.errors import Malformed, TooFew
from traube._core.progress import SILENT, Progress
from traube._grouping.clustering import Clustering
from traube._grouping.describe import find_keywords, find_typical
from traube._grouping.inputs import check_query, encode_with_query, find_filled, find_unknown, resolve_model
from traube._grouping.joining import join_clusters
from traube._grouping.served import Served
from traube.components import TextView, VectorView
from traube.models import load_model
from traube.models.card import Precision
from traube.models.long_texts import measure_long_texts
from traube.models.views import show
from traube.tasks.task import names_texts


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
    vectors, query_vector = encode_with_query(loaded, [*examples, *texts], query, progress)
    known, new = vectors[: len(examples)], vectors[len(examples) :]
    view = show(known, loaded.similarity, query_vector)
    new_view = TextView(texts) if loaded.similarity else VectorView(new)
    unknown = find_unknown(new_view)
    labels, distance, fits = join_clusters(view, new, of)
    strange = (labels >= 0) & ~fits
    words, typical = find_keywords(examples, of), find_typical(labels, distance, new_view)
    called = {c: str(name) for c, name in enumerate(names)}
    clustering = Clustering(labels, distance, words, typical, None, names=called, strays=strange, unknown=unknown)
    text_view = TextView(texts, distance)  # to the examples: whoever leaves a group does not change it
    clustering = replace(clustering, long_texts=measure_long_texts(loaded, given), model=loaded.name, view=text_view)
    return replace(clustering.of_all(rows, pd.Index(rows).get_indexer(range(len(given)))), texts=given)


def keep_labeled(examples: Sequence[str], groups: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the examples that have words and a group, and their groups."""
    whole = [(text, group) for text, group in zip(examples, groups, strict=True) if text.strip() and group.strip()]
    return [text for text, _ in whole], [group for _, group in whole]


def check_groups(groups: Sequence[str], column: str = "labels") -> None:
    """Refuse labels that make no groups: none, one, or almost all different."""
    counts = Counter(groups)
    if len(counts) < 2:
        raise TooFew(f"{column}: texts are put into groups, and there is {len(counts)}: give examples of at least two")
    if names_texts(groups):
        raise Malformed(
            f"{column}: {len(counts):,} different values in {len(groups):,} rows name texts, not groups: "
            "name the column of groups"
        )


def assign_by_served(served: Served, texts: Sequence[str]) -> Clustering:
    """Put texts into the clusters of a served clustering, as `Served.predict` does; `strays` are texts that fit none."""
    rows = find_filled(texts)
    predictions = served.predict([texts[i] for i in rows])
    labels, distance = predictions["cluster"].to_numpy(np.int64), predictions["distance"].to_numpy(np.float64)
    view = TextView([texts[i] for i in rows], distance)
    strange = (labels >= 0) & ~predictions["fits"].to_numpy(bool)
    typical = find_typical(labels, distance, view)
    clusters = Clustering(labels, distance, served.words, typical, None, strays=strange, view=view)
    return replace(clusters.of_all(rows, pd.Index(rows).get_indexer(range(len(texts)))), texts=texts)
