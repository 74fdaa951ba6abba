"""Scoring all pairs of a page at once, beside a loop over its pairs: the same network, the same
numbers.

The loop is given a tenth of its pairs, and its time is multiplied: it is linear in them.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from traube.models._similarity import SimilarityConfig, make_network

SHARE = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=200)
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(
        f"{arguments.passages} passages, {arguments.dimensions} dimensions, {arguments.threads} threads, best of {arguments.rounds}\n"
    )
    print("| network | all at once, s | a loop, s | ratio | largest difference |")
    print("|---|---:|---:|---:|---:|")
    for name in ("qss", "qs3m", "attention"):
        network = make_network(SimilarityConfig(network=name, query="text", dimensions=arguments.dimensions)).eval()
        vectors = 11 if name == "attention" else 1  # of a passage: its own, and its sentences'
        passages = torch.randn(arguments.passages, vectors * arguments.dimensions)
        query = torch.randn(arguments.dimensions)
        print(_row(name, network, passages, query, arguments.rounds))


def _row(name: str, network: torch.nn.Module, passages: torch.Tensor, query: torch.Tensor, rounds: int) -> str:
    pairs = np.stack(np.divmod(np.arange(len(passages) ** 2), len(passages)), axis=1)[::SHARE]

    def loop() -> torch.Tensor:
        return torch.cat([network(passages[i : i + 1], passages[j : j + 1], query[None]) for i, j in pairs])

    with torch.inference_mode():
        network.page(passages, query)
        page, whole = min((_timed(lambda: network.page(passages, query)) for _ in range(rounds)), key=lambda t: t[0])
        single, some = _timed(loop)
    difference = float((whole[pairs[:, 0], pairs[:, 1]] - some).abs().max())
    return f"| {name} | {page:.3f} | {SHARE * single:.1f} | {SHARE * single / page:.0f} | {difference:.1e} |"


def _timed(call: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    began = time.perf_counter()
    value = call()
    return time.perf_counter() - began, value


if __name__ == "__main__":
    main()
