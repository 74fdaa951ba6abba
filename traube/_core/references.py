"""The references that cards, papers and docs quote by key: `traube/references.bib`."""

import re
from functools import cache
from importlib.resources import files

_ENTRY = re.compile(r"^% Checked: ([^\n]+)\n@\w+\{(\w+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*?)\},$", re.MULTILINE | re.DOTALL)


@cache
def references() -> dict[str, dict[str, str]]:
    """Return the fields of each entry by its key; `checked` says where they were checked."""
    text = files("traube").joinpath("references.bib").read_text(encoding="utf-8")
    return {
        key: {name: " ".join(value.split()) for name, value in _FIELD.findall(fields)} | {"checked": checked}
        for checked, key, fields in _ENTRY.findall(text)
    }


def surnames(entry: dict[str, str]) -> list[str]:
    """Return the surnames of an entry's authors."""
    return [author.partition(",")[0].strip("{}") for author in entry["author"].split(" and ")]


def cite(citation: str) -> str:
    """Return a citation as people read it: keys, separated by commas, as authors, title and year; other text as it is."""
    cited = []
    for key in citation.split(","):
        if (entry := references().get(key.strip())) is None:
            return citation
        names = surnames(entry)
        authors = f"{names[0]} et al." if len(names) > 2 else " & ".join(names)
        cited.append(f"{authors}, {entry['title']} ({entry['year']})")
    return "; ".join(cited)
