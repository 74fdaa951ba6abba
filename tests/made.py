"""Made-up scores, as the store wants them."""

import numpy as np
import pandas as pd

from traube.metrics import GROUPS


def with_replicates(scores: pd.DataFrame, spread: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Scores with replicates that vary by `spread` about the value; by default they say that the texts do not matter."""
    rng = np.random.default_rng(seed)
    made = [value + spread * rng.normal(size=GROUPS) for value in scores["value"]]
    return scores.assign(replicates=pd.Series(made, index=scores.index, dtype=object))
