"""A faultless task about fruit, and what checks found of it by name."""

from typing import Any

import pandas as pd

from traube._core.frames import TEXT
from traube._pipeline.validation.findings import Finding
from traube._pipeline.validation.validate import validate_table
from traube.tasks.task import SPLIT_COLUMNS, TaskCard, text_id

CARD = TaskCard(name="fruit")
SCRIPT = "<script>alert(1)</script>"
Findings = dict[str, Finding]


def corpus_of(texts: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"text_id": [text_id(str(t)) for t in texts], "text": pd.array(texts, dtype=TEXT)})


def fruit() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A corpus and two faultless splits of six texts in two classes, with a text for training."""
    corpus = corpus_of([f"Ein Text über Äpfel und Birnen, Nummer {i}" for i in range(13)])
    rows = [
        ("default", f"set_{i // 6}", "fine", i % 6, corpus["text_id"][i], "ab"[i % 2], None, "test") for i in range(12)
    ]
    rows.append(("default", "set_0", "fine", 6, corpus["text_id"][12], "a", None, "train"))
    return corpus, pd.DataFrame(rows, columns=list(SPLIT_COLUMNS))


def check_corpus(corpus: pd.DataFrame, card: TaskCard = CARD) -> Findings:
    return {finding.check.name: finding for finding in validate_table(card, "corpus", corpus, corpus).findings}


def check_splits(splits: pd.DataFrame, card: TaskCard = CARD) -> Findings:
    return {finding.check.name: finding for finding in validate_table(card, "splits", splits, fruit()[0]).findings}


def examples(finding: Finding) -> pd.DataFrame:
    """The offending rows that are shown."""
    return pd.DataFrame(finding.shown, columns=finding.header)


def failed(findings: Findings) -> set[str]:
    return {name for name, finding in findings.items() if not finding.passed}
