"""Assets made of all tasks: `leaderboard`, `regressions`, `report` and `task_reports`. Pages need no server."""

from collections.abc import Iterable, Iterator
from functools import partial

import dagster as dg

from assets.common import (
    NIGHT,
    REBUILD,
    TASK_REPORTS,
    asset_key,
    describe_table,
    report_tracking,
    result_asset,
    yield_with_checks,
)
from assets.complete import report_complete
from resources.alerts import SILENT, send_alert
from resources.artifacts import log_artifacts
from resources.benchmark import BenchmarkResource, StorageResource
from resources.charts import show_bars
from resources.tables import TABLES
from resources.tracking import TrackingResource
from traube._core import paths
from traube._core.errors import describe_error
from traube._core.files import read_parquet
from traube._core.hashing import digest, frame_digest
from traube._pipeline.params import load_params
from traube._pipeline.survey import plan
from traube._reports.markdown import markdown
from traube._reports.pages import SERVED, make_page, publish_index, publish_leaderboard, publish_regressions
from traube._reports.tables import COLUMNS, CSV, NAME, show_best
from traube.comparison.regressions import COLUMNS as CHANGED
from traube.tasks import Source, sources

NONE_WORSE = "none_worse"  # the check of `regressions`


def leaderboard_asset(tasks: Iterable[Source]) -> dg.AssetsDefinition:
    """Make the asset of the leaderboard, from the scores of all tasks."""
    scores = [asset_key(task.name, task.card.type.stages[-1]) for task in tasks]

    @result_asset(
        key="leaderboard",
        deps=[dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in scores],
        kinds={"parquet"},
        io_manager_key=TABLES,
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
        report_complete(context.instance, plan(benchmark.request(), opened), opened)
        table = publish_leaderboard(opened, benchmark.request(), benchmark.protocols())
        best = table[table["best"].astype(bool)]
        best_table = show_best(table)
        official = best[~best["own_choice"].astype(bool) & (best["protocol"] == benchmark.request().protocol_name)]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(table.drop(columns="created"))),
            metadata={
                **describe_table(table, COLUMNS),
                "best": dg.MetadataValue.md(markdown(best_table) if len(best_table) else "nothing is scored yet"),
                **({"chart": dg.MetadataValue.md(chart)} if (chart := show_bars(official)) else {}),
                "path": dg.MetadataValue.path(opened.get_table_path(CSV)),
                **{status: int(n) for status, n in table["status"].value_counts().items()},
                **report_tracking(context, partial(tracking.log_ranks, table)),
                **report_tracking(context, partial(log_artifacts, tracking, table, opened)),
            },
        )

    return board


@result_asset(
    key="regressions",
    deps=["leaderboard"],
    kinds={"parquet"},
    check_specs=[dg.AssetCheckSpec(NONE_WORSE, asset="regressions", description="no score is significantly worse")],
    description="Scores that are made of other cells than the night before: how much, whether significant, and the likely cause.",
)
def regressions(
    context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource
) -> Iterator[dg.MaterializeResult]:
    """Compare each score with the night before, and warn of those that are significantly worse."""
    night, params = context.run.tags.get(NIGHT), load_params()
    since, changes = publish_regressions(
        storage.open(), benchmark.protocols(), params.nightly.timezone, night, params.keep.nightly_runs
    )
    percentages = changes.assign(
        **{c: (100 * changes[c].astype(float)).round(2) for c in ("before", "after", "difference")}
    )
    worse = percentages[percentages["verdict"] == "worse"]
    lines = [f"{row.task}, {row.model} with {row.method}: {row.before} -> {row.after}" for row in worse.itertuples()]
    summary = f"Scores significantly worse than on {since}: {len(worse)}"
    if lines and SILENT not in context.run.tags.items():
        advice = "The page of all tasks says why: traube report"
        send_alert(context.log, f"regressions {since} {digest(lines)}", summary, lines, advice)
    made: dg.MaterializeResult = dg.MaterializeResult(
        data_version=dg.DataVersion(frame_digest(changes)),
        metadata={
            "since": since or "no earlier night",
            **describe_table(changes, CHANGED),
            "significantly_worse": len(worse),
            "table": dg.MetadataValue.md(markdown(percentages) if len(percentages) else "nothing changed"),
        },
        check_results=[
            dg.AssetCheckResult(
                check_name=NONE_WORSE,
                passed=worse.empty,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"{summary}; `traube report` says why" if lines else None,
                metadata={"worse": dg.MetadataValue.md(markdown(worse))} if len(worse) else {},
            )
        ],
    )
    yield from yield_with_checks(context, made)


@result_asset(
    key="report",
    deps=["leaderboard", "registry", "regressions"],
    kinds={"html"},
    description="The leaderboard as a page.",
)
def report(storage: StorageResource) -> dg.MaterializeResult:
    """Make the page of all results from what is stored."""
    path = publish_index(storage.open(), paths.home())
    links = {"open": f"{SERVED}/{path.name}", "page": path.as_uri()}  # as `traube dev` serves it, and as a file
    return dg.MaterializeResult(metadata={name: dg.MetadataValue.url(link) for name, link in links.items()})


@result_asset(
    key=TASK_REPORTS,
    deps=["leaderboard", "regressions"],
    freshness_policy=None,  # a page of which nothing changed stays as it is
    kinds={"html"},
    description="A page of each scored task: leaderboard, costs, ranks, linked maps, confusions, splits, history.",
)
def task_reports(
    context: dg.AssetExecutionContext, storage: StorageResource, benchmark: BenchmarkResource
) -> dg.MaterializeResult:
    """Render a page for each scored task."""
    protocols, links, errors = benchmark.protocols(), [], []
    clustering_tasks = {*read_parquet(storage.open().get_table_path(NAME))["task"]} & {*sources()}  # pairs have no page
    for name in sorted(clustering_tasks & {*storage.open().list_scored_tasks()}):
        try:
            path = make_page(storage.workbench(), protocols, name, paths.home())
        except Exception as error:  # one page does not take the others along
            context.log.exception(f"{name}: no page can be made")
            errors.append(f"{name}: {describe_error(error)}")
            continue
        links.append(f"- [{name}]({SERVED}/{path.name}), {path.stat().st_size / 1e6:.1f} MB")
    if errors:
        raise dg.Failure(f"no page can be made of {'; '.join(errors)}", allow_retries=False)
    return dg.MaterializeResult(metadata={"pages": dg.MetadataValue.md("\n".join(links) or "nothing is scored yet")})
