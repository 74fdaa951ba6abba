"""`leaderboard`: every score that stands, rebuilt whole from the storage."""

from functools import partial

import dagster as dg

from assets.common import NIGHTLY, REBUILD, asset_key, told
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from resources.tracking import TrackingResource
from traube.core.hashing import frame_digest
from traube.reports.publish import publish_leaderboard
from traube.reports.tables import CSV


def leaderboard_asset(tasks: list[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key="leaderboard",
        deps=[dg.AssetDep(asset_key(t, "scores"), partition_mapping=dg.AllPartitionMapping()) for t in tasks],
        group_name="leaderboard",
        kinds={"parquet"},
        freshness_policy=NIGHTLY,
        automation_condition=REBUILD,
        description="Each model's score by task, level and method, with its interval; and what could not be scored, and why.",
    )
    def board(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        benchmark: BenchmarkResource,
        tracking: TrackingResource,
    ) -> dg.MaterializeResult:
        opened = storage.open()
        table = publish_leaderboard(opened, benchmark.request(), benchmark.protocols())
        shown = ["task", "level", "protocol", "own_choice", "model", "method", "metric", "mean", "low", "high"]
        best = table[table["best"].astype(bool)][[*shown, "rank_low", "rank_high", "p", "comparisons", "verdict"]]
        counts = table["status"].value_counts()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(table.drop(columns="created"))),
            metadata={
                "dagster/row_count": len(table),
                "best": dg.MetadataValue.md(best.round(4).to_markdown(index=False)),
                "path": dg.MetadataValue.path(opened.get_table_path(CSV)),
                **{status: int(n) for status, n in counts.items()},
                **told(context, partial(tracking.log_ranks, table)),
            },
        )

    return board
