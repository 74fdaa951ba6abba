"""The sensor that evaluates each checkpoint when it is complete, and again when its content changes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from assets.common import MODELS, model_keys, tag_run
from assets.sources import observe_weights
from resources.alerts import send_alert
from sensors import Loaded
from traube._core import paths
from traube._core.errors import TraubeError
from traube._pipeline.forgotten import forget, read_forgotten, recall
from traube._pipeline.kinds import kind_of
from traube._pipeline.params import Params, load_params
from traube._pipeline.survey import find_not_ingested
from traube._storage import Storage, open_storage
from traube.models import checkpoints, load_model
from traube.models.checkpoint_exchange import exchange_with_nodes
from traube.tasks import get_source


@dataclass
class Seen:
    """The state of a folder that the sensor remembers."""

    state: str = ""  # hash of its files at the last tick; while the hash changes, the folder is being written
    settled: str = ""  # the state for which a run was requested or refused
    fingerprint: str = ""  # of the last evaluation that was requested
    attempt: int = 0  # its number, which `traube retry` raises
    since: str = ""  # when the folder was first seen
    requests: int = 0  # evaluations that were requested since


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that starts an evaluation of each new or changed checkpoint."""

    @dg.sensor(
        name="new_checkpoints",
        job=loaded.jobs["evaluate"],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=10,
        description="Evaluates each new or changed folder of checkpoints/ on the benchmark's tasks.",
    )
    def new_checkpoints(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        seen = {name: Seen(**entry) for name, entry in json.loads(context.cursor or "{}").items()}
        params = load_params()
        wanted, notes = loaded.split([*params.tasks, *params.pair_tasks])
        new, unavailable = find_not_ingested(wanted, open_storage(paths.home()))
        tasks = [name for name in wanted if name not in {*new, *unavailable}]
        if not {*tasks} & {*params.tasks}:
            waiting = ", ".join(name for name in new if name in params.tasks)
            return dg.SkipReason(f"no task of params.yaml has been read yet ({waiting or 'none can be had here'})")
        requests, busy, storage = [], list[str](), open_storage(paths.home())
        exchange_with_nodes()
        if not params.keep.deleted_checkpoints:
            notes += _forget_deleted(seen, params, storage)
        for folder in checkpoints.folders():
            entry = seen.setdefault(folder.name, Seen())
            try:
                request = _request_run(folder, entry, params, tasks)
            except (TraubeError, OSError) as error:
                notes.append(f"refused: {error}")
                advice = f"Mend it, then: traube retry {folder.name}"
                summary = f"checkpoint {folder.name} is refused"
                send_alert(context.log, f"refused {folder.name} {entry.state}", summary, [str(error)], advice)
                continue
            if isinstance(request, dg.RunRequest):
                requests.append(request)
                recall(storage, [folder.name])
            elif request:
                busy.append(f"{folder.name}: {request}")
        observe_weights(context.instance, {str(r.partition_key): r.tags["traube/fingerprint"] for r in requests})
        for note in notes:
            context.log.warning(note)
        for note in busy:  # for whoever writes the folder: no fault
            context.log.info(note)
        # entries of absent folders stay: a folder that comes back unchanged is not evaluated again
        cursor = json.dumps({name: asdict(entry) for name, entry in seen.items()})
        keys = [r.partition_key for r in requests if r.partition_key]
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=_change_partitions(context.instance, keys, read_forgotten(storage)),
            cursor=cursor,
            skip_reason=None if requests else dg.SkipReason("; ".join([*notes, *busy]) or "nothing new"),
        )

    return [new_checkpoints]


def _forget_deleted(seen: dict[str, Seen], params: Params, storage: Storage) -> Iterator[str]:
    """Forget the scored checkpoints whose folders are gone, but champions; yield a note for each."""
    from traube.comparison.champions import read_champions

    there = {folder.name for folder in checkpoints.folders()} | {*read_forgotten(storage), *params.models}
    scored, served = {*storage.read_cells()["model"]}, read_champions(storage).served
    for name in (seen.keys() & scored) - there - {*served.values()}:
        forget(storage, name, params.models, served)
        del seen[name]  # it may come back
        yield f"{name} is gone and forgotten"


def _change_partitions(
    instance: dg.DagsterInstance, added: list[str], forgotten: Iterable[str]
) -> list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    """Return the requests that add partitions of models, and delete those of forgotten ones."""
    assert MODELS.name is not None
    gone = sorted({*instance.get_dynamic_partitions(MODELS.name)} & {*forgotten} - {*added})
    return [
        *([MODELS.build_add_request(added)] if added else []),
        *([MODELS.build_delete_request(gone)] if gone else []),
    ]


def _request_run(folder: Path, entry: Seen, params: Params, tasks: list[str]) -> dg.RunRequest | str:
    """Return the run that a folder requires, or the reason why there is none.

    The entry is updated. An invalid checkpoint raises a TraubeError.
    """
    state, attempt = checkpoints.state(folder), checkpoints.attempts().get(folder.name, 0)
    if entry.state != state:
        entry.state, entry.since = state, entry.since or datetime.now(UTC).isoformat()
        return "changed since the last look; waiting until it is quiet"
    is_retry = attempt != entry.attempt
    if entry.settled == state and not is_retry:
        return ""
    if not folder.is_symlink() and (reason := checkpoints.find_unfinished(folder)):
        return f"not complete: {reason}"
    entry.settled, entry.attempt = state, attempt  # request or refuse each state once
    checkpoints.check(folder)
    model = load_model(folder.name, precision=params.chosen().precision)
    fingerprint = model.fingerprint
    if fingerprint == entry.fingerprint and not is_retry:
        return ""  # touched, not changed
    entry.fingerprint, entry.requests = fingerprint, entry.requests + 1
    possible = [name for name in tasks if not kind_of(get_source(name, None).card).explain_refusal(model)]
    return dg.RunRequest(
        # Dagster drops a key that it has seen. A content that comes back is another request, and a tick that is repeated
        # after a crash, with the cursor of the last one, is not
        run_key=f"{folder.name}@{fingerprint}#{entry.requests} since {entry.since}",
        partition_key=folder.name,
        asset_selection=model_keys(possible, params.chosen().methods()),
        tags={**tag_run(possible, folder.name), "traube/fingerprint": fingerprint, "traube/attempt": str(attempt)},
    )
