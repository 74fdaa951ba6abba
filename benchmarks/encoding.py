"""Encoding on one core: tokens a CPU second of Traube in fp32 and bf16 beside sentence-transformers' default, and beside
what the processor's matrix products alone would take (attention and all else left out).

The rows take turns, several rounds of them, in one process at one thread; texts are those of two tasks, of short and of long
ones. Then the same k-means, with the same seeds, on both precisions' vectors of whole tasks: how far V-measures differ. Ends
with status 1 if V differs by more than .003 on average, or where the processor has bf16 instructions and `precision: auto` is
less than 3 times as fast as sentence-transformers (1.2 times where it has not).
"""

import argparse
import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import v_measure_score

from traube import load_model, load_task
from traube.components import VectorView
from traube.components.fitting import fit_clusterer
from traube.models.transformer import Transformer

AGREEMENT = 0.003  # of mean V-measures
TARGETS = {True: 3.0, False: 1.2}  # by whether the processor has bf16 instructions
SEEDS = (42, 1, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--short", default="pydocs_s2s", help="a task of short texts")
    parser.add_argument("--long", default="pydocs_p2p", help="a task of long texts")
    parser.add_argument("--tokens", type=int, default=20_000, help="how many are encoded a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--agree", nargs="*", default=["pydocs_s2s"], help="tasks on which V-measures are compared")
    arguments = parser.parse_args()
    models: dict[str, Any] = {name: load_model(arguments.model, precision=name) for name in ("fp32", "bf16", "auto")}
    print(f"auto is {models['auto'].precision} here; bf16 instructions: {'yes' if has_bf16() else 'no'}\n")
    slow = speeds(arguments, models)
    differ = agreement(arguments.agree, models)
    return int(slow or differ)


def has_bf16() -> bool:
    """Return whether the processor computes in bf16, as Linux says."""
    flags = Path("/proc/cpuinfo")
    return flags.exists() and any(name in flags.read_text() for name in ("avx512_bf16", "amx_bf16", " bf16"))


def speeds(arguments: Any, models: dict[str, Transformer]) -> bool:
    """Print tokens a second; whether `auto` is too slow."""
    import torch

    torch.set_num_threads(1)
    sides: dict[str, Callable[[Sequence[str]], Any]] = {
        "sentence-transformers": lambda texts: models["fp32"].network.encode(list(texts), show_progress_bar=False),
        **{f"Traube, {name}": models[name].encode for name in ("fp32", "bf16")},
    }
    chosen = f"Traube, {models['auto'].precision}"
    floors = {
        name: peak(dtype) / work(models["fp32"]) for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }
    print(
        "| texts | | tokens a CPU s | times sentence-transformers | of what the matrix products take |\n|---|---|---|---|---|"
    )
    missed = False
    for kind in ("short", "long"):
        texts, tokens = sample(getattr(arguments, kind), models["fp32"], arguments.tokens)
        found: dict[str, list[float]] = {side: [] for side in sides}
        for encode in sides.values():
            encode(texts[:8])
        for _ in range(arguments.rounds):
            for side, encode in sides.items():
                began = time.process_time()
                encode(texts)
                found[side].append(tokens / (time.process_time() - began))
        plain = found["sentence-transformers"]
        for side, rates in found.items():
            ratios = [a / b for a, b in zip(rates, plain, strict=True)]
            floor = floors["bf16" if side.endswith("bf16") else "fp32"]
            print(
                f"| {kind}, {len(texts)} texts of {tokens / len(texts):.0f} tokens | {side} | {median(rates):,.0f} | "
                f"{median(ratios):.2f}x [{min(ratios):.2f} to {max(ratios):.2f}] | {median(rates) / floor:.0%} |",
                flush=True,
            )
            missed |= side == chosen and median(ratios) < TARGETS[has_bf16()]
    return missed


def sample(task: str, model: Transformer, tokens: int) -> tuple[list[str], int]:
    """Random texts of a task that come to about that many tokens, and how many these are."""
    texts = load_task(task).texts
    order = np.random.default_rng(0).permutation(len(texts))[:5000]
    found = model.network.tokenizer([texts[i] for i in order], truncation=True)["input_ids"]
    lengths = np.array([len(ids) for ids in found])
    enough = int(np.searchsorted(np.cumsum(lengths), tokens)) + 1
    return [texts[i] for i in order[:enough]], int(lengths[:enough].sum())


def work(model: Transformer) -> int:
    """Floating-point operations that the matrix products of the layers take for a token."""
    from torch.nn import Linear

    return sum(2 * part.weight.numel() for part in model.network.modules() if isinstance(part, Linear))


def peak(dtype: Any, rows: int = 1024, size: int = 1024) -> float:
    """Floating-point operations a second of a large matrix product, the best of many."""
    import torch

    a, b = (torch.randn(shape).to(dtype) for shape in ((rows, size), (size, size)))
    seconds = []
    for _ in range(50):
        began = time.process_time()
        a @ b
        seconds.append(time.process_time() - began)
    return 2 * rows * size * size / min(seconds)


def agreement(tasks: Sequence[str], models: dict[str, Transformer]) -> bool:
    """Print V-measures of both precisions; whether they differ by too much."""
    print("\n| task | splits | V, fp32 | V, bf16 | difference of means | largest of a split | largest 1 - cosine |")
    print("|---|---|---|---|---|---|---|")
    differs = False
    for name in tasks:
        task = load_task(name)
        splits = list(task.test_splits())
        rows = np.unique(np.concatenate([split.rows for split in splits]))
        texts = task.texts_at(rows)
        vectors = {kind: models[kind].encode(texts) for kind in ("fp32", "bf16")}
        values = {
            kind: np.array(
                [
                    np.mean([scored(encoded[np.searchsorted(rows, split.rows)], split.labels, seed) for seed in SEEDS])
                    for split in splits
                ]
            )
            for kind, encoded in vectors.items()
        }
        apart = values["bf16"] - values["fp32"]
        one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors.values())
        print(
            f"| {name} | {len(splits)} | {values['fp32'].mean():.4f} | {values['bf16'].mean():.4f} | {apart.mean():+.4f} | "
            f"{np.abs(apart).max():.4f} | {1 - (one * other).sum(axis=1).min():.1e} |",
            flush=True,
        )
        differs |= bool(abs(apart.mean()) > AGREEMENT)
    return differs


def scored(vectors: Any, labels: Any, seed: int) -> float:
    found = fit_clusterer("kmeans", {"n_init": 10}, VectorView(vectors), len(set(labels)), seed)
    return float(v_measure_score(labels, found.labels))


if __name__ == "__main__":
    raise SystemExit(main())
