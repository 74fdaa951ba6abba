"""An empty storage from which papers are measured."""

import pytest

from traube.core import paths
from traube.models import load_model
from traube.papers import Context
from traube.pipeline.params import load_params
from traube.pipeline.workbench import Workbench


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
