"""The findings of `traube._pipeline.validation`, as Dagster's asset checks."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from resources.data_docs import QUALITY, data_docs, draw_apart
from traube._pipeline.executors import Executor
from traube._pipeline.validation.rules import CHECKS, Table, blocks
from traube._pipeline.validation.validate import validate_version
from traube._reports.markdown import markdown_rows
from traube._reports.pages import SERVED
from traube._storage import Storage
from traube.tasks.task import TaskCard


def make_check_specs(card: TaskCard, table: Table) -> list[dg.AssetCheckSpec]:
    """Return the checks that the asset of a task's table declares."""
    key = dg.AssetKey([card.name, table])
    return [
        dg.AssetCheckSpec(check.name, asset=key, description=check.description, blocking=blocks(check, card))
        for check in CHECKS[table]
    ]


class QualityResource(dg.ConfigurableResource):
    """Checks the tables of a task, and keeps a page of Data Docs for each, drawn by a process of the run's executor."""

    folder: str = Field(default="", description="where Data Docs are written; by default quality in TRAUBE_HOME")

    def check(
        self,
        card: TaskCard,
        table: Table,
        rows: pd.DataFrame,
        corpus: pd.DataFrame,
        executor: Executor,
        storage: Storage,
        version: str,
    ) -> list[dg.AssetCheckResult]:
        """Check a version of a task's table, store which checks passed, and return a result for each check."""
        docs = Path(self.folder or data_docs())
        validation = validate_version(storage, card, table, rows, corpus, version)
        path = draw_apart(executor, validation, docs)
        results = []
        for finding in validation.findings:
            metadata: dict[str, Any] = {
                "offending_rows": finding.offending,
                "percent": finding.percent,
                "total_rows": finding.total,
                "rules": dg.MetadataValue.json(finding.rules),
                "data_docs": dg.MetadataValue.path(path),
            }
            if docs == data_docs():  # which `traube dev` serves
                page = path.relative_to(docs).as_posix()
                metadata["open"] = dg.MetadataValue.url(f"{SERVED}/{QUALITY}/{page}")
            if finding.shown:
                metadata["examples"] = dg.MetadataValue.md(markdown_rows(finding.header, finding.shown))
            result = dg.AssetCheckResult(
                passed=finding.passed,
                asset_key=dg.AssetKey([card.name, table]),
                check_name=finding.check.name,
                severity=dg.AssetCheckSeverity.ERROR if finding.blocking else dg.AssetCheckSeverity.WARN,
                description=finding.broken or None,
                metadata=metadata,
            )
            results.append(result)
        return results
