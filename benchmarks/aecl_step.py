"""The CPU seconds of an AECL step at batch 400, beside the encoder's forward and backward pass, and
beside a literal implementation: every text padded to 32 tokens, one view after the other, the losses by
plain exponentials as in the paper's code, Adam's loop over tensors.

`python benchmarks/aecl_step.py [steps] [task...]`, with TRAUBE_RAW at the raw data.
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch.nn import functional

from traube import load_model, load_task
from traube.components._deep.augmentation import swap_or_delete
from traube.models import Model
from traube.papers.aecl.aecl import Aecl, AeclFit

BATCH, CLASSES = 400, 89


def seconds(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times + 1):  # the first one warms up
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return median(taken[1:])


def soft(a: torch.Tensor, b: torch.Tensor, t: float, weights: torch.Tensor | None = None) -> torch.Tensor:
    n = len(a)
    both = torch.cat([a, b])
    e = torch.exp(both @ both.T / t)
    eye = torch.eye(n, dtype=torch.bool).repeat(2, 2)
    below = e.masked_fill(eye, 0).sum(dim=1)
    if weights is None:
        return torch.cat([e.diagonal(n), e.diagonal(-n)]) / below
    return (e * weights).sum(dim=1) / below


def literal_loss(fit: AeclFit, v: torch.Tensor) -> torch.Tensor:
    recipe = fit.recipe
    z, h, logits, s = fit.heads(v)
    y = logits[0].argmax(dim=1)
    same = (y[:, None] == y[None, :]).float().repeat(2, 2)
    own = soft(z[0], z[1], 0.5)
    contrast = 0.0
    for view in (0, 1):
        tiled = s[view].repeat(2, 2)
        tiled = tiled * (1 - torch.eye(len(tiled))) + 1e-5
        contrast = contrast - torch.log(soft(z[view], h[view], 0.5, tiled * same) + own).mean() / 2
    p = logits.softmax(dim=-1)
    columns = [functional.normalize(view.T, dim=1) for view in p]
    cosines = torch.cat(columns) @ torch.cat(columns).T / recipe.cluster_temperature
    k = p.shape[-1]
    cosines = cosines.masked_fill(torch.eye(2 * k, dtype=torch.bool), -1e9)
    clusters = functional.cross_entropy(cosines, torch.arange(2 * k).roll(k))
    rows = -(p[0] * torch.log(p[0])).sum(dim=1).mean()
    means = [view.mean(dim=0) for view in p]
    spread = sum(np.log(k) + (q * torch.log(q)).sum() for q in means)
    sure, said = p[0].max(dim=1)
    labels = ((sure >= 0.95) * functional.cross_entropy(logits[1], said, reduction="none")).mean()
    return clusters + 10 * contrast + 5 * labels - 0.01 * rows + 0.18 * spread


def measure(name: str, base: Model, bf16: bool, steps: int) -> None:
    texts = load_task(name).texts[: 4 * BATCH]
    views = (texts, swap_or_delete(texts, 0))
    recipe = Aecl.with_values(stage_1=0, stage_2=0, bf16=bf16, balance="slight").recipe
    torch.manual_seed(0)
    fit = AeclFit(recipe, views, CLASSES, base, 0)
    fit.begin_epoch(0)
    fit.modules.train()
    rows = np.arange(BATCH)
    plain = torch.optim.Adam(fit.modules.parameters(), lr=5e-6, foreach=False, fused=False)

    def step() -> None:
        fit.optimizer.zero_grad(set_to_none=True)
        fit.step(0, rows).loss.backward()
        fit.optimizer.step()

    def encoder_alone() -> None:
        v = fit.encoded(rows)
        v.backward(torch.ones_like(v))

    def rest_alone() -> None:  # with the encoder's gradients of the step before
        fixed = torch.zeros(2, BATCH, fit.first.shape[1], requires_grad=True)
        encoded, fit.encoded = fit.encoded, lambda rows: fixed + fit.first[: 2 * BATCH].reshape(fixed.shape)
        fit.step(0, rows).loss.backward()
        fit.optimizer.step()
        fit.encoded = encoded

    def literal() -> None:
        plain.zero_grad()
        encoded = []
        for view in views:
            features = fit.network.tokenizer(
                view[:BATCH], padding="max_length", truncation=True, max_length=32, return_tensors="pt"
            )
            encoded.append(fit.network(dict(features))["sentence_embedding"])
        literal_loss(fit, torch.stack(encoded) * fit.memory["scale"]).backward()
        plain.step()

    whole, encoder, rest = seconds(step, steps), seconds(encoder_alone, steps), seconds(rest_alone, 5 * steps)
    kind = "bf16" if bf16 else "fp32"
    print(
        f"{name:15} {kind}  step {whole:.2f} s  encoder {encoder:.2f} s  rest {rest:.2f} s, {100 * rest / whole:.1f} %",
        flush=True,
    )
    if not bf16:
        slow = seconds(literal, steps)
        print(f"{name:15} literal {slow:.2f} s a step: {slow / whole:.2f} times as long", flush=True)


def main(steps: int, tasks: list[str]) -> None:
    base = load_model("minilm_32", precision="fp32")
    for name in tasks:
        for bf16 in (False, True):
            measure(name, base, bf16, steps)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or ["tweet", "searchsnippets"])
