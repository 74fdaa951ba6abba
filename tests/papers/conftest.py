"""An empty storage from which papers are measured."""

import pytest

from traube._core import paths
from traube._pipeline.params import load_params
from traube._pipeline.workbench import Workbench
from traube._reports.papers import Context
from traube.models import load_model


@pytest.fixture
def context() -> Context:
    return at_home()


def at_home() -> Context:
    """Return the measurements of TRAUBE_HOME."""
    params = load_params()
    return Context(
        workbench=Workbench.at(paths.home()),
        protocols=params.protocols,
        protocol=params.protocol,
        model=lambda name, precision: load_model(name, "cpu", precision),
    )
