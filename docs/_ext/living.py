"""Living examples: the page of a task and the report of a clustering, made by Traube from its own docstrings' task.

They are made once, in a data directory below `_build`, and kept there for later builds.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from traube._storage import open_storage

TASK = "pydocs_s2s"  # texts of packages that are installed anyway, so that anybody may publish them


def _make(app: Any, config: Any) -> None:
    """Make the pages that are not there."""
    build = Path(app.srcdir) / "_build"
    pages, home = build / "living", build / "home"
    pages.mkdir(parents=True, exist_ok=True)
    texts = home / "docstrings.csv"
    elsewhere = ("TRAUBE_BLOBS", "TRAUBE_DATABASE")  # of others, who would get these pages' results
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    environment["TRAUBE_HOME"] = str(home)

    def traube(*words: str) -> None:
        command = [sys.executable, "-m", "traube._cli", *words]
        subprocess.run(  # noqa: S603 (our own arguments)
            command, env=environment, cwd=Path(app.srcdir).parent, check=True, stdout=subprocess.DEVNULL
        )

    if not (pages / "explorer.html").exists() or not (home / "catalog.db").exists():
        models = [word for model in config.living_models for word in ("-m", model)]
        traube("run", "-t", TASK, *models, "--protocol", "mteb-v1")
        traube("report", TASK, "--print")
        shutil.copy(home / "report" / f"{TASK}.html", pages / "explorer.html")
    if not (pages / "map.html").exists():
        storage = open_storage(home)
        stored = storage.get_task(TASK)
        assert stored is not None
        storage.read_table(stored.files["corpus"])[["text"]].to_csv(texts, index=False)
        written = "-o", str(home / "clusters.csv"), "--report", str(pages / "map.html")
        traube("cluster", str(texts), "-m", config.living_models[0], *written)


def setup(app: Any) -> dict[str, bool]:
    """Make the pages before Sphinx looks for them."""
    app.add_config_value("living_models", ["minilm", "tfidf"], "env")
    app.connect("config-inited", _make, priority=1)
    return {"parallel_read_safe": True}
