"""What papers are measured from, with nothing in it yet."""

import pytest

from traube.benchmark.params import load_params
from traube.foundation import paths
from traube.models import EmbeddingCache, load_model
from traube.papers import Context
from traube.store import Store


@pytest.fixture
def context() -> Context:
    home, params = paths.home(), load_params()
    return Context(
        store=Store(home / "store"),
        cache=EmbeddingCache(home / "embeddings"),
        protocols=params.protocols,
        protocol=params.protocol,
        checkpoints=paths.checkpoints(),
        studies=home / "studies",
        model=lambda name, precision: load_model(name, "cpu", precision),
    )
