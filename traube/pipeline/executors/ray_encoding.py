"""Texts that are encoded by processes of a Ray cluster, each of which holds the model.

Where these may run, and what is set aside for them, is said by `traube.pipeline.executors.ray`.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube.models import Transformer
from traube.models.vectors import Dense
from traube.pipeline.executors.ray_errors import check, in_words

Batches = list[tuple[NDArray[np.int64], Dense]]


class Holder:
    """Holds a model where it computes."""

    def __init__(self, versions: dict[str, str], encoder: Transformer, network: Any) -> None:
        self._versions = versions
        self._encoder = encoder.with_network_of_elsewhere(network)

    def encode(self, texts: Sequence[str]) -> Batches:
        """Encode texts, after a check of the libraries' versions."""
        check(self._versions)
        return list(self._encoder.encode_batches(texts)) if texts else []


def encode_shares(ray: Any, holders: Sequence[Any], shares: Sequence[Sequence[str]]) -> Iterator[tuple[int, Batches]]:
    """Yield the number of each share of the texts, and its batches, as they are ready.

    Ray starts a holder that died anew, and has it do again what it was at.

    Raises
    ------
    TraubeError
        If a share cannot be encoded, or what encodes it dies again and again.
    """
    waiting, unfinished = deque(range(len(shares))), len(shares)
    # a holder has no share until it has begun: one that finds no room would keep it for good
    running: dict[Any, tuple[Any, int | None]] = {holder.encode.remote(()): (holder, None) for holder in holders}
    try:
        while unfinished:
            [ready], _ = ray.wait(list(running), num_returns=1)
            holder, share = running.pop(ready)
            try:
                batches = ray.get(ready)
            except Exception as error:
                raise in_words(error) from None
            if waiting:
                following = waiting.popleft()
                running[holder.encode.remote(shares[following])] = holder, following
            else:
                ray.kill(holder)  # others may need its room
            if share is not None:
                unfinished -= 1
                yield share, batches
    finally:
        for holder, _ in running.values():
            ray.kill(holder)
