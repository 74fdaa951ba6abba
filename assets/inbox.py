"""`T/assigned`, the texts of each day in the groups of a task's champion; and `T/drift`, the verdict on each day."""

from collections.abc import Iterable
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from assets.common import asset_key, describe_table, final_failures, tag_family
from resources.alerts import SILENT, send_alert
from resources.benchmark import StorageResource
from resources.registry import RegistryResource
from traube._core import paths
from traube._core.errors import Missing
from traube._pipeline.params import load_params
from traube.tasks import Source

if TYPE_CHECKING:
    from traube._grouping.assigned import Champion
    from traube._grouping.inboxes import DailyTexts

ASSIGNED, DRIFT = "assigned", "drift"  # how the keys end
AS_USUAL = "as_usual"  # the check of `T/drift`


class Sources(dg.Config):
    """The sources whose texts are assigned."""

    sources: list[str] = Field(default_factory=list, description="files of the inbox; by default all")


def make_days(first: Iterable[date]) -> dg.DailyPartitionsDefinition:
    """Return the partitions of inboxes: the days from the first of them on, today among them."""
    start = min(first).isoformat()
    return dg.DailyPartitionsDefinition(start_date=start, timezone=load_params().nightly.timezone, end_offset=1)


def inbox_keys(tasks: Iterable[str]) -> list[dg.AssetKey]:
    """Return the keys of the assets of inboxes."""
    return [asset_key(task, name) for task in tasks for name in (ASSIGNED, DRIFT)]


def inbox_assets(source: Source, days: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """Return the assets of a task's inbox, a partition for each day."""
    return [_assigned_asset(source, days), _drift_asset(source, days)]


def _assigned_asset(source: Source, days: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=asset_key(source.name, ASSIGNED),
        deps=["registry"],
        partitions_def=days,
        group_name=source.name,
        tags=tag_family(source),
        kinds={"parquet"},
        description="The texts of a day in the champion's groups, each text once, with distance and whether it fits.",
    )
    def assigned(
        context: dg.AssetExecutionContext, config: Sources, storage: StorageResource, models: RegistryResource
    ) -> dg.MaterializeResult:
        import pandas as pd

        from traube._core.files import write_parquet
        from traube._core.hashing import frame_digest
        from traube._grouping.assigned import COLUMNS, assign_days, write_to_database
        from traube._grouping.inboxes import TableOfTexts

        task, opened, tables, counts = source.name, storage.open(), [], {"new": 0, "repeated": 0}
        with final_failures(), opened.hold(task, "", ASSIGNED) as lease:
            inbox = find_inbox(task)
            names = config.sources or [*inbox.list_states()]
            load = partial(load_champion, models, task)
            for outcome in assign_days(opened, inbox, context.partition_keys, names, load, lease):
                if len(outcome.table):  # for whoever reads the days by other tools
                    write_parquet(opened.get_table_path(f"{ASSIGNED}/{task}/{outcome.day}.parquet"), outcome.table)
                if isinstance(inbox, TableOfTexts) and inbox.given.assigned:
                    write_to_database(inbox, outcome.day, outcome.table)
                tables.append(outcome.table)
                counts["new"] += outcome.new
                counts["repeated"] += outcome.repeated
        table = pd.concat([one for one in tables if len(one)] or tables[:1], ignore_index=True)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(table[["text_id", "cluster", "version"]])),
            metadata={
                **describe_table(table, COLUMNS),
                **counts,
                "fit_no_group": int((~table["fits"].astype(bool)).sum()),
            },
        )

    return assigned


def _drift_asset(source: Source, days: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    key = asset_key(source.name, DRIFT)
    check = dg.AssetCheckSpec(
        AS_USUAL, asset=key, description="the day differs from others no more than usual", partitions_def=days
    )

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, ASSIGNED)],
        partitions_def=days,
        group_name=source.name,
        tags=tag_family(source),
        kinds={"html"},
        check_specs=[check],
        description="Whether a day differs from 30 others in the share of texts that fit no group or in the groups' sizes; "
        "new key words, and new groups of what fits none.",
    )
    def drift(
        context: dg.AssetExecutionContext, storage: StorageResource, models: RegistryResource
    ) -> dg.MaterializeResult:
        from traube._grouping.assigned import Groups
        from traube._grouping.days import judge, publish_days, read_verdicts
        from traube._reports.pages import SERVED

        task, day, opened = source.name, context.partition_key, storage.open()
        with final_failures(), opened.hold(task, "", ASSIGNED) as lease:
            since = find_inbox(task).given.reference
            verdict = judge(opened, task, day, partial(load_champion, models, task), since, lease)
            path = publish_days(opened, task, paths.home())
        groups = opened.get_document(Groups, f"{task}/{verdict.version}")
        changed = verdict.describe(groups.words if groups else {})
        earlier = [one for name, one in read_verdicts(opened, task).items() if name < day]
        if changed and not (earlier and earlier[-1].drifts) and SILENT not in context.run.tags.items():
            details = [*changed, *([f"new words: {', '.join(verdict.new_words)}"] if verdict.new_words else [])]
            advice = f"The page of the task's days shows them: {path}"
            send_alert(
                context.log, f"drift {task} {day}", f"{task}: the texts of {day} are unlike others", details, advice
            )
        new_groups = [f"- {', '.join(group.words)} ({group.texts} texts)" for group in verdict.new_groups]
        return dg.MaterializeResult(
            metadata={
                "texts": verdict.texts,
                "fit_no_group": dg.MetadataValue.float(verdict.share),
                **({} if verdict.p is None else {"p": dg.MetadataValue.float(verdict.p)}),
                "new_words": ", ".join(verdict.new_words),
                "new_groups": dg.MetadataValue.md("\n".join(new_groups)),
                "open": dg.MetadataValue.url(f"{SERVED}/{path.name}"),
                "page": dg.MetadataValue.url(path.as_uri()),
            },
            check_results=[
                dg.AssetCheckResult(
                    check_name=AS_USUAL,
                    passed=not changed,
                    severity=dg.AssetCheckSeverity.WARN,
                    description="; ".join(changed)
                    or (None if verdict.reference else "not judged: one of the first 30 days"),
                )
            ],
        )

    return drift


def find_inbox(task: str) -> "DailyTexts":
    """Return the inbox of a task."""
    from traube._grouping.inboxes import find_inboxes

    inboxes = find_inboxes(load_params())
    if task not in inboxes:
        raise Missing(f"{task}: has no inbox any more: neither {paths.inbox() / task} nor `inbox` of params.yaml")
    return inboxes[task]


def load_champion(models: RegistryResource, task: str) -> "Champion":
    """Return the champion of a task, and its version."""
    version = models.require_champion(task)
    return models.load_champion(task, version), version
