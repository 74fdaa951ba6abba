"""Checks the tables of a task by Great Expectations, and writes what was found to a page of Data
Docs. Where it is not installed, the same rules are judged by `traube.pipeline.validation.verdicts`, and there is
no page.

A rule is given to Great Expectations as an expectation on the table and its facts; it finds the
rows that break it. Great Expectations takes seconds to import, so that is done where a table is
checked, never when this module is loaded.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from traube.core import paths
from traube.pipeline.validation.facts import FACTS
from traube.pipeline.validation.findings import Finding, finding_of
from traube.pipeline.validation.page import write_page
from traube.pipeline.validation.rules import CHECKS, Table, blocks
from traube.pipeline.validation.verdicts import Verdict, applied_rules, judge
from traube.storage import Storage
from traube.tasks.stored import get_card, read_task
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS, TaskCard

COLUMNS: dict[Table, tuple[str, ...]] = {"corpus": CORPUS_COLUMNS, "splits": SPLIT_COLUMNS}  # that are judged


@dataclass(frozen=True)
class Validation:
    """What all checks of a table found.

    Attributes
    ----------
    findings : one for each check of the table, in the order of `CHECKS`
    page : the page of Data Docs that shows them; None where Great Expectations is not installed
    """

    findings: list[Finding]
    page: Path | None


def data_docs() -> Path:
    """Where Data Docs are kept: `quality` in TRAUBE_HOME."""
    return paths.home() / "quality"


def validate_table(card: TaskCard, table: Table, rows: pd.DataFrame, corpus: pd.DataFrame, folder: Path) -> Validation:
    """Check a table of a task.

    Parameters
    ----------
    table : which one
    rows : the table; of a corpus, the corpus
    corpus : the texts that rows name
    folder : of Data Docs

    Raises
    ------
    RuntimeError
        If Great Expectations itself fails; that is no verdict on the data.
    """
    rows = rows[list(COLUMNS.get(table, rows.columns))].reset_index(drop=True)
    judged = rows.join(FACTS[table](card, rows, corpus))
    if not find_spec("great_expectations"):
        verdicts = judge(table, card.declared, judged)
        return Validation([finding_of(check, card, verdicts, judged, corpus) for check in CHECKS[table]], None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Great Expectations imports
        result = _run_suite(card, table, judged)
        verdicts = [_verdict(judgement) for judgement in result.results]
        findings = [finding_of(check, card, verdicts, judged, corpus) for check in CHECKS[table]]
        return Validation(findings, write_page(folder, card.name, table, result, findings))


def validate_tasks(storage: Storage, tasks: Iterable[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Check stored tasks: by `task/table/check` whether it blocks, whether it passed, and how many
    rows offend.

    Parameters
    ----------
    tasks : names; those that are not stored are passed over
    folder : of Data Docs
    """
    verdicts = {}
    for name in tasks:
        card = get_card(storage, name)
        if card is None:
            continue
        task = read_task(storage, name)
        tables: tuple[tuple[Table, pd.DataFrame], ...] = (("corpus", task.corpus), (card.type.table, task.rows))
        validations: dict[Table, Validation] = {
            table: validate_table(card, table, rows, task.corpus, folder) for table, rows in tables
        }
        for table, validation in validations.items():
            for finding in validation.findings:
                verdicts[f"{name}/{table}/{finding.check.name}"] = {
                    "blocking": finding.blocking,
                    "passed": finding.passed,
                    "offending_rows": finding.offending,
                }
    return verdicts


def _verdict(result: Any) -> Verdict:
    """Return what Great Expectations found of a rule."""
    meta, found = result.expectation_config.meta, result.result
    return Verdict(
        check=meta["check"],
        says=meta["says"],
        success=bool(result.success),
        rows=list(found.get("unexpected_index_list") or []),
        count=found.get("unexpected_count"),
        observed=found.get("observed_value"),
    )


def _run_suite(card: TaskCard, table: Table, judged: pd.DataFrame) -> Any:
    """Run the table's suite; return Great Expectations' result, with all offending rows."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas(card.name).add_dataframe_asset(table)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": judged})
    suite = gx.ExpectationSuite(name=f"{card.name}/{table}", expectations=_expectations(card, table))
    # no values: user data is not escaped in Data Docs; no query: it lists every offending row once
    # more
    wanted = {"result_format": "COMPLETE", "exclude_unexpected_values": True, "return_unexpected_index_query": False}
    validation: Any = batch.validate(suite, result_format=wanted)
    validation.meta["run_id"] = datetime.now(UTC).isoformat(timespec="seconds")  # the page's title shows it
    for result in validation.results:
        _refuse_error(result)
    return validation


def _expectations(card: TaskCard, table: Table) -> list[Any]:
    import great_expectations.expectations as gxe

    checks = {check.name: check for check in CHECKS[table]}
    return [
        getattr(gxe, rule.expectation)(
            **arguments,
            description=f"{name}: {rule.says}",
            severity="critical" if blocks(checks[name], card) else "warning",
            meta={"check": name, "says": rule.says},
        )
        for name, rule, arguments in applied_rules(table, card.declared)
    ]


def _refuse_error(result: Any) -> None:
    """Raise Great Expectations' own errors, which it reports as failed expectations: they are no verdict."""
    error = result.exception_info or {}
    for entry in [error, *error.values()]:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            raise RuntimeError(f"{result.expectation_config.meta['check']}: {entry['exception_message']}")
