"""Traube's default grouping of vectors that are there, in a process of its own: the other side of `bertopic_side.py`."""

import argparse
import json
from pathlib import Path

import numpy as np
from cpu import used

from traube.components.estimators.stable_kmeans import StableKMeans
from traube.grouping.describe import find_keywords


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    texts = json.loads((arguments.folder / "texts.json").read_text())
    vectors = np.load(arguments.folder / "vectors.npy")
    find_keywords(texts[:50], np.arange(50) % 2)  # loads stop words and languages
    began = used()
    fitted = StableKMeans(random_state=arguments.seed).fit(vectors)
    words = find_keywords(texts, fitted.labels_)
    seconds = used() - began
    found = {
        "labels": fitted.labels_.tolist(),
        "layers": [layer.tolist() for layer in fitted.layers_],
        "words": words,
        "seconds": seconds,
        "score": fitted.score_,
    }
    (arguments.folder / "traube.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
