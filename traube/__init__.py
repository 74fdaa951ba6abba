"""Traube: which text embedding groups these texts best?

The library behind the platform. It never imports dagster or mlflow and works from a notebook with nothing running::

    from traube import load_task, load_model, evaluate, cells

    task, model = load_task("pydocs_s2s"), load_model("bow")
    scores, assignments = evaluate(task, model, cells(task, model, methods=["none+minibatch_kmeans"]))
"""

import os

# Set before torch is imported anywhere: two torch threads that spin while they wait make everything else on the
# machine, and torch itself, about twice as slow.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
