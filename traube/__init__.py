"""Traube: benchmarks of text embeddings for clustering.

The package imports neither dagster nor mlflow, and works in a notebook without any server.

`evaluate` scores how well clusterings of the models' embeddings agree with labels, `leaderboard` ranks the models,
and `compare` tests whether one is better than another:

>>> from traube import cluster_texts, compare, evaluate, leaderboard, load_model, load_task
>>> texts = ["a goal in the match", "the match ended without a goal", "the keeper saved the match",
...          "the moon in its orbit", "an orbit around the moon", "a star and its moon"]
>>> labels = ["sport", "sport", "sport", "space", "space", "space"]
>>> result = evaluate(texts, ["minilm", "tfidf"], ["none/minibatch_kmeans", "none/agglomerative"], labels=labels)
>>> leaderboard(result)["model"].tolist()[0]
'minilm'
>>> compare(result, "minilm", "tfidf").answer
'not significantly different (p = 1, 1 comparison)'

Tasks and models that come with Traube, or have a card in `cards/`, are loaded by name:

>>> load_model("tfidf").name
'tfidf'
>>> load_task("pydocs_s2s").is_labeled  # doctest: +SKIP
True

`cluster_texts` groups texts without labels, and finds key words for each group:

>>> groups = cluster_texts(texts, n_clusters=2)
>>> sorted(words[0] for words in groups.words.values())
['match', 'moon']
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traube._core.errors import TraubeError
    from traube._grouping.cluster_texts import cluster_texts
    from traube._grouping.clustering import Clustering
    from traube._grouping.estimators import EmbeddingClusterer, TextClusterer
    from traube._pipeline.evaluate import Evaluation, evaluate, evaluate_pairs
    from traube._reports.evaluations import compare, leaderboard
    from traube.models import load_model
    from traube.tasks import load_pairs, load_task
    from traube.tasks.task import make_task

# Set before torch is imported: OpenMP threads that spin while they wait slow down every other process, and torch
# itself. With GNU OpenMP, a brief spin before they sleep takes half the time of none; only GNU OpenMP reads
# GOMP_SPINCOUNT.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.2.0"
__all__ = [
    "Clustering",
    "EmbeddingClusterer",
    "Evaluation",
    "TextClusterer",
    "TraubeError",
    "cluster_texts",
    "compare",
    "evaluate",
    "evaluate_pairs",
    "leaderboard",
    "load_model",
    "load_pairs",
    "load_task",
    "make_task",
]

# Imported at first use: importing pandas alone takes longer than most commands should.
_DEFINED_IN = {
    "Clustering": "traube._grouping.clustering",
    "EmbeddingClusterer": "traube._grouping.estimators",
    "TextClusterer": "traube._grouping.estimators",
    "TraubeError": "traube._core.errors",
    "Evaluation": "traube._pipeline.evaluate",
    "cluster_texts": "traube._grouping.cluster_texts",
    "compare": "traube._reports.evaluations",
    "leaderboard": "traube._reports.evaluations",
    "evaluate": "traube._pipeline.evaluate",
    "evaluate_pairs": "traube._pipeline.evaluate",
    "load_model": "traube.models",
    "load_pairs": "traube.tasks",
    "load_task": "traube.tasks",
    "make_task": "traube.tasks.task",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'traube' has no attribute '{name}'")
    value = getattr(import_module(_DEFINED_IN[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
