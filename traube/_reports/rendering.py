"""The one way of making a page, a file that needs no server and no network; its scripts run by a nonce.

What people wrote is carried as JSON, or escaped by the template, and put into the page as text, never as HTML.
"""

import base64
import gzip
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from traube._core.versions import get_version
from traube._reports.figures import Plot, as_data

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "traube._reports"


def render(template: str, *, package: str = PACKAGE, data: Any = None, **values: Any) -> str:
    """Return a page made of a package's template and values; its scripts read data that JSON takes."""
    values |= {
        "nonce": secrets.token_urlsafe(16),
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": get_version("traube"),
        "data": None if data is None else as_json(data),
    }
    return _templates(package).get_template(template).render(values)


def figures_page(title: str, plots: Sequence[Plot], notes: Sequence[str] = ()) -> str:
    """Return a page of figures with their captions."""
    return render("figures.html", data=as_data(plots), title=title, plots=plots, notes=notes)


def as_json(data: Any) -> Markup:
    """Return JSON for a script element: no part of the text ends the element or opens another."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_native)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704


def packed(text: str | bytes) -> str:
    """Return a text as base64 of gzip, which a page's script unpacks; bytes are taken as gzip."""
    data = gzip.compress(text.encode(), mtime=0) if isinstance(text, str) else text
    return base64.b64encode(data).decode()


def _native(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} is no JSON")


@cache
def _templates(package: str) -> "Environment":
    """Return the templates of a package and, where it has none of a name, those of the reports."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader

    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, PACKAGE))])
    loaded = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    loaded.globals |= {"file": _file, "plotly": _plotly, "data_tables": _data_tables, "packed": packed}
    return loaded


@cache
def _file(name: str) -> Markup:
    return Markup((resources.files(PACKAGE) / "templates" / name).read_text(encoding="utf-8"))  # noqa: S704


@cache
def _plotly() -> Markup:
    """Return plotly.js: from Traube's wheel, or in a checkout from plotly's package."""
    bundled = resources.files(PACKAGE) / "plotly.min.js"
    if bundled.is_file():
        return Markup(bundled.read_text(encoding="utf-8"))  # noqa: S704
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())  # noqa: S704


@cache
def _data_tables(name: str) -> Markup:
    """Return the script or style of DataTables, which is part of itables."""
    text = (resources.files("itables") / "html" / name).read_text(encoding="utf-8")
    if name.endswith(".js"):  # a module, which nothing imports inside a page: it leaves its table at `DataTable`
        before, _, exported = text.rpartition("export{")
        names, _, after = exported.partition("}")
        of = {new: old for old, _, new in (entry.partition(" as ") for entry in names.split(","))}
        text = f"{before}globalThis.DataTable={of['default']};{after.lstrip(';')}"
    return Markup(text)  # noqa: S704
