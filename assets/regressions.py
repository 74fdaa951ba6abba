"""`regressions`: what changed since the previous night."""

import dagster as dg

from assets.common import NIGHT
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from traube.benchmark.params import load_params
from traube.foundation.files import locked
from traube.foundation.seals import write_parquet
from traube.report.markdown import markdown
from traube.report.regressions import CHANGES, has_snapshot, present, snapshot, today
from traube.report.regressions import regressions as compare


@dg.asset(
    key="regressions",
    deps=["leaderboard"],
    group_name="report",
    kinds={"parquet"},
    description="Scores that are made of other cells than the night before: how much, whether significant, and the likely cause.",
)
def regressions(
    context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource
) -> dg.MaterializeResult:
    store, protocols = storage.store, benchmark.protocols()
    night = context.run.tags.get(NIGHT)
    date = night or today(load_params().nightly.timezone)
    with locked(store.table(CHANGES)):
        # a day is remembered as its night left it; without a night, as the day's
        # first publication did
        counting = present(store, protocols)
        if night or not has_snapshot(store, date):
            snapshot(store, counting, date)
        since, changes = compare(store, protocols, counting, date)
        write_parquet(store.table(CHANGES), changes.assign(since=since))
    shown = changes.assign(**{c: (100 * changes[c].astype(float)).round(2) for c in ("before", "after", "difference")})
    worse = int((changes["verdict"] == "worse").sum())
    return dg.MaterializeResult(
        metadata={
            "since": since or "no earlier night",
            "changes": len(changes),
            "significantly_worse": worse,
            "table": dg.MetadataValue.md(markdown(shown) if len(changes) else "nothing changed"),
        }
    )
