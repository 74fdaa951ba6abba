"""Both judges of the rules, Great Expectations and pandas, find the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.pipeline.validation.fruit import CARD, corpus_of, fruit
from traube._pipeline.validation import validate
from traube._pipeline.validation.rules import CHECKS
from traube._pipeline.validation.validate import Validation, validate_table
from traube.tasks._scored_pairs import PairCard, make_pairs
from traube.tasks._task import Declared, TaskCard

DECLARED = TaskCard(
    name="fruit", declared=Declared(splits=2, rows=(6, 6), classes=(2, 2)), blocking=("texts_once", "no_mojibake")
)
TEXTS = ("gut und schön", None, "", " \u00a0\n\t", "ab ", "schÃ¶n und gut", "x" * 100_001, "gut und schön")


def by_pandas(monkeypatch: pytest.MonkeyPatch, *args: Any) -> Validation:
    """Return the findings of a check where Great Expectations is not installed."""
    check, *of = args
    with monkeypatch.context() as patch:
        patch.setattr(validate, "find_spec", lambda name: None)
        return check(*of)


def corrupted(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A table in which a few cells were emptied, filled with rubbish, or copied from elsewhere."""
    made = table.astype(object)
    for _ in range(rng.integers(1, 6)):
        row, column = rng.integers(len(made)), rng.integers(made.shape[1])
        made.iat[row, column] = [None, made.iat[rng.integers(len(made)), column], ""][rng.integers(3)]
    return made.convert_dtypes() if rng.integers(2) else made.infer_objects()


@pytest.mark.parametrize("card", [CARD, DECLARED])
def test_of_corpora(docs: Path, card: TaskCard, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, failed = fruit()[0], set()
    same_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3, corpus["text_id"][0]))
    no_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3))
    for table in (corpus, corpus.head(0), corpus_of(list(TEXTS)), same_id, no_id):
        found = validate_table(card, "corpus", table, table, docs).findings
        other = by_pandas(monkeypatch, validate_table, card, "corpus", table, table, docs)
        assert other.findings == found
        assert other.page is None
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["corpus"]}  # each was seen to fail, and above to pass


def test_of_splits(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, splits = fruit()
    rng, failed = np.random.default_rng(0), set()
    tables = [splits, splits.head(0), splits.assign(label=None), splits.assign(part="train"), splits.assign(label="a")]
    one_text = [
        splits.assign(text_id=splits["text_id"].where(splits.index != i, splits["text_id"][0])) for i in (2, 7, 12)
    ]
    for table in [*tables, *one_text, *(corrupted(splits, rng) for _ in range(10))]:
        found = validate_table(DECLARED, "splits", table, corpus, docs).findings
        assert by_pandas(monkeypatch, validate_table, DECLARED, "splits", table, corpus, docs).findings == found
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["splits"]}


def test_of_pairs(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("a b", "a c", 3, "test"),
        ("d e", "d f", 1, "test"),
        ("g h", "g i", 5, "train"),
        ("j k", "j l", 2, "train"),
    ]
    card = PairCard(name="pairs", scale=(0.0, 5.0))
    task = make_pairs(card, pd.DataFrame(rows, columns=["text_a", "text_b", "score", "part"]))
    pairs, failed = task.rows, set()
    first = pairs.iloc[[0]].assign(pair=9, text_id_a=pairs["text_id_b"][0], text_id_b=pairs["text_id_a"][0])
    tables = [pairs, pairs.head(0), pairs.assign(pair=0), pairs.assign(text_id_b="0" * 16), pairs.assign(score=3.0)]
    tables += [pairs.assign(score=[3, 1, 6, None]), pairs.assign(part=["test", "test", "train", "dev"])]
    tables += [pd.concat([pairs, first.assign(**more)]) for more in ({}, {"score": 4.0}, {"part": "train"})]
    for table in tables:
        found = validate_table(card, "pairs", table, task.corpus, docs).findings
        assert by_pandas(monkeypatch, validate_table, card, "pairs", table, task.corpus, docs).findings == found
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["pairs"]}
