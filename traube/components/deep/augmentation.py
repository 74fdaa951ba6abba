"""Other texts of the same meaning, for contrastive learning."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

# Texts and a seed in, as many other texts out.
Augment: TypeAlias = Callable[[Sequence[str], int], list[str]]
SHARE = 0.2  # of the words that are changed


def swap_or_delete(texts: Sequence[str], seed: int) -> list[str]:
    """Return each text with a fifth of its words, at least one, either swapped or deleted.

    A text of one word stays as it is.
    """
    others = []
    for row, text in enumerate(texts):
        words, rng = text.split(), np.random.default_rng([seed, row])
        times = max(1, round(SHARE * len(words)))
        if len(words) > 1 and rng.random() < 0.5:
            gone = set(rng.choice(len(words), min(times, len(words) - 1), replace=False).tolist())
            words = [word for i, word in enumerate(words) if i not in gone]
        elif len(words) > 1:
            for _ in range(times):
                i, j = rng.choice(len(words), 2, replace=False)
                words[i], words[j] = words[j], words[i]
        others.append(" ".join(words) or text)
    return others
