"""Every test has a home, cards and params of its own: none touches what lies in the project."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TRAUBE_HOME of this test."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TRAUBE_HOME", str(folder))
    for variable in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    return folder
