"""Raw data that is new or has changed is read by itself; what is made of it then is up to the night, or to a person."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob

from assets.common import data_keys
from traube import paths
from traube.files import digest
from traube.params import load_params
from traube.plan import unread
from traube.store import Store
from traube.tasks import get_source


def raw_data_sensor(datasets: AssetJob) -> dg.SensorDefinition:
    @dg.sensor(
        name="raw_data",
        job=datasets,
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60,
        description="Reads the tasks of params.yaml whose raw data is new or has changed.",
    )
    def raw_data() -> dg.RunRequest | dg.SkipReason:
        tasks, _ = unread(load_params().tasks, Store(paths.home() / "store"))
        if not tasks:
            return dg.SkipReason("every task is stored as its raw data is")
        versions = digest([(task, get_source(task).raw_version()) for task in tasks])
        return dg.RunRequest(
            run_key=versions, asset_selection=data_keys(tasks)
        )  # data that cannot be read is tried once

    return raw_data
