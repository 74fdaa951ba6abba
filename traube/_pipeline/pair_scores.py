"""Agreement of a model's similarities of texts with the gold scores of pairs."""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import Failed, Unsupported, unknown
from traube._core.progress import SILENT, Progress
from traube._pipeline.workbench import Workbench
from traube.metrics.correlation import Kind as Correlation
from traube.metrics.correlation import correlation
from traube.models import Model, Vectors
from traube.models.prompts import for_pairs
from traube.tasks.scored_pairs import has_history, iterate_groups, join_histories, locate_texts, select_pairs
from traube.tasks.task import Task

Array: TypeAlias = NDArray[np.float64]
CORRELATIONS: tuple[Correlation, ...] = get_args(Correlation)
Comparison = Literal["cosine", "euclidean", "dot", "own"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)
TEST = "test"


def explain_refusal(model: Model) -> str | None:
    """Return why a model cannot compare pairs, in one line; None if it can."""
    if model.similarity is not None and model.similarity.query == "text":
        return f"model '{model.name}' compares texts for a query, and pairs have none"
    return None


def list_comparisons(model: Model) -> tuple[Comparison, ...]:
    """Return the comparisons that go with a model, the usual one first."""
    return COMPARISONS[:-1] if model.similarity is None else ("own",)


def compare_pairs(
    task: Task, model: Model, workbench: Workbench, comparison: str, progress: Progress = SILENT
) -> Array:
    """Return how similar the texts of each pair are to a model, float64 [p]; larger is more similar.

    Raises
    ------
    Unsupported
        If the comparison does not go with the model.
    TraubeError
        If a text cannot be encoded, or a similarity is not finite.
    """
    if comparison not in COMPARISONS:
        raise unknown("comparison", comparison, COMPARISONS)
    similarity, suited = model.similarity, list_comparisons(model)
    if comparison not in suited:
        has = "has no similarity of its own" if similarity is None else "compares texts itself"
        raise Unsupported(f"model '{model.name}' {has}: use {suited[0]}")
    if reason := explain_refusal(model):
        raise Unsupported(reason)
    vectors, place = embed_pairs(task, model, workbench, progress)
    loaded = vectors.load()
    one, other = (loaded[place[rows]] for rows in locate_texts(task))
    if similarity is None:
        similarities = _compare(comparison, one, other)
    else:
        stack = sparse.vstack if sparse.issparse(one) else np.vstack
        both = (stack([one[i : i + 1], other[i : i + 1]]) for i in range(one.shape[0]))
        compared = [similarity.compare(pair, similarity.make_query(pair, None))[0, 1] for pair in both]
        similarities = np.array(compared, dtype=np.float64)
    if not np.isfinite(similarities).all():
        raise Failed(f"model '{model.name}': a similarity is NaN or infinite: the weights are broken")
    return similarities


def select_test_forms(task: Task) -> list[Task]:
    """Return the test pairs of a task, and these with their histories if there are any."""
    forms = [task, join_histories(task)] if has_history(task.rows) else [task]
    return [select_pairs(form, TEST) for form in forms]


def list_pair_texts(task: Task) -> list[str]:
    """Return the texts of the test pairs of a task, without and with histories."""
    forms = select_test_forms(task)
    return [text for form in forms for text in form.texts_at(np.unique(np.concatenate(locate_texts(form))))]


def embed_pairs(
    task: Task, model: Model, workbench: Workbench, progress: Progress = SILENT
) -> tuple[Vectors, NDArray[np.int64]]:
    """Return the vectors of the texts of a task's pairs; of a corpus-bound model, those of its whole corpus.

    Returns
    -------
    vectors : Vectors [n, d]
        Vectors of the texts.
    place : ndarray of shape (texts of the corpus,), int64
        The row of each text in the vectors; -1 where it has none.
    """
    model = for_pairs(model)
    needed = np.arange(len(task.corpus)) if model.corpus_bound else np.unique(np.concatenate(locate_texts(task)))
    texts = task.texts
    vectors = workbench.vectors_of_texts([texts[i] for i in needed], model, progress)
    place = np.full(len(texts), -1, dtype=np.int64)
    place[needed] = np.arange(len(needed))
    return vectors, place


def score_pairs(task: Task, similarities: Array) -> pd.DataFrame:
    """Correlate similarities [p], one for each of the task's pairs, with its gold scores.

    Returns the columns that `evaluate_pairs` returns. Intervals are made by drawing dialogues; of pairs that are of
    no dialogue, pairs.
    """
    gold, dialogues = task.rows["score"].to_numpy(), task.rows["dialogue"].to_numpy()
    rows = []
    for group, value, chosen in iterate_groups(task):
        row: dict[str, Any] = {"group": group, "value": value}
        for kind in CORRELATIONS:
            estimate = correlation(kind, similarities[chosen], gold[chosen], dialogues[chosen])
            row |= {"pairs": estimate.n, "dialogues": estimate.groups}  # the same of all kinds
            row |= {kind: estimate.value, f"{kind}_low": estimate.low, f"{kind}_high": estimate.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _dot(one: Any, other: Any) -> Array:
    """Return the row-by-row dot product, float64 [p]."""
    if sparse.issparse(one):
        return np.asarray(one.astype(np.float64).multiply(other).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", one.astype(np.float64), other.astype(np.float64))


def _compare(comparison: str, one: Any, other: Any) -> Array:
    """Return the row-by-row comparison, float64 [p]; larger is more similar."""
    if comparison == "dot":
        return _dot(one, other)
    if comparison == "euclidean":
        difference = one.astype(np.float64) - other
        return -np.sqrt(_dot(difference, difference))
    lengths = np.sqrt(_dot(one, one) * _dot(other, other))
    # the cosine is 0 where a vector is 0: a text without a known word is like nothing
    return np.divide(_dot(one, other), lengths, out=np.zeros_like(lengths), where=lengths > 0)
