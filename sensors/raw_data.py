"""Raw data that is new or has changed is read by itself; what is made of it then is up to the
night, or to a person.
"""

from datetime import UTC, datetime

import dagster as dg

from assets.common import data_keys
from sensors import Jobs
from traube.benchmark.params import load_params
from traube.benchmark.plan import unread
from traube.engine.pair_cells import unread_pairs
from traube.foundation import paths
from traube.foundation.hashing import digest
from traube.store import Store
from traube.store.pairs import PairStore
from traube.tasks import get_pair_source, get_source


def sensors(jobs: Jobs) -> list[dg.SensorDefinition]:
    @dg.sensor(
        name="raw_data",
        job=jobs["datasets"],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60,
        description="Reads the tasks of params.yaml whose raw data is new or has changed.",
    )
    def raw_data() -> dg.RunRequest | dg.SkipReason:
        store = Store(paths.home() / "store")
        params, pair_store = load_params(), PairStore.of(store)
        tasks, _ = unread(params.tasks, store)
        pairs, _ = unread_pairs(params.pair_tasks, pair_store)
        if not tasks and not pairs:
            return dg.SkipReason("every task is stored as its raw data is")
        # with what is stored now, so that data which is put back as it was is read again; with the
        # date, so that what cannot be read is tried once a day
        stored = [manifest and manifest.raw_version for manifest in map(store.manifest, tasks)]
        wanted = [(task, get_source(task).raw_version()) for task in tasks]
        of_pairs = [(task, get_pair_source(task).raw_version(), pair_store.raw_version(task)) for task in pairs]
        key = digest([wanted, stored, *of_pairs, datetime.now(UTC).date().isoformat()])
        return dg.RunRequest(run_key=key, asset_selection=data_keys([*tasks, *pairs]))

    return [raw_data]
