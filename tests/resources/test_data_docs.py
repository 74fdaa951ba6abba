"""Pages of Data Docs: Great Expectations finds what pandas found, and shows texts as text."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from resources import data_docs
from resources.data_docs import draw
from tests.errors import refused
from tests.pipeline.validation.fruit import CARD, SCRIPT, corpus_of, fruit
from traube._core.paths import PROJECT
from traube._pipeline.validation.findings import Finding, make_finding
from traube._pipeline.validation.outcomes import RuleOutcome
from traube._pipeline.validation.rules import CHECKS, Check, Rule
from traube._pipeline.validation.validate import Validation, validate_table
from traube._reports.markdown import markdown_rows
from traube.tasks.scored_pairs import PairCard, make_pairs
from traube.tasks.task import Declared, TaskCard

DECLARED = TaskCard(
    name="fruit", declared=Declared(splits=2, rows=(6, 6), classes=(2, 2)), blocking=("texts_once", "no_mojibake")
)
TEXTS = ("gut und schön", None, "", " \u00a0\n\t", "ab ", "schÃ¶n und gut", "x" * 100_001, "gut und schön")


def judge_by_great_expectations(validation: Validation, corpus: pd.DataFrame, docs: Path) -> list[Finding]:
    """Return the findings that follow from Great Expectations' outcomes when it draws its page."""
    run_suite, run = data_docs._run_suite, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_docs, "_run_suite", lambda *given: run.append(run_suite(*given)) or run[0])
        assert draw(validation, docs).is_file()
    outcomes = [
        RuleOutcome(
            **{name: result.expectation_config.meta[name] for name in ("check", "says")},
            success=bool(result.success),
            rows=list(result.result.get("unexpected_index_list") or []),
            count=result.result.get("unexpected_count"),
            observed=result.result.get("observed_value"),
        )
        for result in run[0].results
    ]
    checks = CHECKS[validation.table]
    return [make_finding(check, validation.card, outcomes, validation.judged, corpus) for check in checks]


def corrupted(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A table in which a few cells were emptied, filled with rubbish, or copied from elsewhere."""
    made = table.astype(object)
    for _ in range(rng.integers(1, 6)):
        row, column = rng.integers(len(made)), rng.integers(made.shape[1])
        made.iat[row, column] = [None, made.iat[rng.integers(len(made)), column], ""][rng.integers(3)]
    return made.convert_dtypes() if rng.integers(2) else made.infer_objects()


@pytest.mark.slow
@pytest.mark.parametrize("card", [CARD, DECLARED])
def test_great_expectations_and_pandas_find_the_same_in_corpora(docs: Path, card: TaskCard) -> None:
    corpus, failed = fruit()[0], set()
    same_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3, corpus["text_id"][0]))
    no_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3))
    for table in (corpus, corpus.head(0), corpus_of(list(TEXTS)), same_id, no_id):
        validation = validate_table(card, "corpus", table, table)
        found = validation.findings
        assert judge_by_great_expectations(validation, table, docs) == found
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["corpus"]}  # each was seen to fail, and above to pass


@pytest.mark.slow
def test_great_expectations_and_pandas_find_the_same_in_splits(docs: Path) -> None:
    corpus, splits = fruit()
    rng, failed = np.random.default_rng(0), set()
    tables = [splits, splits.head(0), splits.assign(label=None), splits.assign(part="train"), splits.assign(label="a")]
    one_text = [
        splits.assign(text_id=splits["text_id"].where(splits.index != i, splits["text_id"][0])) for i in (2, 7, 12)
    ]
    for table in [*tables, *one_text, *(corrupted(splits, rng) for _ in range(4))]:
        validation = validate_table(DECLARED, "splits", table, corpus)
        found = validation.findings
        assert judge_by_great_expectations(validation, corpus, docs) == found
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["splits"]}


@pytest.mark.slow
def test_great_expectations_and_pandas_find_the_same_in_pairs(docs: Path) -> None:
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
        validation = validate_table(card, "pairs", table, task.corpus)
        found = validation.findings
        assert judge_by_great_expectations(validation, task.corpus, docs) == found
        failed |= {finding.check.name for finding in found if not finding.passed}
    assert failed == {check.name for check in CHECKS["pairs"]}


def test_texts_are_only_text_in_markdown_and_in_data_docs(docs: Path) -> None:
    corpus = corpus_of([SCRIPT, "a | b\n![x](http://example.org/x.png) `c` $100 ${foo}", "ok, dieser Text ist gut"])
    splits = (
        fruit()[1]
        .head(3)
        .assign(text_id=corpus["text_id"], label=pd.Series([SCRIPT, "b|c", None]), split=SCRIPT, item=0, part=SCRIPT)
    )
    on_corpus = validate_table(CARD, "corpus", pd.concat([corpus, corpus]), pd.concat([corpus, corpus]))
    on_splits = validate_table(CARD, "splits", splits, corpus)
    for validation in (on_corpus, on_splits):
        page = draw(validation, docs).read_text(encoding="utf-8")
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


def test_data_docs_hold_one_page_per_task_and_table(docs: Path) -> None:
    corpus, splits = fruit()
    for _ in range(2):
        draw(validate_table(CARD, "corpus", corpus, corpus), docs)
        page = draw(validate_table(CARD, "splits", splits, corpus), docs)
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

    draw(validate_table(CARD, "corpus", fruit()[0], fruit()[0]), docs)
    suite = gx.ExpectationSuite(**json.loads((docs / "expectations" / "fruit" / "corpus.json").read_text("utf-8")))
    rules = {rule.says for check in CHECKS["corpus"] for rule in check.rules if rule.declared is None}
    assert {expectation.meta["says"] for expectation in suite.expectations} >= rules
    suite.expectations = [gxe.ExpectColumnValueLengthsToBeBetween(column="text", max_value=3)]
    frame = gx.get_context(mode="ephemeral").data_sources.add_pandas("own").add_dataframe_asset("corpus")
    batch = frame.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": fruit()[0]})
    assert not batch.validate(suite).success


def test_forty_thousand_rows_that_are_all_wrong(docs: Path) -> None:
    n = 40_000
    texts = ["Ã¼ " * 1000] * 100 + ["Ã¼"] * (n - 100)  # those that are shown are long, too
    corpus = pd.DataFrame({"text_id": [f"{i:016x}" for i in range(n)], "text": texts})
    splits = pd.DataFrame(
        {"split_set": "default", "split": "s", "level": "fine", "item": 0, "text_id": corpus["text_id"][0],
         "label": [f"l{i}" for i in range(n)], "query_id": None, "part": "test"}
    )  # fmt: skip
    validations = (validate_table(CARD, "corpus", corpus, corpus), validate_table(CARD, "splits", splits, corpus))
    findings = {f.check.name: f for validation in validations for f in validation.findings}
    for name in ("no_mojibake", "texts_unique", "items_valid", "class_sizes"):
        assert findings[name].offending == n
        assert len(markdown_rows(findings[name].header, findings[name].shown)) < 10_000
    for validation in validations:
        assert draw(validation, docs).stat().st_size < 500_000


def test_nothing_is_printed(docs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    draw(validate_table(CARD, "corpus", fruit()[0], fruit()[0]), docs)
    assert capfd.readouterr() == ("", "")


def test_what_great_expectations_finds_otherwise_is_an_error(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validation = validate_table(CARD, "corpus", fruit()[0], fruit()[0])
    false = [replace(finding, passed=not finding.passed) for finding in validation.findings]
    with pytest.raises(RuntimeError):
        draw(replace(validation, findings=false), docs)
    broken = Rule("never", "ExpectColumnValuesToNotBeNull", {"column": "no_such_column"})
    monkeypatch.setitem(CHECKS, "corpus", (Check("broken", "", True, (broken,)),))
    with refused(RuntimeError, "no_such_column"):
        draw(validation, docs)


def test_loading_does_not_import_great_expectations() -> None:
    """Nor does the resource that draws them: it is imported with Traube's definitions."""
    code = (
        "import traube._pipeline.validation.validate, resources.data_docs, sys;"
        "sys.exit(not {'great_expectations', 'ftfy'}.isdisjoint(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)
