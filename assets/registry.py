"""`registry`: the clustering of each task that is served, and the reason why the challenger is not."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd

from assets.common import NIGHT, UNFINISHED, result_asset, yield_with_checks
from resources.alerts import SILENT, send_alert
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from resources.registry import CHAMPION, RegistryResource, describe_measure
from traube._core.errors import TraubeError
from traube._core.files import locked
from traube._core.hashing import frame_digest
from traube._pipeline.params import Protocol, load_params
from traube._pipeline.survey import plan
from traube._pipeline.workbench import Workbench
from traube._reports.markdown import markdown
from traube.comparison.verdict import format_score
from traube.models import Model, fingerprint_on
from traube.models.card import Precision
from traube.tasks import sources
from traube.tasks.stored import get_manifest, read_task
from traube.tasks.task import Task

if TYPE_CHECKING:
    from traube.comparison.candidates import Candidate
    from traube.comparison.champions import Champions
    from traube.comparison.promotion import Contest, Decision


KEY = dg.AssetKey("registry")


def registry_asset(tasks: Iterable[str]) -> dg.AssetsDefinition:
    """Make the asset of champions and challengers, with a check for each task of clustering of the benchmark."""
    known = sources()
    checks = {
        name: dg.AssetCheckSpec(
            f"champion_of_{re.sub(r'[^A-Za-z0-9_]', '_', name)}",
            asset=KEY,
            description=f"{name} has a champion that is scored",
        )
        for name in tasks
        if name in known
    }

    @result_asset(
        key=KEY,
        deps=["leaderboard"],
        kinds={"mlflow"},
        check_specs=[*checks.values()],
        description="Champion and challenger of each task. The champion changes only for one that is better by a paired test.",
    )
    def registry(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        benchmark: BenchmarkResource,
        encoder: EncoderResource,
        models: RegistryResource,
    ) -> Iterator[dg.MaterializeResult]:
        decisions, notes = _decide(context, storage, benchmark, encoder, models)
        champions = models.note_champions()
        versions = champions.table[["task", "version"]]
        formatted = pd.DataFrame([champion.formatted for champion in champions.now], columns=champions.table.columns)
        made: dg.MaterializeResult = dg.MaterializeResult(
            # what champions assigned is out of date if they have changed
            data_version=dg.DataVersion(frame_digest(versions)),
            metadata={
                "verdicts": dg.MetadataValue.md(_tabulate(decisions).to_markdown(index=False)),
                "champions": dg.MetadataValue.md(markdown(formatted)),
                "promoted": sum(d.outcome in ("first", "promote") for d in decisions),
                **({"not_served": dg.MetadataValue.md("\n".join(f"- {n}" for n in notes))} if notes else {}),
            },
            check_results=[
                _check_champion(name, spec, champions, {d.task: d for d in decisions}) for name, spec in checks.items()
            ],
        )
        yield from yield_with_checks(context, made)

    return registry


def _check_champion(
    task: str, spec: dg.AssetCheckSpec, champions: "Champions", decisions: Mapping[str, "Decision"]
) -> dg.AssetCheckResult:
    """Return whether a task has a champion that is scored on the present data, and why its challenger is held."""
    from traube.comparison.promotion import Why

    decision, champion = decisions.get(task), next((one for one in champions.now if one.task == task), None)
    is_scored = decision is None or decision.why is not Why.CHAMPION_UNSCORED
    served = f"{champion.model} with {champion.method}" if champion and champion.model else "no champion yet"
    reason = decision.reason if decision else "nothing challenges it"
    about = champion.model_dump() if champion else {}
    return dg.AssetCheckResult(
        check_name=spec.name,
        passed=bool(champion and champion.model) and is_scored,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{served}; {reason}",
        # numbers as people read them, of which Dagster draws a line
        metadata={
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in about.items()
            if value not in ("", None) and name != "task"
        },
    )


def _decide(
    context: dg.AssetExecutionContext,
    storage: StorageResource,
    benchmark: BenchmarkResource,
    encoder: EncoderResource,
    models: RegistryResource,
) -> tuple[list["Decision"], list[str]]:
    """Register the best model of each task, and decide whether it becomes the champion; return why tasks are not served."""
    from traube.comparison.candidates import candidates, main_metric
    from traube.comparison.champions import read_champions
    from traube.comparison.family import list_compared
    from traube.comparison.promotion import judge

    opened, request, known = storage.open(), benchmark.request(), sources()
    protocol = request.protocol
    with locked(opened.get_table_path("registry")):
        stored = {
            name: read_task(opened, name) for name in request.tasks if name in known and get_manifest(opened, name)
        }
        tasks = {name: task for name, task in stored.items() if task.is_labeled}  # without labels nothing can be better
        options = {
            name: candidates(opened, name, request.protocol_name, protocol, main_metric(task.card, protocol))
            for name, task in tasks.items()
        }
        compared = list_compared(opened, {request.protocol_name: protocol})
        options = {name: [one for one in some if one.model in compared[name]] for name, some in options.items()}
        contests = _choose_sides(
            models, encoder, protocol.precision, storage.workbench(), options, read_champions(opened)
        )
        families = {name: task.card.family for name, task in tasks.items()}
        # the models of the benchmark that can be scored and are not
        missing = {} if _ends_night(context) else plan(request, opened).missing
        awaited = {name: [model for model, tasks in missing.items() if name in tasks] for name in request.tasks}
        decisions = judge(opened, families, options, contests, load_params().promotion, awaited)
        notes = []
        for name, task in tasks.items():
            try:  # a model that is gone keeps only its own task from being served
                for decision, version in _serve(task, contests[name], decisions, encoder, storage, models, protocol):
                    if decision.champion and SILENT not in context.run.tags.items():
                        _alert(context, decision, version)
            except TraubeError as error:
                context.log.warning(f"{name}: {error}")
                notes.append(f"{name}: {error}")
    return decisions, notes


def _tabulate(decisions: Iterable["Decision"]) -> pd.DataFrame:
    """Return a row for each decision."""
    rows = [
        {
            "task": d.task,
            "decision": d.outcome,
            "challenger": f"{d.challenger.name}: {format_score(d.challenger.mean)}",
            "champion": f"{d.champion.name}: {format_score(d.champion.mean)}" if d.champion else "",
            "measure": describe_measure(d.challenger.level, d.challenger.metric, d.challenger.protocol),
            "reason": d.reason,
        }
        for d in decisions
    ]
    return pd.DataFrame(rows, columns=["task", "decision", "challenger", "champion", "measure", "reason"])


def _ends_night(context: dg.AssetExecutionContext) -> bool:
    """Return whether a publication is of a night whose runs have all ended."""
    if not (night := context.run.tags.get(NIGHT)):
        return False
    return not context.instance.get_runs(
        dg.RunsFilter(job_name="evaluate", tags={NIGHT: night}, statuses=[*UNFINISHED])
    )


def _alert(context: dg.AssetExecutionContext, decision: "Decision", version: str) -> None:
    """Raise an alert of a new champion, or of one that awaits approval, once for its version."""
    before = decision.champion.name if decision.champion else "none"
    details = [f"{before} -> {decision.challenger.name}", decision.reason]
    is_new = decision.outcome == "promote"
    advice = (
        f"To {'take it back' if is_new else 'approve'}: traube {'rollback' if is_new else 'promote'} {decision.task}"
    )
    summary = f"{decision.task} has a {'new champion' if is_new else 'challenger that awaits approval'}"
    send_alert(context.log, f"champion {decision.task} {version}", summary, details, advice)


def _choose_sides(
    models: RegistryResource,
    encoder: EncoderResource,
    precision: Precision | None,
    workbench: Workbench,
    candidates: Mapping[str, "list[Candidate]"],
    known: "Champions",
) -> dict[str, "Contest"]:
    """Choose champion and challenger of each task, among the models that can be served."""
    from traube.comparison.promotion import choose_sides

    noted = {champion.task: (champion.model, champion.method) for champion in known.now}
    usable: dict[str, tuple[Model, str]] = {}  # with the model's fingerprint by itself
    for name in {c.model for options in candidates.values() for c in options}:
        with suppress(TraubeError):  # one that is gone cannot be served
            model = encoder.model(name, precision)
            if model.card.kind != "endpoint":  # which whoever loads what is served would send texts to
                usable[name] = model, model.fingerprint

    contests = {}
    for task, options in candidates.items():
        version = workbench.manifest(task).corpus_version
        present = {n: fingerprint_on(usable[n][0], version) for n in {c.model for c in options} if n in usable}
        weights = {c.key: usable[c.model][1] for c in options if present.get(c.model) == c.fingerprint}
        held = models.find_version(task, CHAMPION)
        rejected = models.list_rejected(task) if held else []
        contests[task] = choose_sides(options, weights, held, rejected, noted.get(task))
    return contests


def _serve(
    task: Task,
    contest: "Contest",
    decisions: Iterable["Decision"],
    encoder: EncoderResource,
    storage: StorageResource,
    models: RegistryResource,
    protocol: Protocol,
) -> Iterator[tuple["Decision", str]]:
    """Serve the champion from the present data, register the challenger; yield decision and version of what is news."""
    from traube._grouping import served as serving
    from traube.comparison.candidates import Candidate
    from traube.comparison.promotion import Why

    def register(candidate: Candidate, model: Model) -> str:
        opened, vectors = storage.open(), storage.workbench().vectors(task, model)
        return models.register(
            candidate, lambda: serving.freeze(opened, task, candidate, model, vectors, protocol.split_set)
        )

    if isinstance(champion := contest.champion, Candidate):
        model, held = encoder.model(champion.model, protocol.precision), models.find_version(task.name, CHAMPION)
        if held and held["data_version"] != champion.data_version:
            version = register(champion, model)
            models.renew(task.name, version)

    for decision in (d for d in decisions if d.task == task.name):
        version = register(decision.challenger, encoder.model(decision.challenger.model, protocol.precision))
        models.explain(task.name, version, decision)
        if decision.outcome in ("first", "promote"):
            models.promote(task.name, version, by_hand=False)
            yield decision, version
        else:
            models.challenge(task.name, version)
            if decision.why is Why.NOT_APPROVED:
                yield decision, version
            models.forget_challengers(task.name, load_params().keep.challengers)
