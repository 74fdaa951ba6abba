"""A sheet of best-worst scaling as a page that is filled in in a browser and saves a CSV file."""

from collections.abc import Mapping

from traube.core.hashing import digest
from traube.reports.rendering import render
from traube.tasks.annotation_sheets import Item, Sheet


def sheet_form(sheet: Sheet, items: Mapping[str, Item], wording: Mapping[str, str]) -> str:
    """Return the page of a sheet."""
    questions = [(items[one[0]].context, [items[item] for item in one]) for one in sheet.tuples]
    key = digest([sheet.tuples])  # under which a browser keeps the answers
    return render("annotation_form.html", sheet=sheet, questions=questions, wording=wording, key=key)
