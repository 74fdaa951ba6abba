"""`papers/cob/`: the tables and figures of COB, measured beside published."""

import dagster as dg
import pandas as pd

from assets.papers.common import Make, folder, of_tasks, table_asset, write_table
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import markdown
from resources.storage import StorageResource
from traube.foundation import paths
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_text
from traube.papers.cob import tables as cob
from traube.report.figures import convergence

SHOWN_SPLITS = 4
SHOWN_TASKS = ("trec_car_coarse", "car_test200_coarse", "newsgroups")  # the first that has trained models


def cob_assets() -> list[dg.AssetsDefinition]:
    made = [
        table_asset(
            "cob", "table_2", "The data sets: documents, instances and their sizes.", lambda s, b: cob.table_2(s.store)
        ),
        table_asset("cob", "table_3", "Lambda and r as studies found them.", _table_3),
        *(
            table_asset("cob", name, f"RI, ARI, NMI and AMI on {tasks[0]}.", _results(name))
            for name, tasks in cob.TASKS.items()
        ),
        table_asset("cob", "table_5", "CAR's training articles by size.", lambda s, b: cob.table_5(s.store)),
        figure_3,
        figure_4,
    ]
    return of_tasks(made, [task for tasks in cob.TASKS.values() for task in tasks])


def _table_3(storage: StorageResource, benchmark: BenchmarkResource) -> pd.DataFrame:
    from traube.training.study import best_by_task

    return cob.table_3(best_by_task(storage.root / "studies", "cob"))


def _results(name: str) -> Make:
    return lambda storage, benchmark: cob.results(storage.store, benchmark.protocols(), name)


@dg.asset(
    key=["papers", "cob", "figure_3"],
    group_name="papers",
    kinds={"svg"},
    description="Time to convergence and of an epoch, COB beside Triplet (the paper's figures 3 and 5).",
)
def figure_3(storage: StorageResource) -> dg.MaterializeResult:
    curves = cob.trainings(paths.checkpoints())
    times = cob.convergence(curves)
    path = write_table(storage, "cob", "figure_3", times).with_suffix(".svg")
    write_text(path, str(convergence(curves)))
    return dg.MaterializeResult(
        metadata={
            "times": dg.MetadataValue.md(markdown(times.round(3))),
            "published": "COB converges at least five times sooner; an epoch takes a hundredth of Triplet's on 20 Newsgroups",
            "path": dg.MetadataValue.path(path),
        }
    )


@dg.asset(
    key=["papers", "cob", "figure_4"],
    deps=["leaderboard"],
    group_name="papers",
    kinds={"html"},
    description="The largest test splits in three principal components, COB beside Triplet, coloured by label; ARI for each.",
)
def figure_4(
    context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource, encoder: EncoderResource
) -> dg.MaterializeResult:
    from traube.report.spaces import page

    spaces, task = [], ""
    for task in SHOWN_TASKS:
        try:
            spaces = cob.spaces(storage.store, storage.cache, benchmark.protocols(), task, encoder.model, SHOWN_SPLITS)
        except TraubeError as error:  # a model is gone; its scores are not
            context.log.warning(f"{task}: {error}")
        if spaces:
            break
    path = folder(storage, "cob") / "figure_4.html"
    write_text(path, page(spaces, task))
    return dg.MaterializeResult(
        metadata={
            "panels": len(spaces),
            "models": ", ".join(dict.fromkeys(s.model for s in spaces)) or "no trained model is evaluated yet",
            "page": dg.MetadataValue.url(path.as_uri()),
        }
    )
