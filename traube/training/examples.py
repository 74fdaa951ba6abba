"""The stream of training examples.

Everything random of an example depends on (seed, epoch, example) alone, and the order on (seed,
epoch): a training that was killed goes on from its last saved step with the very examples that it
would have seen.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Examples(ABC):
    """Training examples in order: number i is example `order(i // n)[i % n]` of epoch i // n."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.seed = seed
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))

    @abstractmethod
    def make(self, example: int, rng: np.random.Generator) -> Any:
        """An example with its noise."""

    @abstractmethod
    def collate(self, made: list[Any]) -> Any:
        """A batch for the learner."""

    def __len__(self) -> int:
        return 2**31 - 1  # as many as are asked for

    def __getitem__(self, i: int) -> Any:
        epoch, position = divmod(i, self.n)
        if self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._order = (epoch, np.argsort(rng.random(self.n), kind="stable"))
        example = int(self._order[1][position])
        return self.make(example, np.random.default_rng([self.seed, epoch, example]))
