"""The critical-difference diagram (Demsar, 2006): mean ranks of models, with a bar over those that
cannot be told apart.

Which these are is said by our own tests, which know of texts that splits share; the usual Nemenyi
test takes splits as independent.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from traube.metrics.significance import Sample
from traube.report.figures import svg
from traube.report.tables import corrected_p_values

MOST = 20  # models of a diagram


def diagram(names: Sequence[str], samples: Sequence[Sample]) -> Markup:
    """The diagram as SVG; nothing where models were not scored on the same splits, or one is alone.

    Parameters
    ----------
    names : of models
    samples : of each, the best first
    """
    names, samples = names[:MOST], samples[:MOST]
    if len(samples) < 2 or len({sample.splits for sample in samples}) > 1:
        return Markup()
    p = corrected_p_values(samples)
    if np.isnan(p).any():
        return Markup()
    from matplotlib.figure import Figure
    from scikit_posthocs import critical_difference_diagram

    ranks = mean_ranks(names, samples)
    figure = Figure(figsize=(9, 1.1 + 0.16 * len(names)), layout="constrained")
    critical_difference_diagram(
        ranks,
        pd.DataFrame(p, index=list(names), columns=list(names)),
        ax=figure.subplots(),
        color_palette=["black"] * len(names),
        label_fmt_left="{label} [{rank:.2f}] ",
        label_fmt_right=" [{rank:.2f}] {label}",
        crossbar_props={"color": "#d55e00", "linewidth": 3},
    )
    return svg(figure)


def mean_ranks(names: Sequence[str], samples: Sequence[Sample]) -> pd.Series:
    """Each model's rank, 1 the best, averaged over splits; equal scores share a rank."""
    scores = pd.DataFrame({name: sample.values[:, 0] for name, sample in zip(names, samples, strict=True)})
    return scores.rank(axis=1, ascending=False).mean()
