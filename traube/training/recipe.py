"""Recipes: how to train. What only one trainer knows stands in a recipe of its own, beside that
trainer.
"""

from typing import Literal

from pydantic import ConfigDict, Field

from traube.foundation.config import Strict


class Recipe(Strict):
    """How to train. Each trainer has the paper's values as its defaults."""

    model_config = ConfigDict(allow_inf_nan=False)

    epochs: float = Field(ge=0, le=10_000, description="passes over the examples")
    batch: int = Field(ge=1, le=100_000, description="examples at once")
    accumulate: int = Field(1, ge=1, le=100_000, description="batches whose gradients make one step")
    learning_rate: float = Field(gt=0)
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0, le=10)
    max_length: int | None = Field(
        None, ge=8, le=1_000_000, description="tokens of a text; by default the model's own limit"
    )
    dropout: bool = Field(True, description="whether the encoder's dropout is on; off, a step is much cheaper on CPU")
    evaluate_every: int = Field(0, ge=0, le=10**9, description="steps between evaluations; 0 for once an epoch")
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = Field(42, ge=0, lt=2**32)
