"""`precision: auto`: the faster of fp32 and bf16 on this machine, as far as their vectors agree."""

import logging
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from traube._core import paths
from traube._core.disk import read_json
from traube._core.files import write_json
from traube._core.hashing import digest
from traube.models.vectors import Dense

logger = logging.getLogger(__name__)

PARITY = 1e-3  # largest 1 - cosine to fp32 at which `precision: auto` takes bf16
FASTER = 0.8  # largest share of fp32's time at which `precision: auto` takes bf16

Encode = Callable[[Sequence[str]], Dense]


def resolve_precision(name: str, hashes: Sequence[str], device: str, load: Callable[[str], Encode]) -> str:
    """Return what `precision: auto` means on this machine: bf16 if it is faster here and agrees with fp32, else fp32.

    Probed once a machine and model (by the hashes of its files), and kept in TRAUBE_HOME/precision.json: the precision is
    part of the fingerprint. `load` gives the model's `encode` in a precision.
    """
    path = paths.home() / "precision.json"
    known = read_json(path)  # a corrupt file is measured again
    key = digest([hashes, device, _hardware(device)])
    if key not in known:
        known[key] = _probe(name, load)
        write_json(path, known)
    return str(known[key])


def _hardware(device: str) -> str:
    """Return the name of the hardware that computes. torch is imported for a GPU alone, which takes a second."""
    if device == "cuda":
        import torch

        return str(torch.cuda.get_device_name())
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    # the processor's features, the same for each core; some processors have no name
    return digest(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _probe(name: str, load: Callable[[str], Encode]) -> str:
    texts = [f"{'clustering of short texts ' * (i % 8 + 1)}{i}" for i in range(64)]
    vectors, seconds = {}, {}
    for precision in ("fp32", "bf16"):
        encode = load(precision)
        encode(texts[:8])
        began = time.perf_counter()
        vectors[precision] = encode(texts)
        seconds[precision] = time.perf_counter() - began
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors.values())
    deviation = float(1 - (a * b).sum(axis=1).min())
    share = seconds["bf16"] / seconds["fp32"]
    logger.info("%s: bf16 takes %.2f of fp32's time and deviates by %.1e", name, share, deviation)
    return "bf16" if share < FASTER and deviation <= PARITY else "fp32"
