"""Findings of checks as people see them: rows as plain text, a page of Data Docs, and the verdicts of a release."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.pipeline.validation.fruit import CARD, SCRIPT, check_corpus, corpus_of, examples, failed, fruit
from traube._core.paths import PROJECT
from traube._pipeline.validation.rules import CHECKS, Check, Rule
from traube._pipeline.validation.validate import validate_table, validate_tasks
from traube._reports.markdown import markdown, markdown_rows
from traube._storage import open_storage
from traube.tasks._stored import complete_task, save_corpus, save_rows


def test_texts_are_only_text_in_markdown_and_in_data_docs(docs: Path) -> None:
    corpus = corpus_of([SCRIPT, "a | b\n![x](http://example.org/x.png) `c` $100 ${foo}", "ok, dieser Text ist gut"])
    splits = (
        fruit()[1]
        .head(3)
        .assign(text_id=corpus["text_id"], label=pd.Series([SCRIPT, "b|c", None]), split=SCRIPT, item=0, part=SCRIPT)
    )
    on_corpus = validate_table(CARD, "corpus", pd.concat([corpus, corpus]), pd.concat([corpus, corpus]), docs)
    on_splits = validate_table(CARD, "splits", splits, corpus, docs)
    for validation in (on_corpus, on_splits):
        page = validation.page.read_text(encoding="utf-8")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
        assert "${foo}" in page
    findings = [*on_corpus.findings, *on_splits.findings]
    shown = [markdown_rows(finding.header, finding.shown) for finding in findings if not finding.passed]
    assert shown
    for table in shown:
        assert "<script" not in table
        assert "![" not in table
        assert "&#60;script&#62;alert(1)" in table
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_at_most_twenty_short_rows_are_shown_of_all_that_are_counted(docs: Path) -> None:
    corpus = corpus_of([f"Ã¼ {i} " + "sehr lang " * 100 for i in range(50)])
    result = check_corpus(docs, corpus)["no_mojibake"]
    assert result.offending == 50
    shown = examples(result)
    assert shown["row"].tolist() == [str(i) for i in range(20)]
    assert shown["text"].str.len().max() <= 120
    assert shown["text"].str.endswith("…").all()


def test_odd_characters_are_shown_and_stored(docs: Path) -> None:
    odd = "\x00\x1b[31m \u202e Ã¼ \u200b"
    result = check_corpus(docs, pd.DataFrame({"text_id": ["1"], "text": [odd]}))["no_mojibake"]
    assert examples(result)["text"][0] == "\ufffd\ufffd[31m \ufffd Ã¼ \ufffd"


def test_rows_are_numbered_by_position(docs: Path) -> None:
    corpus = corpus_of(["gut und schön", "auch gut und schön", "x"]).set_index(pd.Index([7, 7, 3]))
    assert examples(check_corpus(docs, corpus)["text_lengths"])["row"].tolist() == ["2"]


def test_other_columns_do_not_matter(docs: Path) -> None:
    assert not failed(check_corpus(docs, fruit()[0].assign(characters=0, row="x")))


def test_data_docs_hold_one_page_per_task_and_table(docs: Path) -> None:
    corpus, splits = fruit()
    for _ in range(2):
        validate_table(CARD, "corpus", corpus, corpus, docs)
        page = validate_table(CARD, "splits", splits, corpus, docs).page
    assert page.is_file()
    assert "texts_once" in page.read_text(encoding="utf-8")
    assert len(list(docs.rglob("*.html"))) == 3
    assert "fruit / splits" in (docs / "index.html").read_text(encoding="utf-8")
    home = page.parent / "../../../../index.html"
    assert home.resolve() == (docs / "index.html").resolve()  # where the page's link home points
    assert 'href="../../../../index.html"' in page.read_text(encoding="utf-8")


def test_a_suite_is_stored_that_great_expectations_opens_and_extends(docs: Path) -> None:
    import great_expectations as gx
    import great_expectations.expectations as gxe

    check_corpus(docs, fruit()[0])
    suite = gx.ExpectationSuite(**json.loads((docs / "expectations" / "fruit" / "corpus.json").read_text("utf-8")))
    rules = {rule.says for check in CHECKS["corpus"] for rule in check.rules if rule.declared is None}
    assert {expectation.meta["says"] for expectation in suite.expectations} >= rules
    suite.expectations = [gxe.ExpectColumnValueLengthsToBeBetween(column="text", max_value=3)]
    frame = gx.get_context(mode="ephemeral").data_sources.add_pandas("own").add_dataframe_asset("corpus")
    batch = frame.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": fruit()[0]})
    assert not batch.validate(suite).success


def test_nothing_is_printed(docs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    check_corpus(docs, fruit()[0])
    assert capfd.readouterr() == ("", "")


def test_great_expectations_own_errors_are_no_verdict(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Rule("never", "ExpectColumnValuesToNotBeNull", {"column": "no_such_column"})
    monkeypatch.setitem(CHECKS, "corpus", (Check("broken", "", True, (broken,)),))
    with pytest.raises(RuntimeError, match=r"broken: .*no_such_column"):
        check_corpus(docs, fruit()[0])


def test_loading_does_not_import_great_expectations() -> None:
    code = (
        "import traube._pipeline.validation.validate, resources.quality, sys;"
        "sys.exit(not {'great_expectations', 'ftfy'}.isdisjoint(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)


# scale


def test_forty_thousand_rows_that_are_all_wrong(docs: Path) -> None:
    n = 40_000
    corpus = pd.DataFrame({"text_id": [f"{i:016x}" for i in range(n)], "text": "Ã¼ " * 1000})
    splits = pd.DataFrame(
        {"split_set": "default", "split": "s", "level": "fine", "item": 0, "text_id": corpus["text_id"][0],
         "label": [f"l{i}" for i in range(n)], "query_id": None, "part": "test"}
    )  # fmt: skip
    validations = (
        validate_table(CARD, "corpus", corpus, corpus, docs),
        validate_table(CARD, "splits", splits, corpus, docs),
    )
    findings = {f.check.name: f for validation in validations for f in validation.findings}
    for name in ("no_mojibake", "texts_unique", "items_valid", "class_sizes"):
        assert findings[name].offending == n
        assert len(markdown_rows(findings[name].header, findings[name].shown)) < 10_000
    for validation in validations:
        assert validation.page.stat().st_size < 500_000


# for programs


def test_stored_tasks_are_checked_for_a_release(docs: Path, tmp_path: Path) -> None:
    """Tasks that are not stored are passed over; a verdict says whether the check blocks."""
    storage = open_storage(tmp_path)
    corpus, splits = fruit()
    splits.loc[2, "text_id"] = splits["text_id"][0]
    save_corpus(storage, "fruit", corpus, corpus, raw_version="")
    save_rows(storage, CARD, splits)
    complete_task(storage, CARD)
    verdicts = validate_tasks(storage, ["fruit", "vegetables"], docs)
    assert len(verdicts) == len(CHECKS["corpus"]) + len(CHECKS["splits"])
    assert verdicts["fruit/splits/texts_once"] == {"blocking": False, "passed": False, "offending_rows": 2}
    assert verdicts["fruit/corpus/texts_present"] == {"blocking": True, "passed": True, "offending_rows": 0}


def test_a_table_as_markdown() -> None:
    table = markdown(pd.DataFrame({"a|b": [SCRIPT]}))
    assert table == "| a&#124;b |\n| --- |\n| &#60;script&#62;alert(1)&#60;/script&#62; |"
