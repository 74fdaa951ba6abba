"""The worker processes: how many there are, and what is said when one is killed."""

import os
import signal

import numpy as np
import pytest

from tests.made import cells_of
from traube.engine import workers
from traube.engine.evaluate import evaluate_cells
from traube.foundation.errors import TraubeError
from traube.methods import register_clusterer
from traube.models import load_model
from traube.tasks.task import Task


@pytest.mark.parametrize("value", ["0", "two", ""])
def test_a_number_of_workers_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", value)
    with pytest.raises(TraubeError, match=f"^TRAUBE_WORKERS is '{value}'; it must be a whole number from 1$"):
        workers.count()


@pytest.mark.usefixtures("registries")
def test_a_killed_worker_is_one_clear_error_and_the_next_run_works(tiny_task: Task) -> None:
    class Doomed:
        def __init__(self, n_clusters: int) -> None: ...

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does to a process that takes too much memory
            return np.zeros(len(X), dtype=np.int64)

    register_clusterer("doomed", Doomed)
    with pytest.raises(TraubeError, match=r"^a worker process was killed, most likely for lack of memory; what is fin"):
        evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/doomed"))
    scores, _ = evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/kmeans"))
    assert len(scores)
