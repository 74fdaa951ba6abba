"""Dialogues with candidates: the rows are pairs, and the type of the task is another."""

from pathlib import Path
from typing import ClassVar

import pandas as pd

from traube.tasks.scored_pairs import PairCard, PairSource, make_splits
from traube.tasks.task import Stage, TaskType

CHOICES = TaskType("choices", "pairs", (Stage.EMBEDDINGS, Stage.SCORES), make_splits)


class ChoiceCard(PairCard):
    type: ClassVar[TaskType] = CHOICES


class Choices(PairSource):
    """Three dialogues: bag of words is right in the first two."""

    def files(self) -> list[Path]:
        return []

    def read(self) -> pd.DataFrame:
        rows = [
            ("red moon", "red sun", 0.9, "sky"),
            ("red moon", "old bread", 0.1, "sky"),
            ("a small boat", "a small ship", 0.8, "sea"),
            ("a small boat", "the bread", 0.2, "sea"),
            ("hello there", "hello bread", 0.0, "talk"),
            ("hello there", "good morning", 1.0, "talk"),
        ]
        return pd.DataFrame(rows, columns=["text_a", "text_b", "score", "dialogue"])


def sources() -> list[Choices]:
    return [Choices(ChoiceCard(name="choices", scale=(0, 1)))]
