"""Traube: which text embedding groups these texts best?

The library behind the platform. It never imports dagster or mlflow and works from a notebook with nothing running::

    from traube.engine.evaluate import evaluate_cells
    from traube.models import load_model
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import cells
    from traube.tasks import load_task

    task, model, protocol = load_task("pydocs_s2s"), load_model("bow"), load_params().chosen("paper")
    methods = [protocol.method("none/minibatch_kmeans")]
    scores, assignments = evaluate_cells(task, model, cells(task, model, protocol, methods=methods))
"""

import os

# Set before torch is imported anywhere: two torch threads that spin while they wait make everything else on the
# machine, and torch itself, about twice as slow.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
