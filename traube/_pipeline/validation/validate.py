"""Checks of the tables of a task by Great Expectations, with a page of Data Docs.

It takes two seconds to import, and much memory: best in a process of its own (`validate_version`). Where it is not
installed, `verdicts` judges the same rules.
"""

import html
import json
import warnings
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from traube._core import paths
from traube._core.files import locked, write_text
from traube._pipeline.executors import Executor
from traube._pipeline.executors.base import explain_broken_pool
from traube._pipeline.validation.facts import FACTS
from traube._pipeline.validation.findings import Finding, keep_findings, make_finding
from traube._pipeline.validation.rules import CHECKS, Table, blocks
from traube._pipeline.validation.verdicts import Verdict, judge, list_applied_rules
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.tasks._stored import get_card, read_task
from traube.tasks._task import CORPUS_COLUMNS, SPLIT_COLUMNS, TaskCard

COLUMNS: dict[Table, Collection[str]] = {"corpus": CORPUS_COLUMNS, "splits": SPLIT_COLUMNS}  # that are judged
QUALITY = "quality"  # folder in the data directory


@dataclass(frozen=True)
class Validation:
    """Findings of all checks of a table."""

    findings: list[Finding]  # one for each check of the table, in the order of `CHECKS`
    page: Path | None  # of Data Docs, that shows them; None where Great Expectations is not installed


def data_docs() -> Path:
    """Return the folder of the Data Docs: `quality` in TRAUBE_HOME."""
    return paths.home() / QUALITY


def validate_table(card: TaskCard, table: Table, rows: pd.DataFrame, corpus: pd.DataFrame, folder: Path) -> Validation:
    """Check the rows of a task's table, which name texts of the corpus (or are these), with Data Docs in a folder.

    Raises
    ------
    RuntimeError
        If Great Expectations itself fails; that is no verdict on the data.
    """
    rows = rows[list(COLUMNS.get(table, rows.columns))].reset_index(drop=True)
    judged = rows.join(FACTS[table](card, rows, corpus))
    if not find_spec("great_expectations"):
        verdicts = judge(table, card.declared, judged)
        return Validation([make_finding(check, card, verdicts, judged, corpus) for check in CHECKS[table]], None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the imports of Great Expectations
        validation = _run_suite(card, table, judged, folder)
        verdicts = [
            Verdict(
                **{name: result.expectation_config.meta[name] for name in ("check", "says")},
                success=bool(result.success),
                rows=list(result.result.get("unexpected_index_list") or []),
                count=result.result.get("unexpected_count"),
                observed=result.result.get("observed_value"),
            )
            for result in validation.results
        ]
        findings = [make_finding(check, card, verdicts, judged, corpus) for check in CHECKS[table]]
        return Validation(findings, _write_page(folder, card.name, table, validation, findings))


def validate_tasks(storage: Storage, tasks: Iterable[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Check stored tasks, with Data Docs in a folder.

    Returns by `task/table/check` whether it blocks, whether it passed, and how many rows offend. Tasks that are not
    stored are passed over.
    """
    verdicts = {}
    for name in tasks:
        if (card := get_card(storage, name)) is None:
            continue
        task = read_task(storage, name)
        tables: dict[Table, pd.DataFrame] = {"corpus": task.corpus, card.type.table: task.rows}
        for table, rows in tables.items():
            for finding in validate_table(card, table, rows, task.corpus, folder).findings:
                verdicts[f"{name}/{table}/{finding.check.name}"] = {
                    "blocking": finding.blocking,
                    "passed": finding.passed,
                    "offending_rows": finding.offending,
                }
    return verdicts


def _run_suite(card: TaskCard, table: Table, judged: pd.DataFrame, folder: Path) -> Any:
    """Run the table's suite; return Great Expectations' result, with all offending rows."""
    import great_expectations as gx
    import great_expectations.expectations as gxe
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
    checks = {check.name: check for check in CHECKS[table]}
    expectations = [
        getattr(gxe, rule.expectation)(
            **arguments,
            description=f"{name}: {rule.says}",
            severity="critical" if blocks(checks[name], card) else "warning",
            meta={"check": name, "says": rule.says},
        )
        for name, rule, arguments in list_applied_rules(table, card.declared)
    ]
    suite = gx.ExpectationSuite(name=f"{card.name}/{table}", expectations=expectations)
    stored = folder / "expectations" / card.name / f"{table}.json"  # the suite, to be opened in Great Expectations
    write_text(stored, json.dumps(suite.to_json_dict(), indent=1) + "\n")
    # no values: user data is not escaped in Data Docs; no query: it lists every offending row once more
    wanted = {"result_format": "COMPLETE", "exclude_unexpected_values": True, "return_unexpected_index_query": False}
    validation: Any = batch.validate(suite, result_format=wanted)
    validation.meta["run_id"] = datetime.now(UTC).isoformat(timespec="seconds")  # the page's title shows it

    for result in validation.results:  # Great Expectations' own errors are reported as failures: they are no verdict
        error = result.exception_info or {}
        for entry in [error, *error.values()]:
            if isinstance(entry, dict) and entry.get("raised_exception"):
                raise RuntimeError(f"{result.expectation_config.meta['check']}: {entry['exception_message']}")
    return validation


def _write_page(folder: Path, task: str, table: Table, validation: Any, findings: Sequence[Finding]) -> Path:
    """Write the validation's page of Data Docs and the index of all pages.

    Great Expectations' own site builder would take every offending row through JSON, keep every page forever, and
    show values, which it does not escape, but not their rows.
    """
    from great_expectations.render import RenderedHeaderContent, RenderedSectionContent, RenderedTableContent
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    document = ValidationResultsPageRenderer(run_info_at_end=True).render(validation)
    sections = []
    for finding in findings:
        if finding.passed:
            continue
        content: list[Any] = [RenderedHeaderContent(header=finding.check.name, subheader=finding.broken)]
        if finding.shown:
            cells = [[html.escape(cell) for cell in row] for row in finding.shown]
            styling = {"body": {"classes": ["table", "table-sm"]}}
            content.append(RenderedTableContent(table=cells, header_row=finding.header, styling=styling))
        sections.append(RenderedSectionContent(section_name=finding.check.name, content_blocks=content))
    document.sections[1:1] = sections
    page = folder / "validations" / task / table / "latest" / "index.html"  # the page's link home goes up four folders
    write_text(page, DefaultJinjaPageView().render(document, show_how_to_buttons=False))

    with locked(folder / "index.html"):
        pages = sorted(page.relative_to(folder) for page in folder.glob("validations/*/*/latest/index.html"))
        links = "\n".join(f'<li><a href="{p.as_posix()}">{p.parts[1]} / {p.parts[2]}</a></li>' for p in pages)
        head = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Data Docs</title>\n<h1>Data Docs</h1>'
        write_text(folder / "index.html", f"{head}\n<ul>\n{links}\n</ul>\n")
    return page


def warm_up(executor: Executor) -> None:
    """Have the process import Great Expectations, and return at once."""
    if find_spec("great_expectations"):
        executor.call_apart(_import)


def validate_version(
    workbench: Workbench,
    card: TaskCard,
    table: Table,
    rows: pd.DataFrame,
    corpus: pd.DataFrame,
    version: str,
    folder: Path,
) -> Validation:
    """Check a version of a task's table (`validate_table`) in the executor's process for this, and keep the findings.

    Where Great Expectations is not installed, the check is computed here. If the process is killed, a TraubeError is
    raised, and the next call starts another.
    """
    executor = workbench.executor
    if not find_spec("great_expectations"):
        validation = validate_table(card, table, rows, corpus, folder)
    else:
        try:
            validation = executor.call_apart(validate_table, card, table, rows, corpus, folder).result()
        except BrokenProcessPool as error:
            executor.close(kill=True)
            raise explain_broken_pool(error) from None
    keep_findings(workbench.storage, card.name, table, version, validation.findings)
    return validation


def _import() -> None:  # returns nothing: a module that is sent back would be imported by the caller, too
    import great_expectations  # noqa: F401
