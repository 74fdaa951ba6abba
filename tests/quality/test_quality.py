"""Checks find what they are for, say where it is, and stop what they should stop."""

import html
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import pandas as pd
import pytest
from ftfy.badness import MOJIBAKE_CATEGORIES, is_bad
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from resources import quality
from resources.quality import CHECKS, CORPUS_CHECKS, SPLITS_CHECKS, QualityResource, check_specs
from traube.foundation.paths import PROJECT
from traube.tasks.task import SPLIT_COLUMNS, CheckName, Declared, TaskCard, text_id

CARD = TaskCard(name="fruit")
CORPUS_KEY = dg.AssetKey(["fruit", "corpus"])
SPLITS_KEY = dg.AssetKey(["fruit", "splits"])
SCRIPT = "<script>alert(1)</script>"


def corpus_of(texts: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"text_id": [text_id(str(t)) for t in texts], "text": pd.array(texts, dtype="str")})


def fruit() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A corpus and two faultless splits of six texts in two classes, with a text for training."""
    corpus = corpus_of([f"Ein Text über Äpfel und Birnen, Nummer {i}" for i in range(13)])
    rows = [
        ("default", f"set_{i // 6}", "fine", i % 6, corpus["text_id"][i], "ab"[i % 2], None, "test") for i in range(12)
    ]
    rows.append(("default", "set_0", "fine", 6, corpus["text_id"][12], "a", None, "train"))
    return corpus, pd.DataFrame(rows, columns=list(SPLIT_COLUMNS))


@pytest.fixture
def docs(tmp_path: Path) -> QualityResource:
    return QualityResource(folder=str(tmp_path / "docs"))


Results = dict[str, dg.AssetCheckResult]


def check_corpus(docs: QualityResource, corpus: pd.DataFrame, card: TaskCard = CARD) -> Results:
    return {result.check_name or "": result for result in docs.check_corpus(card, CORPUS_KEY, corpus)}


def check_splits(docs: QualityResource, splits: pd.DataFrame, card: TaskCard = CARD) -> Results:
    return {result.check_name or "": result for result in docs.check_splits(card, SPLITS_KEY, splits, fruit()[0])}


def value(result: dg.AssetCheckResult, name: str) -> Any:
    return result.metadata[name].value


def examples(result: dg.AssetCheckResult) -> pd.DataFrame:
    """The rows of the Markdown table."""
    header, _, *lines = [line.strip("| ").split(" | ") for line in value(result, "examples").splitlines()]
    return pd.DataFrame([[html.unescape(cell) for cell in line] for line in lines], columns=header)


def failed(results: Results) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


def test_faultless_tables_pass_every_check(docs: QualityResource) -> None:
    corpus, splits = fruit()
    declared = TaskCard(name="fruit", declared=Declared(splits=2, rows=(6, 6), classes=(2, 2)))
    on_corpus, on_splits = check_corpus(docs, corpus), check_splits(docs, splits, declared)
    assert not failed(on_corpus)
    assert not failed(on_splits)
    assert list(on_corpus) == [check.name for check in CORPUS_CHECKS]
    assert list(on_splits) == [check.name for check in SPLITS_CHECKS]
    assert value(on_splits["items_valid"], "offending_rows") == 0
    assert value(on_splits["items_valid"], "total_rows") == 13
    assert "examples" not in on_splits["items_valid"].metadata


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
def test_bad_texts_are_found(docs: QualityResource, texts: list[Any], check: set[str]) -> None:
    results = check_corpus(docs, corpus_of(texts))
    assert failed(results) == check
    for name in check:
        assert value(results[name], "offending_rows") == 1
        assert value(results[name], "percent") == 50
        assert examples(results[name])["row"].tolist() == ["1"]


def test_a_corpus_without_texts_fails(docs: QualityResource) -> None:
    results = check_corpus(docs, fruit()[0].head(0))
    assert failed(results) == {"texts_present"}
    assert "the table has rows: no, but 0" in str(results["texts_present"].description)


def test_texts_and_ids_that_occur_twice_are_found(docs: QualityResource) -> None:
    corpus = fruit()[0]
    same_text = corpus.assign(
        text_id=[f"id{i}" for i in range(13)], text=corpus["text"].where(corpus.index != 3, corpus["text"][0])
    )
    results = check_corpus(docs, same_text)
    assert failed(results) == {"texts_unique"}
    assert value(results["texts_unique"], "offending_rows") == 2
    same_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3, corpus["text_id"][0]))
    assert failed(check_corpus(docs, same_id)) == {"text_ids_unique"}
    no_id = corpus.assign(text_id=corpus["text_id"].where(corpus.index != 3))
    assert failed(check_corpus(docs, no_id)) == {"text_ids_unique"}


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
def test_broken_items_are_found(docs: QualityResource, row: int, column: str, wrong: Any) -> None:
    splits = fruit()[1]
    splits[column] = splits[column].astype(object)
    splits.loc[row, column] = wrong
    results = check_splits(docs, splits)
    assert "items_valid" in failed(results)
    assert "1" in set(examples(results["items_valid"])["row"])


def test_a_row_that_breaks_two_rules_counts_once(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[1, "text_id"] = "0" * 16
    splits.loc[1, "part"] = "dev"
    result = check_splits(docs, splits)["items_valid"]
    assert value(result, "offending_rows") == 1
    assert [fared for fared in value(result, "rules").values() if fared != "holds"] == ["not in 1 rows"] * 2


def test_a_splits_table_without_rows_fails(docs: QualityResource) -> None:
    assert failed(check_splits(docs, fruit()[1].head(0))) == {"items_valid"}


@pytest.mark.parametrize("label", [None, "", "  "])
def test_a_missing_label_is_found(docs: QualityResource, label: str | None) -> None:
    splits = fruit()[1]
    splits.loc[2, "label"] = label
    results = check_splits(docs, splits)
    assert failed(results) == {"labels_present", "class_sizes"}
    assert examples(results["labels_present"])["row"].tolist() == ["2"]


def test_a_task_without_labels_passes(docs: QualityResource) -> None:
    splits = fruit()[1]
    for nothing in (None, pd.array([None] * 13, dtype="str")):
        assert not failed(check_splits(docs, splits.assign(label=nothing)))


def test_missing_labels_fail_where_the_card_declares_classes(docs: QualityResource) -> None:
    card = TaskCard(name="fruit", declared=Declared(classes=(2, 9)))
    assert failed(check_splits(docs, fruit()[1].assign(label=None), card)) == {"labels_present"}


def test_a_split_with_one_class_is_found_and_shown_once(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[splits["split"] == "set_1", "label"] = "a"
    results = check_splits(docs, splits)
    assert failed(results) == {"two_classes"}
    assert value(results["two_classes"], "offending_rows") == 6
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
def test_sizes_other_than_declared_are_found(docs: QualityResource, declared: Declared) -> None:
    results = check_splits(docs, fruit()[1], TaskCard(name="fruit", declared=declared))
    assert failed(results) == {"declared_sizes"}
    assert set(examples(results["declared_sizes"])["split"]) == {"set_0", "set_1"}


def test_declared_splits_that_are_all_absent_are_found(docs: QualityResource) -> None:
    card = TaskCard(name="fruit", declared=Declared(splits=2))
    assert failed(check_splits(docs, fruit()[1].assign(part="train"), card)) == {"declared_sizes"}


def test_a_text_that_occurs_twice_in_a_split_is_found(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]  # rows 0 and 2 are in one split and have one label
    results = check_splits(docs, splits)
    assert failed(results) == {"texts_once"}
    assert value(results["texts_once"], "offending_rows") == 2
    assert examples(results["texts_once"])["times_in_split"].tolist() == ["2"]


def test_a_text_may_occur_in_two_splits_and_two_levels(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[6, "text_id"] = splits["text_id"][0]
    coarse = splits.assign(level="coarse", label=splits["label"].str.upper())
    assert not failed(check_splits(docs, pd.concat([splits, coarse])))


def test_a_text_with_two_labels_is_found_with_both(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[7, "text_id"] = splits["text_id"][0]  # another split, another label
    results = check_splits(docs, splits)
    assert failed(results) == {"one_label"}
    assert set(examples(results["one_label"])["label"]) == {"a", "b"}


def test_a_small_class_is_found(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[0, "label"] = "c"
    results = check_splits(docs, splits)
    assert failed(results) == {"class_sizes"}
    assert set(examples(results["class_sizes"])["label"]) == {"c", "a"}  # a has two texts left


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_text_that_is_seen_in_training_is_found(docs: QualityResource, part: str) -> None:
    splits = fruit()[1]
    splits.loc[12, ["text_id", "part"]] = [splits["text_id"][0], part]
    results = check_splits(docs, splits)
    assert failed(results) == {"parts_disjoint"}
    assert examples(results["parts_disjoint"])["row"].tolist() == ["0"]
    other_set = splits.assign(split_set=["default"] * 12 + ["other"])
    assert not failed(check_splits(docs, other_set))


# warnings and blocking checks


def test_what_blocks_and_what_warns() -> None:
    blocking = {
        spec.name for table in ("corpus", "splits") for spec in check_specs(CORPUS_KEY, CARD, table) if spec.blocking
    }
    assert blocking == {
        "texts_present",
        "text_ids_unique",
        "items_valid",
        "labels_present",
        "two_classes",
        "declared_sizes",
    }
    assert all(len(check_specs(CORPUS_KEY, CARD, table)) <= 8 for table in ("corpus", "splits"))
    assert all(spec.description and spec.asset_key == SPLITS_KEY for spec in check_specs(SPLITS_KEY, CARD, "splits"))


def test_a_failed_check_is_a_warning_or_an_error(docs: QualityResource) -> None:
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]
    splits.loc[3, "part"] = "dev"
    results = check_splits(docs, splits)
    assert results["texts_once"].severity == dg.AssetCheckSeverity.WARN
    assert results["items_valid"].severity == dg.AssetCheckSeverity.ERROR


def test_a_card_makes_a_warning_block(docs: QualityResource) -> None:
    card = TaskCard(name="fruit", blocking=("texts_once", "no_mojibake"))
    specs = {spec.name: spec.blocking for spec in check_specs(SPLITS_KEY, card, "splits")}
    assert specs["texts_once"]
    assert not specs["one_label"]
    assert {spec.name: spec.blocking for spec in check_specs(CORPUS_KEY, card, "corpus")}["no_mojibake"]
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]
    assert check_splits(docs, splits, card)["texts_once"].severity == dg.AssetCheckSeverity.ERROR


def test_a_card_cannot_raise_a_check_that_does_not_exist() -> None:
    with pytest.raises(ValidationError, match="'texts_once'"):
        TaskCard.model_validate({"name": "fruit", "blocking": ["text_once"]})


def test_a_card_may_name_every_check_there_is() -> None:
    assert {check.name for checks in CHECKS.values() for check in checks} == set(get_args(CheckName))


# what people see


def test_texts_are_only_text_in_markdown_and_in_data_docs(docs: QualityResource) -> None:
    corpus = corpus_of([SCRIPT, "a | b\n![x](http://example.org/x.png) `c` $100 ${foo}", "ok, dieser Text ist gut"])
    splits = (
        fruit()[1]
        .head(3)
        .assign(text_id=corpus["text_id"], label=pd.Series([SCRIPT, "b|c", None]), split=SCRIPT, item=0, part=SCRIPT)
    )
    on_corpus = docs.check_corpus(CARD, CORPUS_KEY, pd.concat([corpus, corpus]))
    on_splits = docs.check_splits(CARD, SPLITS_KEY, splits, corpus)
    for result in [*on_corpus, *on_splits]:
        page = Path(value(result, "data_docs")).read_text(encoding="utf-8")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
        assert "${foo}" in page
    shown = [value(result, "examples") for result in [*on_corpus, *on_splits] if not result.passed]
    assert shown
    for table in shown:
        assert "<script" not in table
        assert "![" not in table
        assert "&#60;script&#62;alert(1)" in table
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_at_most_twenty_short_rows_are_shown_of_all_that_are_counted(docs: QualityResource) -> None:
    corpus = corpus_of([f"Ã¼ {i} " + "sehr lang " * 100 for i in range(50)])
    result = check_corpus(docs, corpus)["no_mojibake"]
    assert value(result, "offending_rows") == 50
    shown = examples(result)
    assert shown["row"].tolist() == [str(i) for i in range(20)]
    assert shown["text"].str.len().max() <= 120
    assert shown["text"].str.endswith("…").all()


def test_odd_characters_are_shown_and_stored(docs: QualityResource) -> None:
    odd = "\x00\x1b[31m \u202e Ã¼ \u200b"
    result = check_corpus(docs, pd.DataFrame({"text_id": ["1"], "text": [odd]}))["no_mojibake"]
    assert examples(result)["text"][0] == "\ufffd\ufffd[31m \ufffd Ã¼ \ufffd"


def test_rows_are_numbered_by_position(docs: QualityResource) -> None:
    corpus = corpus_of(["gut und schön", "auch gut und schön", "x"]).set_index(pd.Index([7, 7, 3]))
    assert examples(check_corpus(docs, corpus)["text_lengths"])["row"].tolist() == ["2"]


def test_other_columns_do_not_matter(docs: QualityResource) -> None:
    assert not failed(check_corpus(docs, fruit()[0].assign(characters=0, row="x")))


def test_data_docs_hold_one_page_per_task_and_table(docs: QualityResource) -> None:
    corpus, splits = fruit()
    for _ in range(2):
        check_corpus(docs, corpus)
        results = check_splits(docs, splits)
    page = Path(value(results["items_valid"], "data_docs"))
    assert page.is_file()
    assert "texts_once" in page.read_text(encoding="utf-8")
    assert len(list(docs.root.rglob("*.html"))) == 3
    assert "fruit / splits" in (docs.root / "index.html").read_text(encoding="utf-8")
    home = page.parent / "../../../../index.html"
    assert home.resolve() == (docs.root / "index.html").resolve()  # where the page's link home points
    assert 'href="../../../../index.html"' in page.read_text(encoding="utf-8")


def test_nothing_is_printed(docs: QualityResource, capfd: pytest.CaptureFixture[str]) -> None:
    check_corpus(docs, fruit()[0])
    assert capfd.readouterr() == ("", "")


def test_great_expectations_own_errors_are_no_verdict(docs: QualityResource, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = quality.Rule("never", "ExpectColumnValuesToNotBeNull", {"column": "no_such_column"})
    monkeypatch.setitem(quality.CHECKS, "corpus", (quality.Check("broken", "", True, (broken,)),))
    with pytest.raises(RuntimeError, match=r"broken: .*no_such_column"):
        check_corpus(docs, fruit()[0])


def test_loading_does_not_import_great_expectations() -> None:
    code = "import resources.quality, sys; sys.exit(any(m in sys.modules for m in ('great_expectations', 'ftfy')))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)


# scale


def test_forty_thousand_rows_that_are_all_wrong(docs: QualityResource) -> None:
    n = 40_000
    corpus = pd.DataFrame({"text_id": [f"{i:016x}" for i in range(n)], "text": "Ã¼ " * 1000})
    splits = pd.DataFrame(
        {"split_set": "default", "split": "s", "level": "fine", "item": 0, "text_id": corpus["text_id"][0],
         "label": [f"l{i}" for i in range(n)], "query_id": None, "part": "test"}
    )  # fmt: skip
    on_corpus = {r.check_name: r for r in docs.check_corpus(CARD, CORPUS_KEY, corpus)}
    on_splits = {r.check_name: r for r in docs.check_splits(CARD, SPLITS_KEY, splits, corpus)}
    for result in (
        on_corpus["no_mojibake"],
        on_corpus["texts_unique"],
        on_splits["items_valid"],
        on_splits["class_sizes"],
    ):
        assert value(result, "offending_rows") == n
        assert len(value(result, "examples")) < 10_000
        assert Path(value(result, "data_docs")).stat().st_size < 500_000


_CHARACTERS = st.sampled_from("aZ .,?!\n\u000b\u001cé中") | st.from_regex(
    f"[{''.join(MOJIBAKE_CATEGORIES.values())}]", fullmatch=True
)


@settings(deadline=None)
@given(st.lists(st.text(_CHARACTERS, max_size=8), min_size=1, max_size=200))
def test_mojibake_is_what_ftfy_says(texts: list[str]) -> None:
    found = quality._mojibake(pd.Series(texts, dtype="string[pyarrow]"))
    assert found.tolist() == [is_bad(text) for text in texts]


# in Dagster


def run(tmp_path: Path, fault: bool, card: TaskCard = CARD) -> tuple[dg.ExecuteInProcessResult, list[str]]:
    """Materialise a splits asset with its checks, and an asset downstream of it."""
    ran: list[str] = []

    @dg.asset(key=SPLITS_KEY, check_specs=check_specs(SPLITS_KEY, card, "splits"))
    def splits(quality: QualityResource) -> dg.MaterializeResult:
        corpus, table = fruit()
        if fault:
            table.loc[2, "text_id"] = table["text_id"][0]
        return dg.MaterializeResult(check_results=quality.check_splits(card, SPLITS_KEY, table, corpus))

    @dg.asset(key=["fruit", "embeddings"], deps=[splits])
    def embeddings() -> None:
        ran.append("embeddings")

    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"quality": QualityResource(folder=str(tmp_path))}
        return dg.materialize([splits, embeddings], instance=instance, resources=resources, raise_on_error=False), ran


def test_a_warning_lets_the_task_go_on(tmp_path: Path) -> None:
    result, ran = run(tmp_path, fault=True)
    assert result.success
    assert ran == ["embeddings"]
    evaluations = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert len(evaluations) == len(SPLITS_CHECKS)
    assert not evaluations["texts_once"].passed
    assert evaluations["texts_once"].severity == dg.AssetCheckSeverity.WARN


def test_a_blocking_failure_stops_what_is_downstream(tmp_path: Path) -> None:
    card = TaskCard(name="fruit", blocking=("texts_once",))
    result, ran = run(tmp_path, fault=True, card=card)
    assert not result.success
    assert ran == []
    result, ran = run(tmp_path, fault=False, card=card)
    assert result.success
    assert ran == ["embeddings"]
