"""What MLflow still has to be told: a mark for each task and model, which lies there from before
MLflow is told until it knows everything.

Telling it is done in `resources.tracking`.
"""

from pathlib import Path

from traube.benchmark.plan import Request
from traube.foundation import paths


def mark(model: str, task: str) -> Path:
    """The mark of a task and a model, a file."""
    return paths.home() / "untold" / model / task  # its name in homes that exist


def unlogged(request: Request) -> dict[str, list[str]]:
    """What MLflow lacks of what is asked for, because it could not be reached, or the process died:
    tasks by model.
    """
    tasks = [*request.tasks, *request.pair_tasks]
    by_model = {model: [t for t in tasks if mark(model, t).exists()] for model in request.models}
    return {model: tasks for model, tasks in by_model.items() if tasks}
