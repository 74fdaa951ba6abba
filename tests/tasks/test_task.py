"""A task is what its two tables say: the same tables are the same task, and faulty ones are refused by row and column."""

from collections.abc import Callable

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.errors import Refusal, refused
from traube._core.errors import Malformed, TooFew
from traube._storage.entries import read_table, write_table
from traube.tasks.task import Task, TaskCard, index_texts, make_split, text_id

Row = tuple[str, str | None]
TEXT = st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
LABEL = st.none() | st.sampled_from(["None", "nan", ""]) | st.text(max_size=4)
ROWS = st.lists(st.tuples(TEXT, LABEL), min_size=1, max_size=8)


def task_of(rows: list[Row]) -> Task:
    records = pd.DataFrame(rows, columns=["text", "label"], dtype="object")
    corpus, indexed = index_texts(records)
    return Task(TaskCard(name="own"), corpus, make_split(indexed, "all", "area", label="label"))


# data versions


@given(rows=ROWS)
@settings(max_examples=20, deadline=None)
def test_equal_tables_have_the_same_data_version_however_they_were_made(rows: list[Row]) -> None:
    task = task_of(rows)
    again = Task(task.card, *(read_table(write_table(table)) for table in (task.corpus, task.splits)))
    assert again.data_version == task.data_version
    assert again.texts == task.texts
    other = Task(task.card, task.corpus.astype("string"), task.splits.astype({"label": "string", "item": "int32"}))
    assert other.data_version == task.data_version


@given(rows=ROWS, data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_change_of_text_label_or_order_changes_the_data_version(rows: list[Row], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(rows) - 1))
    j = data.draw(st.integers(0, len(rows) - 1))
    changed = list(rows)
    match data.draw(st.sampled_from(["text", "label", "order", "one less", "one more"])):
        case "text":
            changed[i] = (data.draw(TEXT), rows[i][1])
        case "label":
            changed[i] = (rows[i][0], data.draw(LABEL))
        case "order":
            changed[i], changed[j] = rows[j], rows[i]
        case "one less":
            del changed[i]
        case "one more":
            changed.insert(i, rows[j])
    assume(changed and changed != rows)
    assert task_of(changed).data_version != task_of(rows).data_version


def test_a_missing_label_is_not_the_label_none_and_a_name_is_no_data() -> None:
    assert task_of([("a", None), ("b", "x")]).data_version != task_of([("a", "None"), ("b", "x")]).data_version
    task = task_of([("a", "x"), ("b", "y")])
    assert Task(TaskCard(name="other"), task.corpus, task.splits).data_version == task.data_version


# validation


def change(task: Task, table: str, row: int, column: str, value: object) -> Task:
    tables = {"corpus": task.corpus.astype("object"), "splits": task.splits.astype("object")}
    tables[table].loc[row, column] = value
    return Task(task.card, tables["corpus"], tables["splits"])


def sound() -> Task:
    return task_of([("apple", "fruit"), ("pear", "fruit"), ("oak", "tree"), ("elm", "tree")])


FAULTS: dict[str, tuple[Callable[[Task], Task], Refusal]] = {
    "a blank text": (lambda t: change(t, "corpus", 2, "text", " \n"), (Malformed, "corpus", "row 2", "text")),
    "no text": (lambda t: change(t, "corpus", 1, "text", None), (Malformed, "corpus", "row 1", "text")),
    "a number": (lambda t: change(t, "corpus", 1, "text", 7), (Malformed, "corpus", "row 1", "text")),
    "a text_id twice": (
        lambda t: change(t, "corpus", 3, "text_id", text_id("apple")),
        (Malformed, "corpus", "row 3", "text_id"),
    ),
    "an unknown text_id": (
        lambda t: change(t, "splits", 2, "text_id", "gone"),
        (Malformed, "splits", "row 2", "text_id"),
    ),
    "an item twice": (lambda t: change(t, "splits", 3, "item", 2), (Malformed, "splits", "row 3", "item")),
    "a null label": (lambda t: change(t, "splits", 1, "label", None), (Malformed, "splits", "row 1", "label")),
    "an unknown part": (lambda t: change(t, "splits", 0, "part", "dev"), (Malformed, "splits", "row 0", "part")),
    "no column": (
        lambda t: Task(t.card, t.corpus, t.splits.drop(columns="item")),
        (Malformed, "splits", "item", "split_set", "level", "text_id", "label", "query_id", "part"),
    ),
    "one class": (lambda t: Task(t.card, t.corpus, t.splits[:2]), (TooFew, "all")),
    "no texts": (lambda t: Task(t.card, t.corpus[:0], t.splits[:0]), (TooFew, "corpus")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_task_is_refused_by_table_row_and_column(fault: str) -> None:
    spoil, refusal = FAULTS[fault]
    with refused(*refusal, "own"):
        spoil(sound()).validate()


def test_validation_says_how_many_rows_are_faulty_and_whose_file_it_is() -> None:
    task = change(change(sound(), "corpus", 1, "text", ""), "corpus", 3, "text", " ")
    with refused(Malformed, "tickets.csv", "corpus", 1, 2):
        task.validate("tickets.csv")


def test_a_sound_task_passes_and_so_does_one_without_any_labels() -> None:
    assert sound().validate().is_labeled
    assert not task_of([("a", None), ("b", None)]).validate().is_labeled


def test_one_class_is_enough_for_texts_that_are_only_trained_on() -> None:
    task = sound()
    task.splits["part"] = ["train", "train", "test", "test"]
    task.splits.loc[2, "label"] = "fruit"
    assert task.validate() is task


# splits


def test_only_the_part_test_is_scored() -> None:
    task = sound()
    task.splits["part"] = ["train", "test", "validation", "test"]
    (split,) = task.test_splits()
    assert [task.texts[row] for row in split.rows] == ["pear", "elm"]
    assert split.items.tolist() == [1, 3]
    assert split.labels is not None and split.labels.tolist() == ["fruit", "tree"]


def test_each_level_of_a_split_is_a_problem_of_its_own(tiny_task: Task) -> None:
    found = [(s.split, s.level, s.size, s.classes) for s in tiny_task.test_splits()]
    assert found == [
        ("early", "coarse", 36, 3),
        ("early", "fine", 36, 6),
        ("late", "coarse", 36, 3),
        ("late", "fine", 36, 6),
    ]


def test_only_the_requested_split_set_is_returned() -> None:
    corpus, records = index_texts(pd.DataFrame({"text": ["a", "b"], "area": ["x", "y"]}))
    whole = make_split(records, "all", "area", label="area")
    half = make_split(records[:1], "half", "area", label="area", split_set="small")
    task = Task(TaskCard(name="own"), corpus, pd.concat([whole, half]))
    assert [s.split for s in task.test_splits()] == ["all"]
    assert [s.split for s in task.test_splits("small")] == ["half"]


def test_a_text_that_occurs_twice_is_stored_once_and_scored_twice() -> None:
    task = task_of([("apple", "fruit"), ("oak", "tree"), ("apple", "company")]).validate()
    (split,) = task.test_splits()
    assert task.texts == ["apple", "oak"]
    assert split.rows.tolist() == [0, 1, 0]
    assert split.labels is not None and split.labels.tolist() == ["fruit", "tree", "company"]


def test_queries_are_texts_of_the_corpus_after_the_items() -> None:
    records = pd.DataFrame({"text": ["a", "b"], "query": ["which?", None]})
    corpus, indexed = index_texts(records)
    assert corpus["text"].tolist() == ["a", "b", "which?"]
    assert make_split(indexed, "all", "none")["query_id"].tolist()[0] == text_id("which?")
    assert make_split(indexed, "all", "none")["query_id"].isna().tolist() == [False, True]


# queries


def queried(rows: list[tuple[str, str, str | None]]) -> Task:
    """A task of (split, text, query)."""
    records = pd.DataFrame(rows, columns=["split", "text", "query"])
    corpus, indexed = index_texts(records)
    splits = [make_split(group, str(name), "none") for name, group in indexed.groupby("split", sort=False)]
    return Task(TaskCard(name="own"), corpus, pd.concat(splits, ignore_index=True))


def test_a_split_knows_the_text_of_its_query() -> None:
    task = queried([("a", "x", "why?"), ("a", "y", "why?"), ("b", "x", "how?"), ("b", "z", None), ("c", "y", None)])
    queries = {s.split: None if s.query is None else task.texts[s.query] for s in task.test_splits()}
    assert queries == {"a": "why?", "b": "how?", "c": None}
    task = queried([("a", "x", "y"), ("a", "y", "y")])
    (split,) = task.test_splits()
    assert split.query == split.rows[1]


def test_a_query_that_is_not_one_text_of_the_corpus_is_refused() -> None:
    task = queried([("a", "x", "why?"), ("b", "x", "why?"), ("b", "y", "how?")])
    with refused(Malformed, "own", "b", "why?", "how?", 2):
        list(task.test_splits())
    task = queried([("a", "x", "why?"), ("a", "y", "why?")])
    with refused(Malformed, text_id("why?"), "own", "splits", "query_id"):
        list(Task(task.card, task.corpus[:2], task.splits).test_splits())
