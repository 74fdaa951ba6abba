"""Texts through an encoder that learns: tokenized once, in batches of similar length."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Rows = NDArray[np.int64]
# Padded tokens that go through the network at once: on a CPU, as many as stay in its caches.
TOKENS = {"cpu": 4_000, "cuda": 131_072, "mps": 16_384}


class Base(Protocol):
    """An encoder to start from, such as `traube.models.Transformer`.

    Attributes
    ----------
    network : object
        The sentence-transformers network; never changed, but copied.
    fingerprint : str
        Content hash that identifies the encoder exactly.
    """

    @property
    def device(self) -> str:
        """Device of the network: "cuda", "mps" or "cpu"."""

    @property
    def fingerprint(self) -> str:
        """Content hash of weights and settings."""

    @property
    def network(self) -> Any:
        """The sentence-transformers network."""


@dataclass(frozen=True)
class InMemory:
    """An encoder whose network is in memory; its files need not be on this machine."""

    name: str
    device: str
    fingerprint: str
    network: Any


def copy_network(base: Base, max_length: int | None, dropout: bool) -> Any:
    """Return a copy of the encoder's network in fp32, to be changed.

    The copy reads at most `max_length` tokens, and has its dropout or none.
    """
    from copy import deepcopy

    from torch import nn

    network = deepcopy(base.network).float()
    if max_length:
        network.max_seq_length = min(max_length, network.max_seq_length or max_length)
    for module in network.modules():
        if isinstance(module, nn.Dropout) and not dropout:
            module.p = 0.0
    return network


class Encoded:
    """Texts and the network that encodes them.

    Parameters
    ----------
    network : object
        Network from `copy_network`.
    bf16 : bool
        Compute in bfloat16 where torch's autocast finds that safe.
    tokens : mapping of str to int
        Padded tokens that go through the network at once, by kind of device.
    """

    def __init__(
        self, network: Any, texts: Sequence[str], bf16: bool = False, tokens: Mapping[str, int] = TOKENS
    ) -> None:
        self.network, self.bf16 = network, bf16
        self._budget = tokens[network.device.type]
        prompt = (network.prompts.get(network.default_prompt_name) or "") if network.default_prompt_name else ""
        # where the prompt's tokens are not pooled, pooling must know how many they are
        self._more = {}
        if prompt and (length := network.preprocess(["x"], prompt=prompt).get("prompt_length")) is not None:
            self._more["prompt_length"] = length
        tokenized = network.tokenizer(
            [prompt + text for text in texts],
            truncation=True,
            max_length=network.max_seq_length,
            return_attention_mask=False,
        )
        self.tokens: list[list[int]] = tokenized["input_ids"]
        self.lengths = np.array([max(1, len(t)) for t in self.tokens], dtype=np.int64)

    def __call__(self, rows: Rows) -> "Tensor":
        """Return vectors of some texts, float32 [n, d], with gradients if these are on."""
        return self.through(self.network, rows).float()

    def through(self, modules: Any, rows: Rows) -> "Tensor":
        """Return the output of the network, or of its first modules, for some texts.

        The output has the precision in which the modules compute.
        """
        import torch
        from torch.nn.utils.rnn import pad_sequence

        device, lengths, blocks = self.network.device, self.lengths[rows], []
        order = np.argsort(-lengths, kind="stable")
        start = 0
        # a caller that trains may compute in bfloat16 already; that setting is kept
        with torch.autocast(device.type, torch.bfloat16) if self.bf16 else nullcontext():
            while start < len(order):
                # the longest text of a batch, its first, says how many fit: padding lifts none above the budget
                size = max(1, self._budget // int(lengths[order[start]]))
                batch = rows[order[start : start + size]]
                start += size
                ids = [torch.tensor(self.tokens[row]) for row in batch]
                mask = pad_sequence([torch.ones_like(i) for i in ids], batch_first=True)
                padded = pad_sequence(ids, batch_first=True, padding_value=self.network.tokenizer.pad_token_id or 0)
                inputs = {"input_ids": padded.to(device), "attention_mask": mask.to(device), **self._more}
                blocks.append(modules(inputs)["sentence_embedding"])
        return torch.cat(blocks)[torch.from_numpy(np.argsort(order)).to(device)]

    def vectors(self) -> "Tensor":
        """Return vectors of all texts without gradients or dropout, float32 [n, d].

        Rows of equal texts are equal.
        """
        import torch

        first: dict[tuple[int, ...], int] = {}
        same = np.array([first.setdefault(tuple(tokens), row) for row, tokens in enumerate(self.tokens)])
        rows, back = np.unique(same, return_inverse=True)

        training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad():
                return self(rows)[torch.from_numpy(back).to(self.network.device)]
        finally:
            self.network.train(training)
