"""What `traube.quality` finds, as Dagster's asset checks."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from traube.engine.executors import Executor
from traube.quality import (
    CHECKS,
    Finding,
    Table,
    Validation,
    blocks,
    data_docs,
    in_own_process,
    validate_corpus,
    validate_pairs,
    validate_splits,
)
from traube.report.markdown import markdown_rows
from traube.tasks.scored_pairs import PairCard
from traube.tasks.task import TaskCard


def check_specs(key: dg.AssetKey, card: TaskCard, table: Table) -> list[dg.AssetCheckSpec]:
    """Say which checks an asset declares."""
    return [
        dg.AssetCheckSpec(check.name, asset=key, description=check.description, blocking=blocks(check, card))
        for check in CHECKS[table]
    ]


class QualityResource(dg.ConfigurableResource):
    """Checks the tables of a task, in a process of the run's executor, and keeps a page of Data Docs for
    each.

    Attributes
    ----------
    folder : where Data Docs are written, a page for each task and table; by default `quality` in
        `TRAUBE_HOME`
    """

    folder: str = ""

    @property
    def root(self) -> Path:
        """The folder, as a path."""
        return Path(self.folder) if self.folder else data_docs()

    def check_corpus(
        self, card: TaskCard, key: dg.AssetKey, corpus: pd.DataFrame, executor: Executor
    ) -> list[dg.AssetCheckResult]:
        """Check a corpus; one result for each of the corpus' `check_specs`."""
        return _results(key, in_own_process(executor, validate_corpus, card, corpus, self.root))

    def check_splits(
        self, card: TaskCard, key: dg.AssetKey, splits: pd.DataFrame, corpus: pd.DataFrame, executor: Executor
    ) -> list[dg.AssetCheckResult]:
        """Check a splits table; one result for each of the splits' `check_specs`."""
        return _results(key, in_own_process(executor, validate_splits, card, splits, corpus, self.root))

    def check_pairs(
        self, card: PairCard, key: dg.AssetKey, pairs: pd.DataFrame, corpus: pd.DataFrame, executor: Executor
    ) -> list[dg.AssetCheckResult]:
        """Check a pairs table; one result for each of the pairs' `check_specs`."""
        return _results(key, in_own_process(executor, validate_pairs, card, pairs, corpus, self.root))


def _results(key: dg.AssetKey, validation: Validation) -> list[dg.AssetCheckResult]:
    return [_result(key, finding, validation.page) for finding in validation.findings]


def _result(key: dg.AssetKey, finding: Finding, page: Path | None) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {
        "offending_rows": finding.offending,
        "percent": finding.percent,
        "total_rows": finding.total,
        "rules": dg.MetadataValue.json(finding.rules),
        **({"data_docs": dg.MetadataValue.path(page)} if page else {}),
    }
    if finding.shown:
        metadata["examples"] = dg.MetadataValue.md(markdown_rows(finding.header, finding.shown))
    return dg.AssetCheckResult(
        passed=finding.passed,
        asset_key=key,
        check_name=finding.check.name,
        severity=dg.AssetCheckSeverity.ERROR if finding.blocking else dg.AssetCheckSeverity.WARN,
        description=finding.broken or None,
        metadata=metadata,
    )
