"""A training step of Traube beside that of the plain libraries: CPU time a step, and peak memory.

WWM beside transformers' Trainer with its own masked-language model and collator (of tokens: cheaper than of words), TSDAE beside
a bare torch loop around sentence-transformers' loss. Same base model, texts, batch and optimizer; each side in a process of its
own, in turn. Ends with status 1 if a step takes more than 1.05 of the plain one's time or memory.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from traube._core.progress import Progress
from traube.models import load_model
from traube.tasks import load_task
from traube.training import TRAINERS

LIMIT = 1.05
WARM = 3  # steps before the clock counts
Times = list[float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="blurbs_s2s")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    worst = 0.0
    print("| trainer | | CPU s a step | peak memory, GiB |\n|---|---|---|---|")
    for trainer, plain in (("wwm", plain_wwm), ("tsdae", plain_tsdae)):
        sides: dict[str, Callable[..., Times]] = {"Traube": ours, "plain": plain}
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for _ in range(arguments.rounds):
            for side, run in sides.items():
                found[side].append(measured(run, trainer, arguments.task, arguments.model, arguments.steps))
        for side, rounds in found.items():
            print(f"| {trainer} | {side} | {median(r[0] for r in rounds):.3f} | {median(r[1] for r in rounds):.2f} |")
        ratios = [[a[i] / b[i] for a, b in zip(found["Traube"], found["plain"], strict=True)] for i in (0, 1)]
        middle = [median(r) for r in ratios]
        spans = [f"{median(r):.2f}x [{min(r):.2f} to {max(r):.2f}]" for r in ratios]
        print(f"| {trainer} | Traube : plain | {spans[0]} | {spans[1]} |", flush=True)
        worst = max(worst, *middle)
    return int(worst > LIMIT)


def measured(run: Callable[..., Times], *arguments: Any) -> tuple[float, float]:
    """CPU seconds a step (median) and peak GiB of a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (run, arguments))


def _measured(run: Callable[..., Times], arguments: tuple[Any, ...]) -> tuple[float, float]:
    multiprocessing.current_process()._config["daemon"] = False  # the evaluation on the way has workers of its own
    times = run(*arguments)[WARM:]
    step = median(later - earlier for earlier, later in pairwise(times))
    return step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def ours(trainer: str, task: str, model: str, steps: int) -> Times:
    kind = TRAINERS[trainer]
    source, base, times = load_task(task), load_model(model), Times()
    size = kind.defaults.batch * kind.defaults.accumulate
    recipe = kind.with_values(epochs=steps * size / len(source.texts), evaluate_every=10**6)
    progress = Progress(done=lambda stage, amount: times.append(time.process_time()) if stage == "steps" else None)
    with TemporaryDirectory() as folder:
        recipe.fit(source, base, Path(folder), progress=progress)
    return times


def plain_wwm(trainer: str, task: str, model: str, steps: int) -> Times:
    from transformers import (
        AutoModelForMaskedLM,
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    folder, recipe, times = load_model(model).folder, TRAINERS[trainer].defaults, Times()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(load_task(task).texts, truncation=True, max_length=256)["input_ids"]

    class Clock(TrainerCallback):
        def on_step_end(self, *arguments: Any, **more: Any) -> None:
            times.append(time.process_time())

    with TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            max_steps=steps,
            per_device_train_batch_size=recipe.batch,
            gradient_accumulation_steps=recipe.accumulate,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        Trainer(
            model=AutoModelForMaskedLM.from_pretrained(folder),
            args=arguments,
            train_dataset=[{"input_ids": ids} for ids in encoded],
            data_collator=DataCollatorForLanguageModeling(tokenizer),
            callbacks=[Clock()],
        ).train()
    return times


def plain_tsdae(trainer: str, task: str, model: str, steps: int) -> Times:
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss

    from traube.papers.german.trainers.tsdae import damage

    recipe, rng, times = TRAINERS[trainer].defaults, np.random.default_rng(42), Times()
    network = SentenceTransformer(str(load_model(model).folder), device="cpu")
    loss = DenoisingAutoEncoderLoss(network, tie_encoder_decoder=True).train()
    optimizer = torch.optim.AdamW(loss.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    texts = torch.utils.data.DataLoader(load_task(task).texts, batch_size=recipe.batch, shuffle=True)
    for _, batch in zip(range(steps), texts, strict=False):
        sides = [[damage(text, rng) for text in batch], batch]
        loss([network.preprocess(side) for side in sides], None).backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.process_time())
    return times


if __name__ == "__main__":
    sys.exit(main())
