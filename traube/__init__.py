"""Traube: which text embedding groups these texts best?

The library behind the platform. It never imports dagster or mlflow and works from a notebook with
nothing running.

Texts with labels are a task; `evaluate` says how well a model's vectors, grouped by a method, agree
with the labels:

>>> from traube import cluster_texts, evaluate, load_model, load_task, make_task
>>> texts = ["a goal in the match", "the match ended without a goal", "the keeper saved the match",
...          "the moon in its orbit", "an orbit around the moon", "a star and its moon"]
>>> task = make_task(texts, labels=["sport", "sport", "sport", "space", "space", "space"])
>>> scores, clusters = evaluate(task, load_model("minilm"), ["none/minibatch_kmeans", "none/agglomerative"])
>>> scores[scores["metric"] == task.card.main_metric]["value"].tolist()
[1.0, 1.0]

Tasks and models that come with Traube, or have a card in `cards/`, are loaded by name:

>>> load_model("tfidf").name
'tfidf'
>>> load_task("pydocs_s2s").labelled  # doctest: +SKIP
True

Texts without labels are grouped, and each group is described:

>>> groups = cluster_texts(texts, n_clusters=2)
>>> sorted(words[0] for words in groups.words.values())
['match', 'moon']
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traube.grouping.cluster_texts import Clustering, cluster_texts
    from traube.grouping.estimators import EmbeddingClusterer, TextClusterer
    from traube.models import load_model
    from traube.pipeline.evaluate import evaluate, evaluate_pairs
    from traube.tasks import load_pairs, load_task
    from traube.tasks.task import make_task

# Set before torch is imported anywhere: OpenMP threads that spin while they wait slow down everything else on
# the machine, and torch itself. Threads that spin briefly and then sleep take half the time of threads
# that sleep at once; GNU OpenMP reads the second variable, other implementations only the first.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
__all__ = [
    "Clustering",
    "EmbeddingClusterer",
    "TextClusterer",
    "cluster_texts",
    "evaluate",
    "evaluate_pairs",
    "load_model",
    "load_pairs",
    "load_task",
    "make_task",
]

# Imported when they are first asked for: pandas alone takes longer than most commands of the
# command line should.
_DEFINED_IN = {
    "Clustering": "traube.grouping.cluster_texts",
    "EmbeddingClusterer": "traube.grouping.estimators",
    "TextClusterer": "traube.grouping.estimators",
    "cluster_texts": "traube.grouping.cluster_texts",
    "evaluate": "traube.pipeline.evaluate",
    "evaluate_pairs": "traube.pipeline.evaluate",
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
