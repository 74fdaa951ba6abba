"""`report`, the leaderboard of all tasks as a page, and `T/report`, a page of each task's own; they
need no server.
"""

import shutil
from pathlib import Path

import dagster as dg

from assets.common import NIGHTLY, PAGE, PAGES, asset_key
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from traube.foundation.files import write_text
from traube.foundation.seals import read_parquet
from traube.report.html import page
from traube.report.pages import FOLDER, INDEX, SERVED, make_page
from traube.report.regressions import kept_changes
from traube.report.tables import MADE_OF, NAME, REBUILT
from traube.tasks.source import Source


@dg.asset(
    key="report",
    deps=["leaderboard", "registry", "regressions"],
    group_name="report",
    freshness_policy=NIGHTLY,
    kinds={"html"},
    description="The leaderboard as a page.",
)
def report(storage: StorageResource) -> dg.MaterializeResult:
    table = read_parquet(storage.store.table(NAME))
    path = storage.root / FOLDER / INDEX
    write_text(path, page(table, kept_changes(storage.store)))
    # last of all: a publication that was cut short is made again
    shutil.copyfile(storage.store.table(MADE_OF), storage.store.table(REBUILT))
    return dg.MaterializeResult(metadata=_links(path))


def _links(path: Path) -> dict[str, dg.MetadataValue]:
    """A page as a file, and where `traube dev` serves it."""
    return {"page": dg.MetadataValue.url(path.as_uri()), "open": dg.MetadataValue.url(f"{SERVED}/{path.name}")}


def task_report_asset(source: Source) -> dg.AssetsDefinition:
    """The page of a task. It is made anew where what it shows has changed."""

    @dg.asset(
        key=asset_key(source.name, PAGE),
        deps=["leaderboard", "regressions"],
        group_name=source.card.family,
        tags=dict([PAGES]),
        kinds={"html"},
        description="A page of the task: leaderboard, costs, ranks, linked maps, confusions, splits, history.",
    )
    def task_report(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
        if not len(storage.store.cells(source.name)):
            return dg.MaterializeResult(metadata={"page": "nothing is scored yet"})
        path = make_page(storage.workbench, benchmark.protocols(), source.name, storage.root)
        return dg.MaterializeResult(metadata={**_links(path), "megabytes": path.stat().st_size / 1e6})

    return task_report
