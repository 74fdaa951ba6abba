"""Pages of the site that are files of the repository outside of docs/, and the links that lead to them.

On a forge `../../SECURITY.md` leads to the file; on the site it leads to the page that shows it.
"""

import os
import re
from pathlib import Path
from typing import Any

PAGES = {
    "about/changelog": "CHANGELOG.md",
    "about/contributing": "CONTRIBUTING.md",
    "about/security": "SECURITY.md",
    "explanation/benchmarks": "benchmarks/README.md",
    "reference/cards": "cards/README.md",
    **{f"papers/{name}": f"traube/papers/{name}/README.md" for name in ("aecl", "cob", "german", "giccs", "qs3m")},
}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]*)(#[^)\s]*)?(?=\))")


def _show(app: Any, docname: str, source: list[str]) -> None:
    """Put a file's text in the place of its page, and lead links to the site's pages."""
    project = Path(app.srcdir).parent
    page = Path(app.env.doc2path(docname)).parent
    if docname in PAGES:
        source[0] = (project / PAGES[docname]).read_text(encoding="utf-8")
    written_in = (project / PAGES[docname]).parent if docname in PAGES else page

    def lead(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        if not path:
            return match[0]
        target = (written_in / path).resolve()
        shown = {project / file: Path(app.srcdir) / f"{name}.md" for name, file in PAGES.items()}
        target = shown.get(target, target)
        if target.is_dir():
            target = target / "index.md"
        return os.path.relpath(target, page) + anchor

    source[0] = LINK.sub(lead, source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register the pages."""
    app.connect("source-read", _show)
    return {"parallel_read_safe": True}
