"""One run of MTEB for vs_mteb.py, in a process of MTEB's environment. Prints its measurements as JSON."""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks.clustering_legacy import AbsTaskClusteringLegacy
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.cache_wrappers import CachedEmbeddingWrapper
from sentence_transformers import SentenceTransformer
from sklearn.cluster import MiniBatchKMeans

BLURBS = mteb.get_task("BlurbsClusteringS2S").metadata  # of the same kind as our splits


class Splits(AbsTaskClusteringLegacy):
    """The splits of vs_mteb.py as a task of MTEB's first clustering protocol: nothing of it is overridden."""

    metadata = BLURBS.model_copy(update={"name": "VsMteb", "superseded_by": None})


def main() -> None:
    """Evaluate the splits in `folder` with MTEB's defaults; with `--cache`, with its cache wrapper."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    splits = json.loads((arguments.folder / "splits.json").read_text(encoding="utf-8"))
    task = _make_task(splits)
    network = SentenceTransformer(arguments.model, device="cpu", local_files_only=True)
    network.encode(["warm up", "the network"])
    MiniBatchKMeans(2).fit(np.random.default_rng(0).random((50, 4), dtype=np.float32))
    model: Any = SentenceTransformerEncoderWrapper(network)
    if arguments.cache:
        model = CachedEmbeddingWrapper(model, arguments.cache)

    cpu, wall = time.process_time(), time.perf_counter()
    startup = {"startup_cpu": cpu, "ready": time.time()}
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    work = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}

    v = result.task_results[0].scores["test"][0]["v_measures"]
    print(json.dumps({**startup, **work, "v": dict(zip((s["split"] for s in splits), v, strict=True))}))


def _make_task(splits: list[dict[str, Any]]) -> Splits:
    task = Splits()
    rows = Dataset.from_list([{"sentences": s["texts"], "labels": s["labels"]} for s in splits])
    task.dataset = DatasetDict({"test": rows})
    task.data_loaded = True
    return task


if __name__ == "__main__":
    main()
