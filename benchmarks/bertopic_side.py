"""BERTopic with its defaults on given vectors; runs in an environment of its own, without Traube.

Finds labels (-1 is an outlier), labels with outliers put into the topic whose mean embedding is nearest, and ten words for
each topic; CPU seconds count the labels and words alone.
"""

from typing import Any

import numpy as np
from bertopic import BERTopic
from grouping_side import cpu_seconds, noise_vectors, run
from umap import UMAP


def fit(texts: list[str], vectors: np.ndarray, seed: int) -> tuple[BERTopic, list[int]]:
    """Fit BERTopic with its own UMAP, but with a seed."""
    reducer = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", low_memory=False, random_state=seed)
    model = BERTopic(umap_model=reducer)
    return model, model.fit_transform(texts, vectors)[0]


def group(texts: list[str], vectors: np.ndarray, seed: int) -> dict[str, Any]:
    began = cpu_seconds()
    model, labels = fit(texts, vectors, seed)
    seconds = cpu_seconds() - began
    topics = {int(t): [word for word, _ in model.get_topic(t) if word] for t in set(labels) if t >= 0}
    reassigned = labels
    if -1 in labels and topics:
        reassigned = model.reduce_outliers(texts, labels, strategy="embeddings", embeddings=vectors)
    return {
        "labels": [int(label) for label in labels],
        "reassigned": [int(label) for label in reassigned],
        "words": topics,
        "seconds": seconds,
    }


if __name__ == "__main__":
    run("bertopic", group, lambda d: fit([f"warm up w{i % 7}" for i in range(300)], noise_vectors(d), 0))
