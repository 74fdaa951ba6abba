"""Encode a task's texts once for checkpoints that share an encoder and differ in their heads alone (`layers=0`).

Each checkpoint's vectors are what its head makes of the shared encoder's; they are stored as if `traube run` had encoded the
texts, which would pass each of them through the whole network once a checkpoint. Some texts are encoded both ways first: where
they differ by more than 1e-5, or the encoders are not the same, nothing is stored.

Examples
--------
python benchmarks/one_body.py newsgroups "cob__newsgroups__minilm.*-best"
"""

import argparse
import fnmatch
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHECKED = 32  # texts that are encoded both ways
CLOSE = 1e-5


def encode_body(network: Any, texts: Sequence[str], batch: int = 64) -> Any:
    """Return the output of all modules before the last one, float32 [n, d]."""
    import torch

    order = np.argsort([len(text) for text in texts], kind="stable")
    rows: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            features = network.preprocess([texts[i] for i in part])
            for module in list(network)[:-1]:
                features = module(features)
            for i, row in zip(part, features["sentence_embedding"], strict=True):
                rows[i] = row
    return torch.stack(rows)


def apply_head(network: Any, pooled: Any) -> NDArray[np.float32]:
    """Return what the last module makes of the shared output."""
    import torch

    with torch.inference_mode():
        return network[-1]({"sentence_embedding": pooled})["sentence_embedding"].float().cpu().numpy()


def have_one_body(a: Any, b: Any) -> bool:
    """Return whether all modules before the last have the same weights."""
    import torch

    pairs = zip(list(a)[:-1], list(b)[:-1], strict=True)
    return all(
        torch.equal(one, other)
        for left, right in pairs
        for one, other in zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    )


def main() -> None:
    """Store the vectors of each checkpoint."""
    from sentence_transformers import SentenceTransformer

    from traube._core import paths
    from traube._pipeline.embed import open_cache
    from traube._storage import open_storage
    from traube.models import load_model
    from traube.models.checkpoints import folders
    from traube.tasks.stored import read_task

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="Task whose scored texts are encoded.")
    parser.add_argument("pattern", help="Checkpoints, as of a shell.")
    options = parser.parse_args()
    storage = open_storage(paths.home())
    task = read_task(storage, options.task)
    texts = list(dict.fromkeys(task.texts_at(task.scored)))
    first = pooled = None
    for folder in (folder for folder in folders() if fnmatch.fnmatch(folder.name, options.pattern)):
        model, network = load_model(folder.name, precision="fp32"), SentenceTransformer(str(folder), device="cpu")
        cache = open_cache(storage, model)
        if (cache.find_rows(texts) >= 0).all():
            continue
        if first is None:
            first, pooled = network, encode_body(network, texts)
        assert have_one_body(first, network), f"{folder.name}: another encoder"
        vectors = apply_head(network, pooled)
        both = np.abs(np.asarray(model.encoder.encode(texts[:CHECKED])) - vectors[:CHECKED]).max()
        assert both < CLOSE, f"{folder.name}: {both:.2g} away from what its network gives"
        cache.append(texts, vectors)
        print(f"{folder.name}: {len(texts):,} texts, at most {both:.1g} away", flush=True)


if __name__ == "__main__":
    main()
