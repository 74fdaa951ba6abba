"""The command as `pip install traube` gives it: the library alone, without the platform of a checkout."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from traube.core import paths

PARAMS = """
protocol: tiny
tasks: [pydocs_s2s]
models: [tfidf]
protocols:
  tiny: {reducers: [none], clusterers: [agglomerative]}
  own: {reducers: [none], clusterers: [kmeans, agglomerative], seeds: [42, 1], main_metric: ami}
"""
Traube = Callable[..., Result]


@pytest.fixture
def traube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traube:
    """Call the command in an empty folder; `stdin` is what is piped into it."""
    from traube.cli.launcher import Launcher
    from traube.cli.main import app

    (tmp_path / "params.yaml").write_text(PARAMS)
    monkeypatch.setenv("TRAUBE_PARAMS", str(tmp_path / "params.yaml"))
    monkeypatch.setattr(paths, "IN_CHECKOUT", False)
    monkeypatch.setattr(Launcher, "publish", lambda *_: [])  # papers' tables have tests of their own, and take longer
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, stdin=None: CliRunner().invoke(app, list(arguments), input=stdin)
