"""Tables as Markdown, in which a text is only text: no HTML, no links, no images."""

import re
from collections.abc import Sequence

import pandas as pd

_MARKUP = re.compile(r"[&<>|\\`*_\[\]~]")


def markdown(frame: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    header = [_escape(str(column)) for column in frame.columns]
    return markdown_rows(header, [list(map(str, row)) for row in frame.itertuples(index=False)])


def markdown_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a header, which stays as it is, and rows of texts as a table in Markdown."""
    lines = [header, ["---"] * len(header), *([_escape(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(cell: str) -> str:
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", cell)
