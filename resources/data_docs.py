"""Pages of checks by Great Expectations: the rules that the library judges, as suites that can be opened there, and Data Docs.

It takes two seconds to import, and much memory: best in a process of its own.
"""

import html
import json
import warnings
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from traube._core import paths
from traube._core.files import locked, write_text
from traube._pipeline.executors import Executor
from traube._pipeline.executors.base import explain_broken_pool
from traube._pipeline.validation.outcomes import list_applied_rules
from traube._pipeline.validation.rules import CHECKS, blocks
from traube._pipeline.validation.validate import Validation

QUALITY = "quality"  # folder in the data directory


def data_docs() -> Path:
    """Return the folder of the Data Docs: `quality` in TRAUBE_HOME."""
    return paths.home() / QUALITY


def warm_up(executor: Executor) -> None:
    """Have the executor's process for this import Great Expectations, and return at once."""
    executor.call_apart(_import)


def _import() -> None:  # returns nothing: a module that is sent back would be imported by the caller, too
    import great_expectations  # noqa: F401


def draw_apart(executor: Executor, validation: Validation, folder: Path) -> Path:
    """Draw a validation (`draw`) in the executor's process for this.

    If the process is killed, a TraubeError is raised, and the next call starts another.
    """
    try:
        return executor.call_apart(draw, validation, folder).result()
    except BrokenProcessPool as error:
        executor.close(kill=True)
        raise explain_broken_pool(error) from None


def draw(validation: Validation, folder: Path) -> Path:
    """Write the suite and the page of a validation into a folder of Data Docs, and return the page.

    Raises
    ------
    RuntimeError
        If Great Expectations itself fails, or judges a rule otherwise than the library.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the imports of Great Expectations
        result = _run_suite(validation, folder)
        passed = {check.name: True for check in CHECKS[validation.table]}
        for one in result.results:
            passed[one.expectation_config.meta["check"]] &= bool(one.success)
        for finding in validation.findings:
            if finding.passed != passed[finding.check.name]:
                raise RuntimeError(f"{finding.check.name}: Great Expectations and pandas judge a rule differently")
        return _write_page(folder, validation, result)


def _run_suite(validation: Validation, folder: Path) -> Any:
    """Write and run a table's suite; return Great Expectations' result, with all offending rows."""
    import great_expectations as gx
    import great_expectations.expectations as gxe
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    card, table = validation.card, validation.table
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas(card.name).add_dataframe_asset(table)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": validation.judged})
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
    result: Any = batch.validate(suite, result_format=wanted)
    result.meta["run_id"] = datetime.now(UTC).isoformat(timespec="seconds")  # the page's title shows it

    # Great Expectations' own errors are reported as failures: they are no verdict
    for one in result.results:
        error = one.exception_info or {}
        for entry in [error, *error.values()]:
            if isinstance(entry, dict) and entry.get("raised_exception"):
                raise RuntimeError(f"{one.expectation_config.meta['check']}: {entry['exception_message']}")
    return result


def _write_page(folder: Path, validation: Validation, result: Any) -> Path:
    """Write a validation's page of Data Docs and the index of all pages.

    Great Expectations' own site builder would take every offending row through JSON, keep every page forever, and
    show values, which it does not escape, but not their rows.
    """
    from great_expectations.render import RenderedHeaderContent, RenderedSectionContent, RenderedTableContent
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    document = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    sections = []
    for finding in validation.findings:
        if finding.passed:
            continue
        content: list[Any] = [RenderedHeaderContent(header=finding.check.name, subheader=finding.broken)]
        if finding.shown:
            cells = [[html.escape(cell) for cell in row] for row in finding.shown]
            styling = {"body": {"classes": ["table", "table-sm"]}}
            content.append(RenderedTableContent(table=cells, header_row=finding.header, styling=styling))
        sections.append(RenderedSectionContent(section_name=finding.check.name, content_blocks=content))
    document.sections[1:1] = sections
    page = folder / "validations" / validation.card.name / validation.table / "latest" / "index.html"
    write_text(page, DefaultJinjaPageView().render(document, show_how_to_buttons=False))

    with locked(folder / "index.html"):
        pages = sorted(page.relative_to(folder) for page in folder.glob("validations/*/*/latest/index.html"))
        links = "\n".join(f'<li><a href="{p.as_posix()}">{p.parts[1]} / {p.parts[2]}</a></li>' for p in pages)
        head = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Data Docs</title>\n<h1>Data Docs</h1>'
        write_text(folder / "index.html", f"{head}\n<ul>\n{links}\n</ul>\n")
    return page
