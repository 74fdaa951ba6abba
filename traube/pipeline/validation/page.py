"""Data Docs: a page for each task and table, and an index of them."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traube.core.files import locked, write_text
from traube.pipeline.validation.findings import Finding
from traube.pipeline.validation.rules import Table


def write_page(folder: Path, task: str, table: Table, validation: Any, findings: Sequence[Finding]) -> Path:
    """Write the validation's page in place of the table's last one.

    The page is rendered here and not by Great Expectations' site builder, which would take every
    offending row through JSON, keep every page for ever, and show values (which it does not escape)
    but not the rows they are in.
    """
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    document = ValidationResultsPageRenderer(run_info_at_end=True).render(validation)
    document.sections[1:1] = [_section(finding) for finding in findings if not finding.passed]
    page = folder / "validations" / task / table / "latest" / "index.html"  # the page's link home goes up four folders
    write_text(page, DefaultJinjaPageView().render(document, show_how_to_buttons=False))
    _write_index(folder)
    return page


def _section(finding: Finding) -> Any:
    from great_expectations.render import RenderedHeaderContent, RenderedSectionContent, RenderedTableContent

    blocks: list[Any] = [RenderedHeaderContent(header=finding.check.name, subheader=finding.broken)]
    if finding.shown:
        cells = [[html.escape(cell) for cell in row] for row in finding.shown]
        styling = {"body": {"classes": ["table", "table-sm"]}}
        blocks.append(RenderedTableContent(table=cells, header_row=finding.header, styling=styling))
    return RenderedSectionContent(section_name=finding.check.name, content_blocks=blocks)


def _write_index(folder: Path) -> None:
    with locked(folder / "index.html"):
        pages = sorted(page.relative_to(folder) for page in folder.glob("validations/*/*/latest/index.html"))
        links = "\n".join(f'<li><a href="{p.as_posix()}">{p.parts[1]} / {p.parts[2]}</a></li>' for p in pages)
        head = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Data Docs</title>\n<h1>Data Docs</h1>'
        write_text(folder / "index.html", f"{head}\n<ul>\n{links}\n</ul>\n")
