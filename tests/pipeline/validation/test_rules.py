"""Checks find what they are for: a rule that is broken fails its check and no other."""

from typing import Any, get_args

import pandas as pd
import pytest
from ftfy.badness import MOJIBAKE_CATEGORIES, is_bad
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.errors import refused
from tests.pipeline.validation.fruit import CARD, check_corpus, check_splits, corpus_of, examples, failed, fruit
from traube._core.frames import TEXT
from traube._pipeline.validation.facts import find_mojibake
from traube._pipeline.validation.rules import CHECKS, blocks
from traube.tasks.task import NULLABLE, SUBSETS, CheckName, Declared, TaskCard


def test_faultless_tables_pass_every_check() -> None:
    corpus, splits = fruit()
    declared = TaskCard(name="fruit", declared=Declared(splits=2, rows=(6, 6), classes=(2, 2)))
    on_corpus, on_splits = check_corpus(corpus), check_splits(splits, declared)
    assert not failed(on_corpus)
    assert not failed(on_splits)
    assert list(on_corpus) == [check.name for check in CHECKS["corpus"]]
    assert list(on_splits) == [check.name for check in CHECKS["splits"]]
    assert on_splits["items_valid"].offending == 0
    assert on_splits["items_valid"].total == 13
    assert on_splits["items_valid"].shown == []


# one test per rule: what breaks it fails this check and no other


@pytest.mark.parametrize(
    ("texts", "check"),
    [
        (["gut und schön", None], {"texts_present"}),
        (["gut und schön", ""], {"texts_present", "text_lengths"}),
        (["gut und schön", " \u00a0\n\t"], {"texts_present", "text_lengths"}),
        (["gut und schön", "ab "], {"text_lengths"}),
        (["gut und schön", "x" * 100_001], {"text_lengths"}),
        (["gut und schön", "schÃ¶n und gut"], {"no_mojibake"}),
    ],
)
def test_bad_texts_are_found(texts: list[Any], check: set[str]) -> None:
    results = check_corpus(corpus_of(texts))
    assert failed(results) == check
    for name in check:
        assert results[name].offending == 1
        assert results[name].percent == 50
        assert examples(results[name])["row"].tolist() == ["1"]


def test_tables_without_rows_fail() -> None:
    results = check_corpus(fruit()[0].head(0))
    assert failed(results) == {"texts_present"}
    assert "the table has rows: no, but 0" in results["texts_present"].broken
    assert failed(check_splits(fruit()[1].head(0))) == {"items_valid"}


def test_texts_and_ids_that_occur_twice_are_found() -> None:
    corpus = fruit()[0]
    same_text = corpus.assign(
        text_id=[f"id{i}" for i in range(13)], text=corpus["text"].where(corpus.index != 3, corpus["text"][0])
    )
    results = check_corpus(same_text)
    assert failed(results) == {"texts_unique"}
    assert results["texts_unique"].offending == 2
    same_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3, corpus["text_id"][0]))
    assert failed(check_corpus(same_id)) == {"text_ids_unique"}
    no_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3))
    assert failed(check_corpus(no_id)) == {"text_ids_unique"}


@pytest.mark.parametrize(
    ("row", "column", "wrong"),
    [
        (1, "item", 0),
        (1, "text_id", "0" * 16),
        (1, "part", "dev"),
        (1, "split", None),
        (1, "text_id", None),
        (1, "part", None),
    ],
)
def test_broken_items_are_found(row: int, column: str, wrong: Any) -> None:
    splits = fruit()[1]
    splits[column] = splits[column].astype(object)
    splits.loc[row, column] = wrong
    results = check_splits(splits)
    assert "items_valid" in failed(results)
    assert "1" in set(examples(results["items_valid"])["row"])


def test_a_row_that_breaks_two_rules_counts_once() -> None:
    splits = fruit()[1]
    splits.loc[1, "text_id"] = "0" * 16
    splits.loc[1, "part"] = "dev"
    result = check_splits(splits)["items_valid"]
    assert result.offending == 1
    assert [fared for fared in result.rules.values() if fared != "holds"] == ["not in 1 row"] * 2


FIRST = fruit()[1]["text_id"][0]  # of a text of split 0 with label a


@pytest.mark.parametrize(
    ("row", "changes", "failing", "offending", "column", "shown"),
    [
        *((2, {"label": label}, ["labels_present", "class_sizes"], 1, "row", {"2"}) for label in (None, "", "  ")),
        # row 2 is in the same split and has the same label; row 7 is in another split and has another one
        (2, {"text_id": FIRST}, ["texts_once"], 2, "times_in_split", {"2"}),
        (7, {"text_id": FIRST}, ["one_label"], 2, "label", {"a", "b"}),
        (0, {"label": "c"}, ["class_sizes"], 3, "label", {"c", "a"}),  # a has two texts left
        (12, {"text_id": FIRST, "part": "train"}, ["parts_disjoint"], 1, "row", {"0"}),
        (12, {"text_id": FIRST, "part": "validation"}, ["parts_disjoint"], 1, "row", {"0"}),
    ],
)
def test_a_row_that_breaks_a_rule_is_found(
    row: int, changes: dict[str, str | None], failing: list[str], offending: int, column: str, shown: set[str]
) -> None:
    splits = fruit()[1]
    for name, value in changes.items():
        splits.loc[row, name] = value
    results = check_splits(splits)
    assert failed(results) == set(failing)
    assert results[failing[0]].offending == offending
    assert set(examples(results[failing[0]])[column]) == shown


def test_a_task_without_labels_passes_unless_its_card_declares_classes() -> None:
    splits = fruit()[1]
    for nothing in (None, pd.array([None] * 13, dtype=TEXT)):
        assert not failed(check_splits(splits.assign(label=nothing)))
    card = TaskCard(name="fruit", declared=Declared(classes=(2, 9)))
    assert failed(check_splits(splits.assign(label=None), card)) == {"labels_present"}


def test_a_split_with_one_class_is_found_and_shown_once() -> None:
    splits = fruit()[1]
    splits.loc[splits["split"] == "set_1", "label"] = "a"
    results = check_splits(splits)
    assert failed(results) == {"two_classes"}
    assert results["two_classes"].offending == 6
    shown = examples(results["two_classes"])
    assert shown[["split", "classes_in_split"]].to_numpy().tolist() == [["set_1", "1"]]


@pytest.mark.parametrize(
    "declared",
    [
        Declared(splits=3),
        Declared(rows=(7, 9)),
        Declared(rows=(1, 5)),
        Declared(classes=(3, 4)),
        Declared(classes=(1, 1)),
    ],
)
def test_sizes_other_than_declared_are_found(declared: Declared) -> None:
    results = check_splits(fruit()[1], TaskCard(name="fruit", declared=declared))
    assert failed(results) == {"declared_sizes"}
    assert set(examples(results["declared_sizes"])["split"]) == {"set_0", "set_1"}


def test_declared_splits_that_are_all_absent_are_found() -> None:
    card = TaskCard(name="fruit", declared=Declared(splits=2))
    assert failed(check_splits(fruit()[1].assign(part="train"), card)) == {"declared_sizes"}


def test_a_text_may_occur_in_two_splits_levels_and_split_sets() -> None:
    splits = fruit()[1]
    splits.loc[6, "text_id"] = FIRST
    coarse = splits.assign(level="coarse", label=splits["label"].str.upper())
    assert not failed(check_splits(pd.concat([splits, coarse])))
    splits.loc[12, ["text_id", "part"]] = [FIRST, "train"]
    assert not failed(check_splits(splits.assign(split_set=["default"] * 12 + ["other"])))


# warnings and blocking checks


def test_what_blocks_and_what_warns() -> None:
    assert {check.name for checks in CHECKS.values() for check in checks if blocks(check, CARD)} == {
        "texts_present",
        "text_ids_unique",
        "items_valid",
        "labels_present",
        "two_classes",
        "declared_sizes",
        "pairs_valid",
        "scores_in_scale",
        "scores_vary",
    }


def test_a_card_makes_a_warning_block() -> None:
    card = TaskCard(name="fruit", blocking=("texts_once", "no_mojibake"))
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]
    assert check_splits(splits, card)["texts_once"].blocking
    assert not check_splits(splits)["texts_once"].blocking
    assert not check_splits(splits, card)["one_label"].blocking
    assert check_corpus(fruit()[0], card)["no_mojibake"].blocking


def test_the_file_of_checks_names_the_subsets_and_the_columns_that_may_be_null() -> None:
    rules = [rule for checks in CHECKS.values() for check in checks for rule in check.rules]
    of_subset = [rule for rule in rules if rule.arguments.get("column") == "part"]
    assert len(of_subset) == 2
    for rule in of_subset:
        assert rule.arguments["value_set"] == list(SUBSETS)
        assert rule.says == f"the subset is one of {', '.join(SUBSETS)}"
    [complete] = [rule for rule in rules if rule.arguments.get("column") == "complete"]
    assert complete.says == f"nothing but {' and '.join(NULLABLE)} is null"


def test_a_card_may_name_every_check_there_is_and_no_other() -> None:
    assert {check.name for checks in CHECKS.values() for check in checks} == set(get_args(CheckName))
    with refused(ValidationError, "'texts_once'"):
        TaskCard.model_validate({"name": "fruit", "blocking": ["text_once"]})


# facts


_CHARACTERS = st.sampled_from("aZ .,?!\n\u000b\u001cé中") | st.from_regex(
    f"[{''.join(MOJIBAKE_CATEGORIES.values())}]", fullmatch=True
)


@settings(deadline=None)
@given(st.lists(st.text(_CHARACTERS, max_size=8), min_size=1, max_size=200))
def test_mojibake_is_what_ftfy_says(texts: list[str]) -> None:
    found = find_mojibake(pd.Series(texts, dtype="string[pyarrow]"))
    assert found.tolist() == [is_bad(text) for text in texts]
