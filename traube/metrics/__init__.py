"""Metrics of clusterings and of their differences.

They measure agreement with gold labels, compactness without gold labels, and whether a difference is real. The package
works on labels and numbers; tasks, models and files are unknown here.

Other rooms import what is listed here, and the modules without an underscore.
"""

from traube.metrics._measures import SCORING_VERSION
from traube.metrics.names import FULL_NAMES, GROUPS, METRICS, NOISE_POLICIES, SILHOUETTE, full_name

__all__ = ["FULL_NAMES", "GROUPS", "METRICS", "NOISE_POLICIES", "SCORING_VERSION", "SILHOUETTE", "full_name"]
