"""What the metrics are called. Light: cards and params are validated against it."""

from traube.foundation.errors import unknown
from traube.metrics.measures import MEASURES

NOISE_POLICIES = ("noise_as_cluster", "noise_dropped", "noise_as_singletons")
METRICS = tuple(MEASURES)
# Texts are put into this many groups by their ids: the groups of the jackknife (`traube.metrics.significance`).
GROUPS = 20
SILHOUETTE = "silhouette"  # of clusterings without gold labels
FULL_NAMES = tuple(f"{metric}/{policy}" for metric in METRICS for policy in NOISE_POLICIES)


def full_name(name: str) -> str:
    """The name itself.

    Raises
    ------
    TraubeError
        If there is no such metric; the message names near ones.
    """
    if name not in (*FULL_NAMES, SILHOUETTE):
        raise unknown("metric", name, (*FULL_NAMES, SILHOUETTE))
    return name
