"""Traube's default grouping of given vectors, in a process of its own: the other side of `bertopic_side.py`."""

from typing import Any

import numpy as np
from grouping_side import run

from traube._grouping.describe import find_keywords
from traube.components.estimators.stable_kmeans import StableKMeans


def group(texts: list[str], vectors: np.ndarray, seed: int) -> dict[str, Any]:
    fitted = StableKMeans(random_state=seed).fit(vectors)
    return {
        "labels": fitted.labels_.tolist(),
        "words": find_keywords(texts, fitted.labels_),
        "layers": [layer.tolist() for layer in fitted.layers_],
        "score": fitted.score_,
    }


def load_words(dimensions: int) -> None:
    """Load stop words and languages."""
    find_keywords(["a few words", "einige Worte"] * 25, np.arange(50) % 2)


if __name__ == "__main__":
    run("traube", group, load_words)
