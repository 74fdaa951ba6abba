"""Findings of checks as people see them, and the checks of tasks that are stored."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from tests.made import store_task
from tests.pipeline.validation.fruit import CARD, SCRIPT, check_corpus, corpus_of, examples, failed, fruit
from traube._pipeline.validation.rules import CHECKS
from traube._pipeline.validation.validate import validate_tasks
from traube._reports.markdown import markdown
from traube._storage import open_storage
from traube.tasks.task import Task


def test_at_most_twenty_short_rows_are_shown_of_all_that_are_counted() -> None:
    corpus = corpus_of([f"Ã¼ {i} " + "sehr lang " * 100 for i in range(50)])
    result = check_corpus(corpus)["no_mojibake"]
    assert result.offending == 50
    shown = examples(result)
    assert shown["row"].tolist() == [str(i) for i in range(20)]
    assert shown["text"].str.len().max() <= 120
    assert shown["text"].str.endswith("…").all()
    text = "Ã¼" + "x" * 118
    just_fits = check_corpus(corpus_of([text, text + "x"]))["no_mojibake"]
    assert examples(just_fits)["text"].tolist() == [text, text[:-1] + "…"]


def test_the_only_row_is_all_of_the_rows_and_no_row_is_none_of_them() -> None:
    result = check_corpus(corpus_of(["Ã¼ber"]))["no_mojibake"]
    assert (result.offending, result.total, result.percent) == (1, 1, 100)
    assert replace(result, offending=0, total=0).percent == 0


def test_odd_characters_are_shown_and_stored() -> None:
    odd = "\x00\x1b[31m \u202e Ã¼ \u200b"
    result = check_corpus(pd.DataFrame({"text_id": ["1"], "text": [odd]}))["no_mojibake"]
    assert examples(result)["text"][0] == "\ufffd\ufffd[31m \ufffd Ã¼ \ufffd"


def test_rows_are_numbered_by_position_whatever_the_index_and_other_columns_say() -> None:
    corpus = corpus_of(["gut und schön", "auch gut und schön", "x"]).set_index(pd.Index([7, 7, 3]))
    assert examples(check_corpus(corpus)["text_lengths"])["row"].tolist() == ["2"]
    assert not failed(check_corpus(fruit()[0].assign(characters=0, row="x")))


def test_stored_tasks_are_checked(tmp_path: Path) -> None:
    """Tasks that are not stored are passed over; a verdict says whether the check blocks."""
    storage = open_storage(tmp_path)
    corpus, splits = fruit()
    splits.loc[2, "text_id"] = splits["text_id"][0]
    store_task(storage, Task(CARD, corpus, splits))
    validations = {validation.table: validation for validation in validate_tasks(storage, ["fruit", "vegetables"])}
    assert [*validations] == ["corpus", "splits"]
    found = {
        (table, f.check.name): (f.blocking, f.passed, f.offending)
        for table, validation in validations.items()
        for f in validation.findings
    }
    assert len(found) == len(CHECKS["corpus"]) + len(CHECKS["splits"])
    assert found["splits", "texts_once"] == (False, False, 2)
    assert found["corpus", "texts_present"] == (True, True, 0)


def test_a_table_as_markdown() -> None:
    table = markdown(pd.DataFrame({"a|b": [SCRIPT]}))
    assert table == "| a&#124;b |\n| --- |\n| &#60;script&#62;alert(1)&#60;/script&#62; |"
