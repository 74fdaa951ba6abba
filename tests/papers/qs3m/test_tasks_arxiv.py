"""Abstracts of arXiv: a subject is a query, its subtopics are to be found."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.errors import Refusal, refused
from traube._core.errors import Malformed, TooFew, Unknown
from traube.tasks import load_task

RealRaw = Callable[[str], Path]
Row = dict[str, object]
Write = Callable[..., None]


def rows(subject: str, **subtopics: int) -> list[Row]:
    return [
        {"subject": subject, "subtopic": name, "abstract": f" {subject}.{name} number {i}. "}
        for name, count in subtopics.items()
        for i in range(count)
    ]


@pytest.fixture
def write(raw_folder: Path) -> Write:
    folder = raw_folder / "arxiv"
    folder.mkdir()

    def rows_written(found: list[Row], pool: list[Row] | None = None) -> None:
        for name, some in (("qs3m_like_7x500", found), ("pool_500_per_subtopic", pool or found)):
            (folder / f"arxiv_{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))

    return rows_written


def test_what_one_fold_trains_the_other_scores(write: Write) -> None:
    write([*rows("stat", ML=20, ME=10), *rows("nlin", CD=8, PS=8)])
    task = load_task("arxiv_subjects").validate()
    texts = task.splits.groupby(["split_set", "part"])["text_id"].apply(set)
    for split_set, other in (("default", "fold_2"), ("fold_2", "default")):
        assert texts[split_set, "train"] | texts[split_set, "validation"] == texts[other, "test"]
        assert not texts[split_set, "test"] & texts[other, "test"]
        splits = {split.split: split for split in task.test_splits(split_set)}
        assert {name: pd.Series(s.labels).value_counts().to_dict() for name, s in splits.items()} == {
            "stat": {"ML": 10, "ME": 5},
            "nlin": {"CD": 4, "PS": 4},
        }
        queries = [split.query for split in splits.values() if split.query is not None]
        assert [task.texts[query] for query in queries] == ["Statistics", "Nonlinear Systems"]


def test_for_what_the_paper_leaves_out_others_of_the_subject_are_drawn_in_its_shares(write: Write) -> None:
    sample = [*rows("eess", SP=12, IV=6, SY=5), *rows("stat", ML=4, ME=4)]
    write(sample, [*rows("eess", SP=40, IV=40, SY=40), *rows("stat", ML=40)])
    splits = load_task("arxiv_subjects").splits
    test = splits[splits["part"] == "test"]
    assert test.groupby("split")["label"].value_counts().to_dict() == {
        ("eess", "SP"): 15,  # five are missing: 3.3 and 1.7 of them
        ("eess", "IV"): 8,
        ("stat", "ML"): 4,
        ("stat", "ME"): 4,
    }
    assert not test["text_id"].duplicated().any()
    with refused(TooFew, "eess", "SP", "pool"):
        write(sample, rows("eess", SP=13, IV=40))
        load_task("arxiv_subjects").validate()


def test_an_abstract_that_occurs_again_is_left_out(write: Write) -> None:
    """It would be trained on in one fold and scored in the other."""
    again: list[Row] = [{"subject": "nlin", "subtopic": "CD", "abstract": "stat.ML number 0."}]
    write([*rows("stat", ML=4, ME=4), *rows("nlin", CD=4, PS=4), *again])
    splits = load_task("arxiv_subjects").splits
    assert splits.groupby("split_set").size().to_dict() == {"default": 16, "fold_2": 16}


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        (rows("math", AG=4), (Unknown, "math", "jsonl:1")),
        ([*rows("stat", ML=2), {"subject": "stat", "subtopic": "ML", "abstract": " "}], (Malformed, "jsonl:3")),
        ([{"subject": "stat", "subtopic": "ML"}], (Unknown, "jsonl", "abstract", "subject", "subtopic")),
        (rows("stat", ML=4, OT=1), (TooFew, "jsonl", "stat", "OT")),
        (rows("stat", ML=4), (TooFew, "stat")),
    ],
)
def test_what_cannot_be_used_is_named(found: list[Row], refusal: Refusal, write: Write) -> None:
    write(found)
    with refused(*refusal):
        load_task("arxiv_subjects").validate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "abstracts", "first", "of_eess"),
    [("arxiv_subjects", 3499, 1750, 3), ("arxiv_subjects_full", 23_529, 11_766, 4)],
)
def test_the_real_abstracts(name: str, abstracts: int, first: int, of_eess: int, real_raw: RealRaw) -> None:
    """The rebuilt sample has 3,500 abstracts, 64 of eess.SY, which are replaced, and the pool 23,534; one and five occur again."""
    real_raw("arxiv")
    task = load_task(name).validate()
    test = task.splits[task.splits["part"] == "test"]
    assert test["text_id"].nunique() == abstracts == len(task.corpus) - 7  # and seven queries
    assert len(test[test["split_set"] == "default"]) == first
    subtopics = test.groupby(["split_set", "split"])["label"].nunique()
    counts = {"astro-ph": 6, "cond-mat": 9, "eess": of_eess, "nlin": 5, "q-bio": 10, "q-fin": 9, "stat": 5}
    assert subtopics["default"].to_dict() == subtopics["fold_2"].to_dict() == counts
