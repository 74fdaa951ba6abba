"""Names of the metrics. Light: cards and params are validated against it."""

from traube._core.errors import unknown
from traube.metrics._measures import MEASURES

NOISE_POLICIES = ("noise_as_cluster", "noise_dropped", "noise_as_singletons")
METRICS = tuple(MEASURES)
# Texts are put into this many groups by their ids: those of the jackknife (`traube.comparison.jackknife`).
GROUPS = 20
SILHOUETTE = "silhouette"  # of clusterings without gold labels
FULL_NAMES = tuple(f"{metric}/{policy}" for metric in METRICS for policy in NOISE_POLICIES)

# What papers also call them. V-measure is the harmonic mean of homogeneity I/H(C) and completeness
# I/H(K), 2I/(H(C) + H(K)): the mutual information over the arithmetic mean of both entropies, which
# scikit-learn and most papers mean by NMI.
SYNONYMS = {"nmi": "v_measure"}


def full_name(name: str) -> str:
    """Return the name under which a metric is stored; letter case is ignored: `NMI` is `v_measure/noise_as_cluster`.

    Parameters
    ----------
    name : str
        A metric, perhaps with a noise policy after a slash.

    Returns
    -------
    str
        Metric and noise policy.

    Raises
    ------
    TraubeError
        If there is no such metric.

    Examples
    --------
    >>> from traube.metrics import full_name
    >>> full_name("ARI/noise_dropped")
    'ari/noise_dropped'
    """
    plain = name.lower().replace("-", "_")
    metric, _, policy = plain.partition("/")
    full = plain if plain == SILHOUETTE else f"{SYNONYMS.get(metric, metric)}/{policy or NOISE_POLICIES[0]}"
    if full not in (*FULL_NAMES, SILHOUETTE):
        raise unknown("metric", name, (*FULL_NAMES, *METRICS, *SYNONYMS, SILHOUETTE))
    return full
