"""`leaderboard`: every score that stands, rebuilt whole from the store."""

import dagster as dg

from assets.common import NIGHTLY, REBUILD, asset_key
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from traube.benchmark.lookup import Lookup
from traube.benchmark.plan import unavailable
from traube.foundation.files import frame_digest, locked, write_json, write_text
from traube.foundation.inert import csv_text
from traube.foundation.seals import write_parquet
from traube.report.tables import CSV, MADE_OF, NAME, leaderboard, made_now, state
from traube.store import one_look


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
    def board(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
        store = storage.store
        # the lock spans reading and writing: a slower writer that read first would
        # lose the other's rows
        with locked(store.table(NAME)):
            made_of = state(store)
            request, lookup = benchmark.request(), Lookup()
            with one_look():
                absent = unavailable(request, store, lookup)
                table = leaderboard(store, absent, protocols=benchmark.protocols(), lookup=lookup)
            write_parquet(store.table(NAME), table)
            write_text(store.table(CSV), csv_text(table))
            write_json(store.table(MADE_OF), made_now(store, made_of))
        best = table[table["best"].astype(bool)][
            ["task", "level", "protocol", "own_choice", "model", "method", "metric", "mean", "low", "high"]
        ]
        counts = table["status"].value_counts()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(table.drop(columns="created"))),
            metadata={
                "dagster/row_count": len(table),
                "best": dg.MetadataValue.md(best.round(4).to_markdown(index=False)),
                "path": dg.MetadataValue.path(store.table(CSV)),
                **{status: int(n) for status, n in counts.items()},
            },
        )

    return board
