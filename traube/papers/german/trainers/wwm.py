"""Whole-word masking (Wehrli et al. 2023, section 3.3).

Words are chosen in random order until 15 % of the tokens are chosen; of these 80 % become [MASK], 10 % another token,
10 % stay. (transformers 5 masks a word with the probability of its first token, perhaps none of a short text, and
always by [MASK].)
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube._core.errors import Failed
from traube._core.progress import Progress
from traube.models.language import load_language_model
from traube.models.transformer import get_prompt
from traube.tasks.task import Task
from traube.training.loop import Examples, TrainingRecipe
from traube.training.trainer import Trainer

SHARE = 0.15
MOST = 512  # tokens chosen of a text
MASKED, REPLACED = 0.8, 0.1
ASIDE = 2**20  # epochs of examples that the training proper never comes to
IGNORED = -100  # target that torch's cross entropy leaves out


class WwmRecipe(TrainingRecipe):
    """Recipe of a training by whole-word masking.

    The paper's models bring a head that predicts words. Where a base model brings none, a new one begins at random, and
    what it asks of the encoder in the first steps spoils it: let it learn alone first.
    """

    head_epochs: float = Field(0.0, ge=0, description="epochs in which the head learns alone, before the first step")
    head_learning_rate: float = Field(
        1e-3, gt=0, description="in these epochs; it falls linearly to 0 in their second half"
    )


class Wwm(Trainer[WwmRecipe]):
    """Whole-word masking.

    Where the base model brings no head for masked words, a new one is trained along with it.
    """

    name = "wwm"
    learns_from = "texts"
    section = "Wehrli et al. 2023, 3.3 and Table 5"
    defaults = WwmRecipe(
        epochs=10,
        batch=32,
        accumulate=8,
        learning_rate=1e-4,
        schedule="constant_with_warmup",
        warmup=0.06,
        weight_decay=0.01,
        evaluate_every=25,
    )

    @override
    def make_examples(self, network: Any, task: Task, texts: Sequence[str]) -> "MaskedTexts":
        return MaskedTexts(network.tokenizer, texts, network.max_seq_length, self.recipe.seed, get_prompt(network))

    @override
    def make_learner(self, network: Any, examples: "MaskedTexts") -> Any:
        import torch
        from torch import nn

        body, seed = network[0].auto_model, self.recipe.seed

        class Masked(nn.Module):
            """The network's encoder with a head that predicts words."""

            def __init__(self) -> None:
                super().__init__()
                torch.manual_seed(seed)  # of a new head's first weights
                _, model = load_language_model(Path(body.config.name_or_path), "new")
                self.model = model.to(body.device)
                setattr(self.model, self.model.base_model_prefix, body)
                self.model.tie_weights()

            @property
            def encoder(self) -> nn.Module:
                return body

            def forward(self, batch: dict[str, torch.Tensor], frozen: bool = False) -> torch.Tensor:
                head = getattr(self.model, "cls", None) or getattr(self.model, "lm_head", None)
                if head is None:
                    return self.model(**batch).loss
                # the same loss at a fraction of the work: the vocabulary is large, and only masked tokens are predicted
                is_masked = batch["labels"] != IGNORED
                with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
                    encoded = body(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
                predicted = head(encoded.last_hidden_state[is_masked])
                return nn.functional.cross_entropy(predicted, batch["labels"][is_masked])

        return Masked()

    def prepare(self, learner: Any, examples: "MaskedTexts", progress: Progress) -> None:
        """Train the head alone, without the encoder and the weights that the head shares with it."""
        import torch

        batch = self.recipe.batch
        steps = round(self.recipe.head_epochs * examples.n / batch)
        if not steps:
            return
        progress.total("head steps", steps)
        shared = {id(p) for p in learner.encoder.parameters()}
        head_parameters = [p for p in learner.parameters() if id(p) not in shared]
        learned_later = [p for p in learner.encoder.parameters() if p.requires_grad]
        for parameter in learned_later:
            parameter.requires_grad_(False)  # or the gradient of all words would be computed, and never used
        optimizer = torch.optim.AdamW(head_parameters, lr=self.recipe.head_learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 2 * (1 - step / steps)))
        for step in range(steps):
            first = ASIDE * examples.n + step * batch
            inputs = examples.collate([examples[i] for i in range(first, first + batch)])
            loss = learner({name: tensor.to(head_parameters[0].device) for name, tensor in inputs.items()}, frozen=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            value = float(loss.detach())
            if not math.isfinite(value):
                raise Failed(f"the head's loss is {value} after step {step}; head_learning_rate is too high")
            progress.done("head steps", 1)
        for parameter in learned_later:
            parameter.requires_grad_(True)


class MaskedTexts(Examples):
    """Texts with words masked, by a fast tokenizer, which knows the word of each token.

    The prompt in front of a text is never masked, because there is nothing to learn from it.
    """

    def __init__(self, tokenizer: Any, texts: Sequence[str], max_length: int, seed: int, prompt: str = "") -> None:
        super().__init__(len(texts), seed)
        self.tokenizer = tokenizer
        encoded = tokenizer(
            [prompt + text for text in texts], truncation=True, max_length=max_length, return_offsets_mapping=True
        )
        self.tokens = [np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]]
        self.words = []
        for i, offsets in enumerate(encoded["offset_mapping"]):
            words = np.array([-1 if word is None else word for word in encoded.word_ids(i)], dtype=np.int32)
            words[[end <= len(prompt) for _, end in offsets]] = -1
            self.words.append(words)
        self.ordinary = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)

    def make(self, example: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return tokens with some masked, and the original tokens at the masked positions; IGNORED elsewhere."""
        tokens = self.tokens[example].copy()
        chosen = choose(self.words[example], rng)
        labels = np.full(len(tokens), IGNORED, dtype=np.int64)
        labels[chosen] = tokens[chosen]
        fate = rng.random(len(chosen))
        tokens[chosen[fate < MASKED]] = self.tokenizer.mask_token_id
        replaced = chosen[(fate >= MASKED) & (fate < MASKED + REPLACED)]
        tokens[replaced] = rng.choice(self.ordinary, len(replaced))
        return tokens, labels

    def collate(self, made: list[tuple[NDArray[np.int32], NDArray[np.int64]]]) -> dict[str, Any]:
        """Return padded tensors int64 [b, t]: input_ids, attention_mask, labels."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def pad(rows: list[Any], value: int) -> torch.Tensor:
            tensors = [torch.as_tensor(row, dtype=torch.int64) for row in rows]
            return pad_sequence(tensors, batch_first=True, padding_value=value)

        return {
            "input_ids": pad([tokens for tokens, _ in made], self.tokenizer.pad_token_id),
            "attention_mask": pad([np.ones(len(tokens)) for tokens, _ in made], 0),
            "labels": pad([labels for _, labels in made], IGNORED),
        }


def choose(words: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the positions of the tokens to predict, int64 [m], ascending.

    Whole words are taken in random order, as long as they fit 15 % of the tokens; at least one word, if there is one.
    `words`, int32 [t], are those of the tokens; -1 for special ones.
    """
    names, sizes = np.unique(words[words >= 0], return_counts=True)
    if not len(names):
        return np.empty(0, dtype=np.int64)
    target = min(MOST, max(1, round(SHARE * int(sizes.sum()))))
    order = np.argsort(rng.random(len(names)), kind="stable")
    taken, count = list[int](), 0
    for i in order:
        if count + sizes[i] <= target:
            taken.append(i)
            count += sizes[i]
    taken = taken or [order[0]]  # every word is longer than the target
    return np.flatnonzero(np.isin(words, names[taken]))


TRAINER = Wwm
