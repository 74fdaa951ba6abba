"""The documentation as a site: it builds without a warning and without a network, and every link inside it leads somewhere."""

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from traube._core import paths

DOCS = paths.PROJECT / "docs"


class _Page(HTMLParser):
    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.ids: set[str] = set()
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.ids.add(of.get("id") or "")
        self.links += [value for key in ("href", "src", "data") if (value := of.get(key))]
        if tag in {"script", "img", "iframe", "object"} or (tag == "link" and of.get("rel") == "stylesheet"):
            self.scripts += [value for key in ("href", "src", "data") if (value := of.get(key))]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    options = "-b html -n -W --keep-going -q -D living_models=tfidf"  # no encoder, whose pages are tested elsewhere
    command = [sys.executable, "-m", "sphinx", *options.split(), str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.PROJECT)
    assert done.returncode == 0, done.stderr
    living = [tmp_path / "explorer.html", tmp_path / "map.html"]  # made by Traube, and tested elsewhere
    made = {path for path in tmp_path.rglob("*.html") if "_static" not in path.parts}
    pages = {path: _Page(path.read_text("utf-8")) for path in made - {*living}}
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = pages.get(target)
            if not target.exists() or (found and parts.fragment and parts.fragment not in found.ids):
                lost.append(f"{path.relative_to(tmp_path)}: {link}")
    assert not lost, "\n".join(lost)
    assert len(pages) > 80 and all(path.exists() for path in living)
    requested = {
        f"{path.name}: {link}" for path, page in pages.items() for link in page.scripts if urlsplit(link).netloc
    }
    assert not requested, "a page needs a network"
    rooms, way = (path.read_text("utf-8") for path in (tmp_path / "_images").glob("mermaid-*.svg"))
    if "clusterer" in rooms:
        rooms, way = way, rooms
    assert all(room in rooms for room in _rooms()) and "replicates" in way


def _rooms() -> list[str]:
    """Return the layers of the library, from the top, as the configuration of import-linter lists them."""
    contracts = tomllib.loads((paths.PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [c["layers"] for c in contracts if c.get("containers") == ["traube"]]
    return [room.strip() for layer in layers if layer != "__main__" for room in layer.split("|")]


def test_the_drawing_of_the_rooms_is_what_import_linter_checks() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    drawing = page.partition("--> base")[2].partition("```")[0]
    assert re.findall(r"\b(" + "|".join(_rooms()) + r")\b(?= -->| &|\[|\n)", drawing) == _rooms()


def test_the_pages_are_short() -> None:
    """The words of README.md and docs/, tables and code too; results.md and results/ are made by a command."""
    written = {DOCS / "results.md", *(DOCS / "results").rglob("*.md")}
    pages = [
        paths.PROJECT / "README.md",
        *(page for page in DOCS.rglob("*.md") if "_build" not in page.parts and page not in written),
    ]
    words = {page.relative_to(paths.PROJECT): len(page.read_text("utf-8").split()) for page in pages}
    assert sum(words.values()) < 20_000, words
