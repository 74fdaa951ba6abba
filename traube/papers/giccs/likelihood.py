"""Likelihoods of continuations of a prompt under a causal language model.

Likelihoods are of the tokens that the continuations add to the prompt. All continuations are scored as one batch, and
what they have in common is computed once (but for models that keep no keys and values, such as Mamba).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from traube._core.errors import Failed, Invalid, TooLarge
from traube.models.causal import CausalModel
from traube.models.vetting import library_errors


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a continuation under a causal model."""

    log: float  # sum of the natural logarithms of its tokens' probabilities
    tokens: int  # how many there are
    bytes: int  # length in UTF-8, with the blank before it


def likelihoods(model: CausalModel, prompt: str, continuations: Sequence[str]) -> list[Likelihood]:
    """Return the likelihood of each continuation, which a blank joins to the prompt."""
    with library_errors(f"model '{model.name}': fails on a prompt"):
        return _likelihoods(model, prompt.rstrip(), continuations)  # the continuation brings its own blank


def _likelihoods(model: CausalModel, prompt: str, continuations: Sequence[str]) -> list[Likelihood]:
    begin = max(len(model.tokenize(prompt)), 1)  # the first token has nothing before it
    sequences = []
    for text in continuations:
        whole = model.tokenize(f"{prompt} {text}" if prompt else text)
        if not text.strip() or len(whole) <= begin:
            raise Invalid(f"model '{model.name}': '{text[:40]}' adds no token to the prompt")
        if len(whole) > model.longest:
            fault = f"prompt and answer are {len(whole)} tokens, and it takes {model.longest} at most"
            raise TooLarge(f"model '{model.name}': {fault}")
        sequences.append(whole)

    # first tokens that all have in common; fewer than the prompt's where the tokenizer joins it and a continuation
    shared = 0
    while shared < begin and len({sequence[shared] for sequence in sequences}) == 1:
        shared += 1
    logs = _sum_after_shared(model, sequences, begin, shared)
    return [
        Likelihood(log, len(sequence) - begin, len(f" {text}".encode()))
        for log, sequence, text in zip(logs, sequences, continuations, strict=True)
    ]


def _sum_after_shared(model: CausalModel, sequences: list[list[int]], begin: int, shared: int) -> list[float]:
    """Return sums of log probabilities.

    The first `shared` tokens go through the model once, if it keeps their states.
    """
    import torch

    network = model.model
    with torch.inference_mode():
        prefix = network(model.pad([sequences[0][: max(shared, 1)]]), use_cache=True)
        # transformers 5.24 has renamed what keeps the states
        renamed = "cache" in signature(network.forward).parameters
        kept_as = "cache" if renamed else "past_key_values"
        cache: Any = getattr(prefix, kept_as, None)
        layers = getattr(cache, "layers", [])  # none, or with a state of another kind, where no keys are kept
        if not shared or not layers or not all(hasattr(layer, "batch_repeat_interleave") for layer in layers):
            shared, logits = 1, network(model.pad(sequences), use_cache=False).logits[:, :-1]
        else:
            rests = [sequence[shared:] for sequence in sequences]
            width = max(map(len, rests))
            cache.batch_repeat_interleave(len(rests))
            output = network(
                model.pad(rests),
                attention_mask=model.pad([[1] * (shared + len(rest)) for rest in rests]),
                position_ids=torch.arange(shared, shared + width, device=network.device).expand(len(rests), -1),
                use_cache=True,
                **{kept_as: cache},
            )
            first = prefix.logits[:, -1:].expand(len(sequences), -1, -1)
            logits = torch.cat([first, output.logits[:, :-1]], 1)
        tokens = model.pad([sequence[shared:] for sequence in sequences])
        logs = torch.log_softmax(logits.double(), dim=-1).gather(2, tokens[:, :, None])[:, :, 0]
    sums = [float(logs[i, begin - shared : len(sequence) - shared].sum()) for i, sequence in enumerate(sequences)]
    if any(value != value for value in sums):
        raise Failed(f"model '{model.name}': a likelihood is NaN: the weights are broken")
    return sums
