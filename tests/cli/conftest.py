"""The command as `pip install traube` gives it: the library alone, without the platform of a checkout."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from traube._core import paths

PARAMS = """
protocol: tiny
tasks: [pydocs_s2s]
models: [tfidf]
protocols:
  tiny: {reducers: [none], clusterers: [minibatch_kmeans, agglomerative]}
  own: {reducers: [none], clusterers: [kmeans, agglomerative], seeds: [42, 1], main_metric: ami}
"""
Traube = Callable[..., Result]


def call(*arguments: str, stdin: str | None = None) -> Result:
    """Call the command; `stdin` is what is piped into it."""
    from traube._cli.main import app

    return CliRunner().invoke(app, list(arguments), input=stdin)


def begin_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Be in a folder, with a params.yaml of its own, and without the platform."""
    from traube._cli import launcher

    (folder / "params.yaml").write_text(PARAMS)
    patch.setenv("TRAUBE_PARAMS", str(folder / "params.yaml"))
    patch.setattr(paths, "IN_CHECKOUT", False)
    patch.setattr(launcher, "papers", dict)  # their tables have tests of their own, and take longer
    # each home would measure once more, on 144 texts, which is faster: tests/models does
    patch.setattr("traube.models._precision._probe", lambda name, load: "fp32")
    patch.setenv("COLUMNS", "200")
    patch.chdir(folder)


@pytest.fixture
def traube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traube:
    """Call the command in an empty folder."""
    begin_in(tmp_path, monkeypatch)
    return call
