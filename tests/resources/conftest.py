"""A folder for the Data Docs of a test."""

from pathlib import Path

import pytest


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return tmp_path / "docs"
