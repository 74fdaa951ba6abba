"""`report`: the leaderboard as a page that needs no server."""

import dagster as dg
import pandas as pd

from assets.leaderboard import NAME
from resources.storage import StorageResource
from traube.files import write_text
from traube.report.html import page


@dg.asset(
    key="report", deps=["leaderboard"], group_name="report", kinds={"html"}, description="The leaderboard as a page."
)
def report(storage: StorageResource) -> dg.MaterializeResult:
    table = pd.read_parquet(storage.store.table(NAME))
    path = storage.root / "report" / "index.html"
    write_text(path, page(table))
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.url(path.as_uri())})
