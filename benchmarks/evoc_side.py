"""EVoC with its defaults on given vectors; runs in an environment of its own, without Traube.

Finds the labels that EVoC holds to be best (-1 is noise), labels with noise put into the cluster whose mean is nearest, and
all layers reassigned in the same way; CPU seconds count the labels alone.
"""

from typing import Any

import numpy as np
from evoc import EVoC
from grouping_side import cpu_seconds, noise_vectors, run


def group(texts: list[str], vectors: np.ndarray, seed: int) -> dict[str, Any]:
    began = cpu_seconds()
    fitted = EVoC(random_state=seed).fit(vectors)
    seconds = cpu_seconds() - began
    labels = np.asarray(fitted.labels_)
    layers = [reassign_noise(vectors, np.asarray(layer)) for layer in fitted.cluster_layers_]
    return {
        "labels": labels.tolist(),
        "reassigned": reassign_noise(vectors, labels).tolist(),
        "layers": [layer.tolist() for layer in layers],
        "words": {},
        "seconds": seconds,
    }


def reassign_noise(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return labels with noise in the cluster whose mean is nearest."""
    clusters = np.unique(labels[labels >= 0])
    if not len(clusters):
        return labels
    means = np.stack([vectors[labels == c].mean(axis=0) for c in clusters])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.where(labels >= 0, labels, clusters[(vectors @ means.T).argmax(axis=1)])


if __name__ == "__main__":
    run("evoc", group, lambda d: EVoC(random_state=0).fit(noise_vectors(d)))
