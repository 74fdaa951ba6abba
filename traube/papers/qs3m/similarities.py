"""The networks of trained similarities (section 3)."""

from typing import Any

from traube.models._similarity import Network, SimilarityConfig
from traube.papers.qs3m.sentences import SENTENCES, Sentences


def _make_qss(config: SimilarityConfig) -> Any:
    from traube.papers.qs3m.networks import Qss

    return Qss(config.dimensions)


def _make_qs3m(config: SimilarityConfig) -> Any:
    from traube.papers.qs3m.networks import Qs3mNetwork

    return Qs3mNetwork(config.dimensions, config.query != "none", config.projection, config.output)


def _make_attention(config: SimilarityConfig) -> Any:
    from traube.papers.qs3m.networks import Attention

    return Attention(config.dimensions, _make_qs3m(config), config.masked)


NETWORKS = {
    "qss": Network(_make_qss),
    "qs3m": Network(_make_qs3m, needs_query=False),
    "attention": Network(_make_attention, vectors=1 + SENTENCES, read=Sentences),
}
