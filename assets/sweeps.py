"""`sweeps/<name>`: how one clusterer depends on its parameters. A stopped sweep goes on with the next cell."""

from collections import deque
from itertools import product

import dagster as dg
from pydantic import Field

from assets.common import final_failures
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from traube._core.errors import TraubeError
from traube._core.progress import Progress
from traube._pipeline.executors import Executor
from traube._pipeline.params import Point, Sweep, load_params
from traube._pipeline.request import Request
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.survey import plan_stored
from traube._pipeline.validation.findings import refuse_stored


class Swept(dg.Config):
    """The tasks, model and seeds that a sweep runs on."""

    tasks: list[str] = Field(min_length=1)
    model: str
    seeds: list[int] = Field(default_factory=list, description="by default the sweep's")


def sweeps() -> dict[str, Sweep]:
    """Return the sweeps of params.yaml.

    There are none if params.yaml is broken; the graph is loaded all the same.
    """
    try:
        return load_params().sweeps
    except TraubeError:
        return {}


def sweep_asset(name: str, sweep: Sweep) -> dg.AssetsDefinition:
    """Make the asset of a sweep of params.yaml."""

    @dg.asset(
        key=["sweeps", name],
        group_name="sweeps",
        kinds={"parquet"},
        description=f"{sweep.description.rstrip('.') or f'Sweep {name}'}. It goes on where it stopped.",
    )
    def swept(
        context: dg.AssetExecutionContext,
        config: Swept,
        storage: StorageResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        workers: dg.ResourceParam[Executor],
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        points = {key: p for key, p in benchmark.protocols().items() if isinstance(p, Point) and p.sweep == name}
        computed, workbench, opened = 0, storage.workbench(workers), storage.open()
        with final_failures():
            for (key, point), task in product(points.items(), config.tasks):
                refuse_stored(opened, task)
                model = encoder.model(config.model, point.precision)
                request = Request([task], [config.model], key, point, seeds=config.seeds or None)
                for stage in workbench.manifest(task).card.type.stages:
                    with workbench.hold(task, config.model, stage) as held:
                        plan = plan_stored(request, model, opened).only(stage)
                        work = plan, held, progress, context.run.run_id
                        for encoded in encode(*work[:3]):
                            encoded.require()
                        deque(cluster(*work), maxlen=0)
                        computed += sum(event.status == "done" for event in score(*work))
                context.log.info(f"{key} on {task}: done")
        cells = opened.read_cells(*config.tasks)
        failed = cells[(cells["run_id"] == context.run.run_id) & (cells["status"] == "failed")]
        if len(failed):
            first = failed.iloc[0]
            raise dg.Failure(
                f"{len(failed)} of the cells failed; first: {first['protocol']}: {first['reason']}", allow_retries=False
            )
        return dg.MaterializeResult(metadata={"points": len(points), "computed_now": computed})

    return swept
