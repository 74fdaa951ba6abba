"""What is measured: agreement of a clustering with gold labels, and its compactness without."""

from traube.metrics.clustering import METRICS, NOISE_POLICIES, internal, score

__all__ = ["METRICS", "NOISE_POLICIES", "internal", "score"]
