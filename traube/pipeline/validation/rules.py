"""What is checked of a task's tables, as data: a check is a name that people see and a few rules, a rule is one
expectation on one column. What an expectation cannot say by itself (how often a text occurs in its split, how many
classes a split has) is a column of facts (`traube.pipeline.validation.facts`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from traube.tasks.task import NULLABLE, PARTS, TaskCard

SHORTEST = 3  # characters: what is shorter says nothing about a topic
LONGEST = 100_000  # characters, some forty pages: what is longer is likely a file that was read as one text
SMALLEST_CLASS = 3  # texts of a class in a test split: a class of one or two texts is hardly a cluster to be found

SPLIT = ("split_set", "split", "level")  # what names one clustering problem

Table = Literal["corpus", "splits", "pairs"]
Size = Literal["splits", "rows", "classes"]  # fields of a card's `declared`


@dataclass(frozen=True)
class Rule:
    """One expectation on one column. Rows in which the column is null are not judged."""

    says: str  # the rule in words
    expectation: str  # name of a class in `great_expectations.expectations`
    arguments: dict[str, Any] = field(default_factory=dict)
    # field of the task's card that gives the least and the greatest value; without it there is no such rule
    declared: Size | None = None


@dataclass(frozen=True)
class Check:
    """A named check of an asset."""

    name: str
    description: str
    blocking: bool  # whether a failure stops the task; otherwise it warns, unless the task's card says that it blocks
    rules: tuple[Rule, ...]
    one_row_per: tuple[str, ...] = ()  # columns; of the offending rows that agree in them one is shown


def _not_null(column: str, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToNotBeNull", {"column": column})


def _unique(column: str, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeUnique", {"column": column})


def _among(column: str, values: Sequence[Any], says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)})


def _between(column: str, says: str, least: int | None = None, greatest: int | None = None) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeBetween", {"column": column, "min_value": least, "max_value": greatest})


def _as_declared(column: str, declared: Size, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeBetween", {"column": column}, declared)


_NOT_EMPTY = Rule("the table has rows", "ExpectTableRowCountToBeBetween", {"min_value": 1})

CORPUS_CHECKS = (
    Check(
        "texts_present",
        "There are texts, and none is missing, empty or only white space.",
        True,
        (_NOT_EMPTY, _not_null("text", "the text is there"), _between("characters", "the text is not blank", least=1)),
    ),
    Check(
        "text_ids_unique",
        "Every text has an id of its own.",
        True,
        (_not_null("text_id", "the text has an id"), _unique("text_id", "the id occurs once")),
    ),
    Check("texts_unique", "A text is stored once.", False, (_unique("text", "the text occurs once"),)),
    Check(
        "text_lengths",
        f"Texts have {SHORTEST} to {LONGEST:,} characters.",
        False,
        (
            _between("characters", f"the text has {SHORTEST} characters or more", least=SHORTEST),
            _between("characters", f"the text has {LONGEST:,} characters or fewer", greatest=LONGEST),
        ),
    ),
    Check(
        "no_mojibake",
        "No text looks as if it was decoded with the wrong encoding.",
        False,
        (_among("mojibake", [False], "the text is decoded rightly"),),
    ),
)

SPLITS_CHECKS = (
    Check(
        "items_valid",
        "Every item of a split occurs once, belongs to a part and has a text of the corpus.",
        True,
        (
            _NOT_EMPTY,
            _among("complete", [True], f"nothing but {' and '.join(NULLABLE)} is null"),
            Rule(
                "the item occurs once in its split",
                "ExpectCompoundColumnsToBeUnique",
                {"column_list": [*SPLIT, "item"], "ignore_row_if": "never"},
            ),
            _among("part", PARTS, f"the part is one of {', '.join(PARTS)}"),
            _among("text_known", [True], "the text_id is in the corpus"),
        ),
    ),
    Check(
        "labels_present",
        "No label is null or blank, unless the whole task has no labels.",
        True,
        (_among("labelled", [True], "the row has a label"),),
    ),
    Check(
        "two_classes",
        "Every labelled test split has two classes or more.",
        True,
        (_between("classes_in_split", "the split has two classes or more", least=2),),
        one_row_per=SPLIT,
    ),
    Check(
        "declared_sizes",
        "There are as many test splits, rows and classes in them as the task's card declares.",
        True,
        (
            _as_declared("splits_in_set", "splits", "the split set has as many test splits as declared"),
            _as_declared("rows_in_split", "rows", "the test split has as many rows as declared"),
            _as_declared("classes_in_split", "classes", "the test split has as many classes as declared"),
        ),
        one_row_per=SPLIT,
    ),
    Check(
        "texts_once",
        "A text occurs once in a split.",
        False,
        (_between("times_in_split", "the text occurs once in its split and part", greatest=1),),
        one_row_per=(*SPLIT, "part", "text_id"),
    ),
    Check(
        "one_label",
        "Within a split set and a level, a text has one label.",
        False,
        (_between("labels_of_text", "the text has one label", greatest=1),),
        one_row_per=("split_set", "level", "text_id", "label"),
    ),
    Check(
        "class_sizes",
        f"In a test split, every class has {SMALLEST_CLASS} texts or more.",
        False,
        (_between("rows_of_class", f"the class has {SMALLEST_CLASS} texts or more", least=SMALLEST_CLASS),),
        one_row_per=(*SPLIT, "label"),
    ),
    Check(
        "parts_disjoint",
        "No text of a test split is among the split set's texts for training or validation.",
        False,
        (_among("seen_in_training", [False], "the text is not seen in training"),),
        one_row_per=("split_set", "text_id"),
    ),
)

PAIRS_CHECKS = (
    Check(
        "pairs_valid",
        "Every pair occurs once, belongs to a part and has two texts of the corpus.",
        True,
        (
            _NOT_EMPTY,
            _unique("pair", "the pair's number occurs once"),
            _among("part", PARTS, f"the part is one of {', '.join(PARTS)}"),
            _among("texts_known", [True], "both texts are in the corpus"),
        ),
    ),
    Check(
        "scores_in_scale",
        "Every score is a number of the scale that the task's card states.",
        True,
        (_among("in_scale", [True], "the score is of the scale"),),
    ),
    Check(
        "scores_vary",
        "The scores of each part differ, so that something can correlate with them.",
        True,
        (_between("scores_in_part", "the part has two scores or more", least=2),),
        one_row_per=("part",),
    ),
    Check(
        "pairs_once",
        "Two texts are paired once in a part, in whatever order.",
        False,
        (_between("times_in_part", "the texts are paired once", greatest=1),),
    ),
    Check(
        "one_score",
        "Two texts that are paired several times have one score.",
        False,
        (_between("scores_of_texts", "the texts have one score", greatest=1),),
    ),
    Check(
        "pairs_disjoint",
        "No pair of a test part is among those for training or validation.",
        False,
        (_among("pair_seen", [False], "the pair is not seen in training"),),
    ),
)

CHECKS: dict[Table, tuple[Check, ...]] = {"corpus": CORPUS_CHECKS, "splits": SPLITS_CHECKS, "pairs": PAIRS_CHECKS}


def blocks(check: Check, card: TaskCard) -> bool:
    """Whether a failure of the check stops the task; a task's card can raise a warning to that."""
    return check.blocking or check.name in card.blocking
