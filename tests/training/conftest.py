"""A tiny encoder to train."""

from pathlib import Path

import pytest

from traube.models.card import ModelCard
from traube.models.transformer import Transformer


@pytest.fixture(scope="module")
def base(tiny_bert: Path) -> Transformer:
    return Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert)), "cpu")
