"""EVoC with its defaults on vectors that are there: the labels it holds to be best, and its layers.

Reads vectors.npy of a folder, and writes there what it found: labels (-1 is noise), labels with noise put into the group
whose mean is nearest, all layers reassigned in the same way, CPU seconds. Runs in an environment of its own.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from cpu import used
from evoc import EVoC


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    vectors = np.load(arguments.folder / "vectors.npy")
    random = np.random.default_rng(0).normal(size=(300, vectors.shape[1])).astype(np.float32)
    EVoC(random_state=0).fit(random)  # compile first
    began = used()
    fitted = EVoC(random_state=arguments.seed).fit(vectors)
    seconds = used() - began
    layers = [reassigned(vectors, np.asarray(layer)) for layer in fitted.cluster_layers_]
    labels = np.asarray(fitted.labels_)
    found = {
        "labels": labels.tolist(),
        "reassigned": reassigned(vectors, labels).tolist(),
        "layers": [layer.tolist() for layer in layers],
        "words": {},
        "seconds": seconds,
    }
    (arguments.folder / "evoc.json").write_text(json.dumps(found))


def reassigned(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels with noise in the cluster whose mean is nearest."""
    clusters = np.unique(labels[labels >= 0])
    if not len(clusters):
        return labels
    means = np.stack([vectors[labels == c].mean(axis=0) for c in clusters])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.where(labels >= 0, labels, clusters[(vectors @ means.T).argmax(axis=1)])


if __name__ == "__main__":
    main()
