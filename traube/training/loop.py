"""The training loop: transformers' Trainer, with what it lacks."""

import math
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traube.foundation.files import read_json

if TYPE_CHECKING:
    from traube.training.base import _Run

WEIGHTS = "model.safetensors"
STATE = "trainer_state.json"


def last_whole(folder: Path) -> str | None:
    """The newest saved step in a folder. What a kill left half-written is deleted; the Trainer writes its state last."""
    from transformers.trainer_utils import get_last_checkpoint

    while found := get_last_checkpoint(str(folder)):
        if read_json(Path(found) / STATE):
            return found
        shutil.rmtree(found)
    return None


def loop(run: "_Run") -> Any:
    """The Trainer of a run.

    It takes the examples in their order, saves weights that are shared between modules once, stops at a loss that is not finite,
    and evaluates and saves at the same steps.
    """
    from safetensors.torch import load_model, save_model
    from torch.nn import Module
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    recipe = run.recipe

    class Evaluations(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            run.progress.done("steps", 1)
            if state.global_step % run.every == 0 or state.global_step == run.steps:
                run.evaluate(state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            run.began = time.monotonic()  # the curve's seconds are those of training

    class Loop(Trainer):
        def compute_loss(self, model: Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            loss = model(inputs)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise run.diverged(self.state.global_step, f"the loss is {value}")
            run.losses.append(value)
            return loss

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            save_model(self.model, str(folder / WEIGHTS))

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Module | None = None) -> None:
            load_model(model or self.model, str(Path(resume_from_checkpoint) / WEIGHTS))

    arguments = TrainingArguments(
        output_dir=str(run.work),
        max_steps=run.steps,
        per_device_train_batch_size=recipe.batch,
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=math.ceil(recipe.warmup * run.steps),
        weight_decay=recipe.weight_decay,
        save_strategy="steps",
        save_steps=run.every,
        save_total_limit=2,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=recipe.seed,
        bf16=recipe.precision == "bf16",
        use_cpu=run.base.device == "cpu",
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    trainer = Loop(
        model=run.learner,
        args=arguments,
        train_dataset=run.examples,
        data_collator=run.examples.collate,
        callbacks=[Evaluations()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.model_accepts_loss_kwargs = False  # the mean of a step's batches, not of its tokens
    return trainer
