"""Which cells a pair task has under a model, and those that are missing, computed and stored."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from traube.benchmark.record import library_versions
from traube.engine.pair_scores import COMPARISONS, Comparison, score_pairs, similarities
from traube.engine.progress import SILENT, Progress
from traube.engine.workbench import Workbench
from traube.foundation.files import frame_digest
from traube.foundation.versions import versions
from traube.models import Model, fingerprint_on
from traube.store.pairs import PairCell, PairStore
from traube.tasks.scored_pairs import PairTask

LIBRARIES = ("numpy", "scipy")
TEST = "test"


def pair_cells(
    task: PairTask, model: Model, comparisons: Sequence[Comparison] | None = None, part: str = TEST
) -> list[PairCell]:
    """All cells of a pair task and a model, stored or not.

    Parameters
    ----------
    comparisons : by default all that go with the model; the history is joined and not, where there
        is one
    """
    asked = comparisons or (("own",) if model.similarity is not None else COMPARISONS[:-1])
    numerics = tuple(sorted({**model.numerics, **versions(LIBRARIES)}.items()))
    return [
        PairCell(
            task=task.name,
            model=model.name,
            fingerprint=fingerprint_on(model, frame_digest(task.corpus)),
            comparison=comparison,
            history=history,
            part=part,
            data_version=task.data_version,
            numerics=numerics,
        )
        for comparison in asked
        for history in ((False, True) if task.has_history else (False,))
    ]


def score_missing(
    task: PairTask,
    model: Model,
    cells: Sequence[PairCell],
    workbench: Workbench,
    *,
    run_id: str = "",
    progress: Progress = SILENT,
) -> int:
    """Compute and store those of some cells of a task and a model that are not stored; how many
    they were.

    Raises
    ------
    TraubeError
        If the task has no pairs of a cell's part, or a text cannot be encoded.
    """
    store = PairStore.of(workbench.store)
    missing = [cell for cell in cells if store.cell(cell.task, cell.cell_id) is None]
    for cell in missing:
        chosen = (task.with_history() if cell.history else task).of_part(cell.part)
        alike = similarities(chosen, model, workbench, cell.comparison, progress)  # type: ignore[arg-type]
        scores = score_pairs(chosen, alike)
        about = {
            "scores": scores.replace({np.nan: None}).to_dict("records"),
            "library_versions": library_versions(),
            "run_id": run_id,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        store.save_cell(cell, pd.DataFrame({"pair": chosen.pairs["pair"], "alike": alike}), about)
    return len(missing)
