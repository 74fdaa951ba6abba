"""BERTopic with its defaults on vectors that are there; runs in an environment of its own, without Traube.

Reads texts.json and vectors.npy of a folder, and writes what it found there: labels (-1 is an outlier), labels with
outliers put into the topic whose mean embedding is nearest, ten words for each topic, CPU seconds.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from bertopic import BERTopic
from cpu import used
from umap import UMAP


def grouped(texts: list[str], vectors: np.ndarray, seed: int) -> tuple[BERTopic, list[int]]:
    """BERTopic's own UMAP, with a seed."""
    reducer = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", low_memory=False, random_state=seed)
    model = BERTopic(umap_model=reducer)
    return model, model.fit_transform(texts, vectors)[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    texts = json.loads((arguments.folder / "texts.json").read_text())
    vectors = np.load(arguments.folder / "vectors.npy")
    # compile first, on few texts
    random = np.random.default_rng(0).normal(size=(300, vectors.shape[1])).astype(np.float32)
    grouped([f"warm up w{i % 7}" for i in range(300)], random, 0)
    began = used()
    model, labels = grouped(texts, vectors, arguments.seed)
    seconds = used() - began
    topics = {int(t): [word for word, _ in model.get_topic(t) if word] for t in set(labels) if t >= 0}
    reassigned = labels
    if -1 in labels and topics:
        reassigned = model.reduce_outliers(texts, labels, strategy="embeddings", embeddings=vectors)
    found = {
        "labels": [int(label) for label in labels],
        "reassigned": [int(label) for label in reassigned],
        "words": topics,
        "seconds": seconds,
    }
    (arguments.folder / "bertopic.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
