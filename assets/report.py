"""`report`: the leaderboard as a page that needs no server."""

import shutil

import dagster as dg

from assets.common import NIGHTLY
from assets.regressions import read
from resources.storage import StorageResource
from traube.foundation.files import write_text
from traube.foundation.seals import read_parquet
from traube.report.html import page
from traube.report.tables import MADE_OF, NAME, REBUILT


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
    path = storage.root / "report" / "index.html"
    write_text(path, page(table, read(storage)))
    # last of all: a publication that was cut short is made again
    shutil.copyfile(storage.store.table(MADE_OF), storage.store.table(REBUILT))
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.url(path.as_uri())})
