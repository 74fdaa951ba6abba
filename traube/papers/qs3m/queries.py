"""Vectors of `query: text`: no rows of a corpus, since another split may show the same text for another query."""

from collections.abc import Sequence

import numpy as np

from traube._core.errors import Missing
from traube._core.progress import SILENT, Progress
from traube._pipeline.workbench import Workbench
from traube.models import Model, Vectors
from traube.tasks.task import Split, Task

SEPARATOR = ": "


def embed_with_query(
    bench: Workbench, task: Task, splits: Sequence[Split], model: Model, progress: Progress = SILENT
) -> list[Vectors]:
    """Return the vectors of each split's texts with its query in front.

    For each split they are Vectors [n, d], a row for each item of the split. Texts that the model has encoded before
    are not encoded again.
    """
    texts, together = task.texts, []
    for split in splits:
        if split.query is None:
            raise Missing(f"split '{split.split}' ({split.level}): has no query to put in front of its texts")
        together.append([f"{texts[split.query]}{SEPARATOR}{texts[row]}" for row in split.rows])
    different = list(dict.fromkeys(text for of_split in together for text in of_split))
    vectors = bench.vectors_of_texts(different, model, progress)
    row = {text: i for i, text in enumerate(different)}
    return [vectors.subset(np.array([row[text] for text in of_split], dtype=np.int64)) for of_split in together]
