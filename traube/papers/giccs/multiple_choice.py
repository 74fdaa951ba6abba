"""Multiple choice by likelihood: the candidate that a causal language model finds likeliest (GiCCS, section 5.1.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import ascii_uppercase
from typing import Any, ClassVar

import pandas as pd

from traube._core.errors import Malformed
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._pipeline.record import library_versions
from traube._storage import Document, Storage
from traube.models._causal import CausalModel
from traube.papers.giccs.choices import accuracy, credit, right_answers
from traube.papers.giccs.likelihood import Likelihood, likelihoods
from traube.tasks._task import Task

ANSWER = "Antwort:"
QUESTION = "Frage: Wählen Sie die Äußerung, die der letzten Äußerung im Dialog am ähnlichsten ist."


class Choices(Document):
    """The share of right choices of a language model on a task's data."""

    kind: ClassVar[str] = "choices"
    task: str
    model: str
    fingerprint: str
    data_version: str
    library_versions: dict[str, str]
    created: str
    rows: list[dict[str, Any]]  # as `choose` has them


@dataclass(frozen=True)
class Question:
    """A dialogue with its candidates."""

    turns: tuple[str, ...]  # in order; the last one is what candidates are compared with
    options: tuple[str, ...]  # the candidates
    gold: tuple[float, ...]  # their gold scores


def list_questions(task: Task) -> list[Question]:
    """Return the dialogues of a pair task, in its order."""
    texts = task.corpus.set_index("text_id")["text"]
    questions = []
    for dialogue, pairs in task.rows.groupby("dialogue", sort=False):
        if not 2 <= len(pairs) <= len(ascii_uppercase):
            raise Malformed(
                f"task '{task.name}': dialogue '{str(dialogue)[:60]}' has {len(pairs)} candidates to choose from"
            )
        first = pairs.iloc[0]
        turns = [turn for turn in first["history"].split("\n") if turn]
        options, gold = tuple(pairs["text_id_b"].map(texts)), tuple(pairs["score"])
        questions.append(Question((*turns, texts[first["text_id_a"]]), options, gold))
    return questions


def write_prompt(question: Question, context: bool = True) -> str:
    """Return the prompt of the paper's figure 2, with the whole dialogue (`context`) or its last turn alone."""
    turns = question.turns if context else question.turns[-1:]
    lines = [
        "Dialog:",
        *(f"Äußerung {number}: {turn}" for number, turn in enumerate(turns, start=1)),
        QUESTION,
        "Auswahl:",
        *(f"{letter}. {option}" for letter, option in zip(ascii_uppercase, question.options, strict=False)),
        ANSWER,
    ]
    return "\n".join(lines)


def score_options(
    model: CausalModel, question: Question, context: bool = True, alone: Sequence[Likelihood] | None = None
) -> dict[str, list[float]]:
    """Return the score of each option under each way of scoring; larger is better.

    It is the sum of the log probabilities of the option's tokens (as in the paper, which likes short options), or that
    sum per token, per byte, or less the option's likelihood without any dialogue, `alone` (Holtzman et al., 2021).
    """
    options = likelihoods(model, write_prompt(question, context), question.options)
    alone = alone or likelihoods(model, ANSWER, question.options)
    return {
        "sum": [option.log for option in options],
        "per_token": [option.log / option.tokens for option in options],
        "per_byte": [option.log / option.bytes for option in options],
        "pmi": [option.log - without.log for option, without in zip(options, alone, strict=True)],
    }


def choose(task: Task, model: CausalModel, progress: Progress = SILENT) -> pd.DataFrame:
    """Return the accuracy of a model on the dialogues of a pair task, by number of turns, with and without context.

    Returns
    -------
    DataFrame
        Columns n_turns, context, score, accuracy, error, chance and questions. The dialogues whose gold scores tie for the best
        count as right for any of them.
    """
    questions = sorted(list_questions(task), key=lambda question: len(question.turns))
    progress.total("questions", 2 * len(questions))
    answers = []
    for question in questions:
        turns, right = len(question.turns), right_answers(question.gold)
        chance = len(right) / len(question.options)
        alone = likelihoods(model, ANSWER, question.options)
        for context in (True, False):
            for name, scores in score_options(model, question, context, alone).items():
                answers.append((turns, context, name, credit(scores, right), chance))
            progress.done("questions", 1)
    keys = ["n_turns", "context", "score"]
    table = pd.DataFrame(answers, columns=[*keys, "credit", "chance"])
    rows = [(*key, *accuracy(of["credit"], of["chance"]), len(of)) for key, of in table.groupby(keys, sort=False)]
    return pd.DataFrame(rows, columns=[*keys, "accuracy", "error", "chance", "questions"])


def save_choices(storage: Storage, task: Task, model: str, fingerprint: str, accuracies: pd.DataFrame) -> None:
    """Store how often a language model chose right, as `choose` found."""
    choices = Choices(
        key=f"{task.name}/{digest([model])}",
        task=task.name,
        model=model,
        fingerprint=fingerprint,
        data_version=task.data_version,
        library_versions=library_versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=accuracies.astype(object).where(accuracies.notna(), None).to_dict("records"),
    )
    storage.save_document(choices)


def read_choices(storage: Storage, task: Task) -> pd.DataFrame:
    """Return how often language models chose right on a task's present data: model, then the columns of `choose`."""
    of_data = (task.name, task.data_version)
    current = [made for made in storage.read_documents(Choices) if (made.task, made.data_version) == of_data]
    return pd.DataFrame([{"model": made.model, **row} for made in current for row in made.rows])
