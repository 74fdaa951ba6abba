"""What is made of all tasks: `leaderboard`, every score that stands; `regressions`, what changed since the previous
night; `report`, the leaderboard as a page; and `T/report`, a page of each task's own. Pages need no server.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import dagster as dg

from assets.common import NIGHT, NIGHTLY, PAGE, PAGES, REBUILD, asset_key, told
from resources.benchmark import BenchmarkResource, StorageResource
from resources.tracking import TrackingResource
from traube.core.errors import reason
from traube.core.hashing import frame_digest
from traube.pipeline.params import load_params
from traube.reports.markdown import markdown
from traube.reports.pages import SERVED, make_page, publish_index, publish_leaderboard, publish_regressions
from traube.reports.tables import CSV
from traube.tasks.source import Source


def leaderboard_asset(tasks: Iterable[Source]) -> dg.AssetsDefinition:
    scores = [asset_key(task.name, task.card.type.stages[-1]) for task in tasks]

    @dg.asset(
        key="leaderboard",
        deps=[dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in scores],
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
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(table.drop(columns="created"))),
            metadata={
                "dagster/row_count": len(table),
                "best": dg.MetadataValue.md(best.round(4).to_markdown(index=False)),
                "path": dg.MetadataValue.path(opened.get_table_path(CSV)),
                **{status: int(n) for status, n in table["status"].value_counts().items()},
                **told(context, partial(tracking.log_ranks, table)),
            },
        )

    return board


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
    return dg.MaterializeResult(
        metadata={
            "since": since or "no earlier night",
            "changes": len(changes),
            "significantly_worse": int((changes["verdict"] == "worse").sum()),
            "table": dg.MetadataValue.md(markdown(shown) if len(changes) else "nothing changed"),
        }
    )


@dg.asset(
    key="report",
    deps=["leaderboard", "registry", "regressions"],
    group_name="report",
    freshness_policy=NIGHTLY,
    kinds={"html"},
    description="The leaderboard as a page.",
)
def report(storage: StorageResource) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata=_links(publish_index(storage.open(), storage.root)))


def _links(path: Path) -> dict[str, dg.MetadataValue]:
    """A page as a file, and where `traube dev` serves it."""
    return {"open": dg.MetadataValue.url(f"{SERVED}/{path.name}"), "page": dg.MetadataValue.url(path.as_uri())}


def task_reports_asset(sources: Iterable[Source]) -> dg.AssetsDefinition:
    """The pages of all tasks, made in one step: most have nothing to show, or nothing new, and stay as they are."""
    tasks = {asset_key(source.name, PAGE): source for source in sources}
    specs = [
        dg.AssetSpec(
            key,
            deps=["leaderboard", "regressions"],
            group_name=source.card.family,
            tags=dict([PAGES]),
            kinds={"html"},
            skippable=True,
            description="A page of the task: leaderboard, costs, ranks, linked maps, confusions, splits, history.",
        )
        for key, source in tasks.items()
    ]

    @dg.multi_asset(name="task_reports", specs=specs, can_subset=True)
    def task_reports(
        context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource
    ) -> Iterator[dg.MaterializeResult]:
        scored, protocols, errors = set(storage.open().list_scored_tasks()), benchmark.protocols(), []
        for key in sorted(context.selected_asset_keys):
            name = tasks[key].name
            if name not in scored:
                continue
            try:
                path = make_page(storage.workbench(), protocols, name, storage.root)
            except Exception as error:  # one page does not take the others along
                context.log.exception(f"{name}: no page can be made")
                errors.append(f"{name}: {reason(error)}")
                continue
            yield dg.MaterializeResult(asset_key=key, metadata={**_links(path), "megabytes": path.stat().st_size / 1e6})
        if errors:
            raise dg.Failure(f"no page can be made of {'; '.join(errors)}", allow_retries=False)

    return task_reports
