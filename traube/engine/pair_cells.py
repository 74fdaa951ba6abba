"""Which cells a pair task has under a model; which of them are missing; these, computed and stored."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from traube.benchmark.plan import Request, usable_models
from traube.benchmark.record import library_versions
from traube.engine.pair_scores import COMPARISONS, Comparison, asks_for_query, score_pairs, similarities
from traube.engine.progress import SILENT, Progress
from traube.engine.workbench import Workbench
from traube.foundation.hashing import frame_digest
from traube.foundation.versions import versions
from traube.models import Model, fingerprint_on
from traube.store.pairs import PairCell, PairStore
from traube.tasks import get_pair_source
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


@dataclass(frozen=True)
class PairPlan:
    """What has to be done for some pair tasks.

    Attributes
    ----------
    missing : tasks of which cells are missing, by model; a model that lacks none is not in it
    unread : tasks whose raw data is new or has changed
    unavailable : reason by name of a task that cannot be had here
    """

    missing: dict[str, list[str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)


def unread_pairs(names: Iterable[str], store: PairStore) -> tuple[list[str], dict[str, str]]:
    """Pair tasks whose stored tables are absent or older than the raw data; and those that are
    unavailable, with the reason.

    Raises
    ------
    Unknown
        If there is no pair task of a name.
    """
    new, unavailable = [], {}
    for source in map(get_pair_source, dict.fromkeys(names)):
        if reason := source.missing():
            unavailable[source.name] = reason
        elif store.raw_version(source.name) != source.raw_version():
            new.append(source.name)
    return new, unavailable


def plan_pairs(request: Request, store: PairStore) -> PairPlan:
    """Compare what is asked for of pair tasks with what is stored. Models that cannot be had are
    left out, and so are those that compare texts for a query.

    Raises
    ------
    TraubeError
        If there is no pair task or model of a name, or a stored pair task is damaged.
    """
    new, unavailable = unread_pairs(request.pair_tasks, store)
    tasks = [task for name in dict.fromkeys(request.pair_tasks) if name not in new and (task := store.task(name))]
    models = usable_models(request, {}).values() if tasks else ()
    missing = {
        model.name: lacking
        for model in models
        if not asks_for_query(model)
        and (lacking := [task.name for task in tasks if _missing(pair_cells(task, model), store)])
    }
    return PairPlan(missing, new, unavailable)


def _missing(cells: Iterable[PairCell], store: PairStore) -> list[PairCell]:
    return [cell for cell in cells if store.cell(cell.task, cell.cell_id) is None]


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
    missing = _missing(cells, store)
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
