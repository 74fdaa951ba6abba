"""Checks of pair tasks: each rule that is broken fails its check and no other."""

from collections.abc import Callable

import pandas as pd
import pytest

from traube._pipeline.validation.rules import CHECKS
from traube._pipeline.validation.validate import validate_table
from traube.tasks.scored_pairs import PairCard, make_pairs
from traube.tasks.task import Task

CARD = PairCard(name="pairs", scale=(0.0, 5.0))


@pytest.fixture
def sound() -> Task:
    records = [
        ("a b", "a c", 3, "test"),
        ("d e", "d f", 1, "test"),
        ("g h", "g i", 5, "train"),
        ("j k", "j l", 2, "train"),
    ]
    return make_pairs(CARD, pd.DataFrame(records, columns=["text_a", "text_b", "score", "part"]))


def repeated(pairs: pd.DataFrame, **changes: object) -> pd.DataFrame:
    """With the first pair once more, its texts exchanged."""
    first = pairs.iloc[[0]].assign(pair=9, text_id_a=pairs["text_id_b"][0], text_id_b=pairs["text_id_a"][0], **changes)
    return pd.concat([pairs, first], ignore_index=True)


@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (lambda p: p, set()),
        (lambda p: p.assign(pair=0), {"pairs_valid"}),
        (lambda p: p.assign(text_id_b="0" * 16), {"pairs_valid"}),
        (lambda p: p.assign(part=["test", "test", "train", "dev"]), {"pairs_valid", "scores_vary"}),
        (lambda p: p.assign(score=[3, 1, 6, 2]), {"scores_in_scale"}),
        (lambda p: p.assign(score=[3, 3, 5, 2]), {"scores_vary"}),
        (lambda p: repeated(p), {"pairs_once"}),
        (lambda p: repeated(p, score=4.0), {"pairs_once", "one_score"}),
        (lambda p: repeated(p, part="train"), {"pairs_disjoint"}),
    ],
)
def test_each_fault_is_found_by_its_check(
    sound: Task, broken: Callable[[pd.DataFrame], pd.DataFrame], checks: set[str]
) -> None:
    findings = validate_table(CARD, "pairs", broken(sound.rows), sound.corpus).findings
    assert [finding.check.name for finding in findings] == [check.name for check in CHECKS["pairs"]]
    assert {finding.check.name for finding in findings if not finding.passed} == checks
