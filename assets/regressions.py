"""`regressions`: what changed since the previous night."""

import dagster as dg

from assets.common import NIGHT
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from traube.pipeline.params import load_params
from traube.reports.markdown import markdown
from traube.reports.publish import publish_regressions


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
    night, timezone = context.run.tags.get(NIGHT), load_params().nightly.timezone
    since, changes = publish_regressions(storage.open(), benchmark.protocols(), timezone, night)
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
