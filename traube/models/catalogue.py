"""The models that come with Traube, from `catalogue.yaml`."""

from functools import lru_cache
from pathlib import Path

from traube.core.config import parse, read_yaml
from traube.models.card import ModelCard

FILE = Path(__file__).with_name("catalogue.yaml")


@lru_cache(maxsize=1)
def catalogue() -> dict[str, ModelCard]:
    """Cards by name."""
    entries, lines = read_yaml(FILE)
    return {
        name: parse(ModelCard, {"name": name, **entry}, FILE, {k[1:]: v for k, v in lines.items() if k[0] == name})
        for name, entry in entries.items()
    }
