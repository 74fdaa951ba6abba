"""The sensor of raw data: reads data that is new or has changed.

What is made of the data is computed by the next nightly run, or by a person.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import dagster as dg

from assets.common import data_keys, tag_run
from assets.sources import observe_raw
from sensors import Loaded
from traube._core import paths
from traube._core.hashing import digest
from traube._pipeline.params import load_params
from traube._pipeline.survey import find_not_ingested, get_raw_version
from traube._storage import open_storage
from traube.tasks import get_source


@dataclass(frozen=True)
class Seen:
    """The raw data that the sensor remembers."""

    unread: str = (
        ""  # hash of the versions that were to be read, and of those that were stored; empty if there were none
    )
    changes: int = 0  # how often that was another hash than before


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that reads tasks whose raw data is new or has changed."""

    @dg.sensor(
        name="raw_data",
        job=loaded.jobs["datasets"],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60,
        description="Reads the tasks of params.yaml whose raw data is new or has changed.",
    )
    def raw_data(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        seen = Seen(**json.loads(context.cursor or "{}"))
        storage, params = open_storage(paths.home()), load_params()
        wanted, notes = loaded.split([*params.tasks, *params.pair_tasks])
        for note in notes:
            context.log.warning(note)
        tasks, _ = find_not_ingested(wanted, storage)
        versions = [(task, get_source(task, None).raw_version(), get_raw_version(task, storage)) for task in tasks]
        if (unread := digest(versions) if tasks else "") != seen.unread:
            seen = Seen(unread, seen.changes + 1)
            context.update_cursor(json.dumps(asdict(seen)))
        if not tasks:
            return dg.SkipReason("; ".join(["no raw data is new or has changed", *notes]))
        observe_raw(context.instance, tasks)
        # Dagster drops a key that it has seen: data that comes back counts as a change, and a failed read is retried daily
        key = digest([unread, seen.changes, datetime.now(UTC).date().isoformat()])
        return dg.RunRequest(run_key=key, asset_selection=data_keys(tasks), tags=tag_run(tasks))

    return [raw_data]
