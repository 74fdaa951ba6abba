"""`registry`: which clustering of each task is served, and why the challenger is not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd

from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.registry import CHAMPION, RegistryResource, is_candidate
from resources.storage import StorageResource
from traube.core.errors import TraubeError
from traube.core.files import locked
from traube.models import Model, fingerprint_on
from traube.models.card import Precision
from traube.pipeline.params import load_params
from traube.pipeline.workbench import Workbench
from traube.storage import Storage
from traube.tasks import sources
from traube.tasks.stored import get_manifest, read_task
from traube.tasks.task import Task

if TYPE_CHECKING:
    from traube.comparison.candidates import Candidate
    from traube.comparison.promotion import Decision


@dg.asset(
    key="registry",
    deps=["leaderboard"],
    group_name="registry",
    kinds={"mlflow"},
    description="Champion and challenger of each task. The champion changes only for one that is better by a paired test.",
)
def registry(
    context: dg.AssetExecutionContext,
    storage: StorageResource,
    benchmark: BenchmarkResource,
    encoder: EncoderResource,
    models: RegistryResource,
) -> dg.MaterializeResult:
    from traube.comparison.candidates import candidates, main_metric
    from traube.comparison.promotion import judge

    opened, request = storage.open(), benchmark.request()
    with locked(opened.get_table_path("registry")):
        tasks = _tasks(opened, list(request.tasks))
        options = {
            name: candidates(
                opened, name, request.protocol_name, request.protocol, main_metric(task.card, request.protocol)
            )
            for name, task in tasks.items()
        }
        precision, split_set = request.protocol.precision, request.protocol.split_set
        challengers, champions, newcomers = _sides(models, encoder, precision, storage.workbench, options)
        families = {name: task.card.family for name, task in tasks.items()}
        decisions = judge(opened, families, options, challengers, champions, load_params().promotion, newcomers)
        notes = []
        for name, task in tasks.items():
            try:  # a model that is gone keeps only its own task from being served
                if champion := champions.get(name):
                    _renew(champion, task, encoder.model(champion.model, precision), storage, models, split_set)
                for decision in (d for d in decisions if d.task == name):
                    model = encoder.model(decision.challenger.model, precision)
                    _apply(decision, task, model, storage, models, split_set)
            except TraubeError as error:
                context.log.warning(f"{name}: {error}")
                notes.append(f"{name}: {error}")
    table = decision_table(decisions)
    return dg.MaterializeResult(
        metadata={
            "verdicts": dg.MetadataValue.md(table.to_markdown(index=False)),
            "promoted": sum(d.outcome in ("first", "promote") for d in decisions),
            **({"not_served": dg.MetadataValue.md("\n".join(f"- {n}" for n in notes))} if notes else {}),
        }
    )


def _tasks(storage: Storage, names: list[str]) -> dict[str, Task]:
    """The stored tasks with labels: without them nothing can be better."""
    known = sources()
    stored = {name: read_task(storage, name) for name in names if name in known and get_manifest(storage, name)}
    return {name: task for name, task in stored.items() if task.labelled}


def _sides(
    models: RegistryResource,
    encoder: EncoderResource,
    precision: Precision | None,
    workbench: Workbench,
    candidates: Mapping[str, "list[Candidate]"],
) -> tuple[dict[str, "Candidate"], dict[str, "Candidate | None"], dict[str, int]]:
    """By task: the best candidate that can be served and is not the champion, the champion as
    scored on the present data, and among how many newcomers the challenger is the best.
    """
    newcomers: dict[str, int] = {}
    challengers: dict[str, Candidate] = {}
    champions: dict[str, Candidate | None] = {}
    names = {c.model for options in candidates.values() for c in options}
    usable = {name: model for name in names if (model := _usable(encoder, name, precision))}
    for task, options in candidates.items():
        held, version = models.held(task, CHAMPION), workbench.manifest(task).corpus_version
        present = {name: _present(usable.get(name), version) for name in {c.model for c in options}}
        weights = {c.key: w for c in options for w, fingerprint in [present[c.model]] if c.fingerprint == fingerprint}
        if held:
            champions[task] = next((c for c in options if is_candidate(held, c, weights.get(c.key))), None)
        out = [held, *models.rejected(task)] if held else []
        new = [c for c in options if c.key in weights and not any(is_candidate(o, c, weights[c.key]) for o in out)]
        # by the champion's method, where they are scored by it: the model is compared, and the
        # choice is among few
        pool = [c for c in new if held and c.method == held.get("method")] or new
        if pool:
            challengers[task], newcomers[task] = pool[0], len(pool)
    return challengers, champions, newcomers


def _usable(encoder: EncoderResource, name: str, precision: Precision | None) -> Model | None:
    """A model that can be served; None if it is gone."""
    try:
        model = encoder.model(name, precision)
        _ = model.fingerprint
    except TraubeError:
        return None
    return model


def _present(model: Model | None, corpus_version: str) -> tuple[str | None, str | None]:
    """The fingerprints of a model as it is now, by itself and on the task's corpus; None if it is
    gone.
    """
    return (None, None) if model is None else (model.fingerprint, fingerprint_on(model, corpus_version))


def _renew(
    champion: "Candidate", task: Task, model: Model, storage: StorageResource, models: RegistryResource, split_set: str
) -> None:
    """Serve the champion from the task's present data, once it is scored on it."""
    held = models.held(task.name, CHAMPION)
    if held and held["data_version"] != champion.data_version:
        version = _register(champion, task, model, storage, models, split_set)
        models.renew(task.name, version)
        models.tag(task.name, version, {"decision": "renewed", "reason": "the same champion, on new data"})


def _apply(
    decision: "Decision", task: Task, model: Model, storage: StorageResource, models: RegistryResource, split_set: str
) -> None:
    """Register the challenger, and move the aliases as was decided."""
    version = _register(decision.challenger, task, model, storage, models, split_set)
    models.explain(task.name, version, decision)
    if decision.outcome in ("first", "promote"):
        models.promote(task.name, version)
    else:
        models.challenge(task.name, version)


def _register(
    candidate: "Candidate", task: Task, model: Model, storage: StorageResource, models: RegistryResource, split_set: str
) -> str:
    from traube.grouping import served as serving

    opened, vectors = storage.open(), storage.workbench.vectors(task, model)
    return models.register(candidate, lambda: serving.freeze(opened, task, candidate, model, vectors, split_set))


def decision_table(decisions: list["Decision"]) -> pd.DataFrame:
    """One row a task, for people."""
    return pd.DataFrame(
        [
            {
                "task": d.task,
                "decision": d.outcome,
                "challenger": f"{d.challenger.name}: {100 * d.challenger.mean:.2f}",
                "champion": f"{d.champion.name}: {100 * d.champion.mean:.2f}" if d.champion else "",
                "reason": d.reason,
            }
            for d in decisions
        ],
        columns=["task", "decision", "challenger", "champion", "reason"],
    )
