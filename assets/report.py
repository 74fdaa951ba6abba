"""`report`, the leaderboard of all tasks as a page, and `T/report`, a page of each task's own; they
need no server.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import dagster as dg

from assets.common import NIGHTLY, PAGE, PAGES, asset_key
from resources.benchmark import BenchmarkResource
from resources.storage import StorageResource
from traube.core.errors import reason
from traube.reports.pages import SERVED, make_page
from traube.reports.publish import publish_index
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
    path = publish_index(storage.open(), storage.root)
    return dg.MaterializeResult(metadata=_links(path))


def _links(path: Path) -> dict[str, dg.MetadataValue]:
    """A page as a file, and where `traube dev` serves it."""
    return {"open": dg.MetadataValue.url(f"{SERVED}/{path.name}"), "page": dg.MetadataValue.url(path.as_uri())}


def task_reports_asset(sources: Iterable[Source]) -> dg.AssetsDefinition:
    """The pages of all tasks, made in one step: most have nothing to show, or nothing new. A page is
    made anew where what it shows has changed.
    """
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
                path = make_page(storage.workbench, protocols, name, storage.root)
            except Exception as error:  # one page does not take the others along
                context.log.exception(f"{name}: no page can be made")
                errors.append(f"{name}: {reason(error)}")
                continue
            yield dg.MaterializeResult(asset_key=key, metadata={**_links(path), "megabytes": path.stat().st_size / 1e6})
        if errors:
            raise dg.Failure(f"no page can be made of {'; '.join(errors)}", allow_retries=False)

    return task_reports
