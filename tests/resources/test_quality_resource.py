"""Findings as Dagster's asset checks: declared, reported, and blocking."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from resources.quality import QualityResource, make_check_specs
from tests.pipeline.validation.fruit import CARD, SCRIPT, fruit
from traube._pipeline.executors import ProcessExecutor
from traube._pipeline.validation.rules import CHECKS
from traube._storage import CheckRow, Storage
from traube.tasks.task import TaskCard

CORPUS_KEY = dg.AssetKey(["fruit", "corpus"])
SPLITS_KEY = dg.AssetKey(["fruit", "splits"])


def check_splits(docs: Path, splits: pd.DataFrame, card: TaskCard = CARD) -> dict[str, dg.AssetCheckResult]:
    quality, storage = QualityResource(folder=str(docs)), Storage(docs / "home")
    results = quality.check(card, "splits", splits, fruit()[0], ProcessExecutor(), storage, "v1")
    kept = {row.name: row.passed for row in storage.read_rows(CheckRow, task="fruit", data_version="v1")}
    assert kept == {f"splits/{result.check_name}": result.passed for result in results}
    return {result.check_name or "": result for result in results}


def test_every_check_is_declared() -> None:
    for key, table in ((CORPUS_KEY, "corpus"), (SPLITS_KEY, "splits")):
        specs = make_check_specs(CARD, table)
        assert [spec.name for spec in specs] == [check.name for check in CHECKS[table]]
        assert len(specs) <= 8
        assert all(spec.description and spec.asset_key == key for spec in specs)
        assert [spec.blocking for spec in specs] == [check.blocking for check in CHECKS[table]]


def test_a_failed_check_is_a_warning_or_an_error(docs: Path) -> None:
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]
    splits.loc[3, "part"] = "dev"
    results = check_splits(docs, splits)
    assert results["texts_once"].severity == dg.AssetCheckSeverity.WARN
    assert results["items_valid"].severity == dg.AssetCheckSeverity.ERROR


def test_a_card_makes_a_warning_block(docs: Path) -> None:
    card = TaskCard(name="fruit", blocking=("texts_once", "no_mojibake"))
    specs = {spec.name: spec.blocking for spec in make_check_specs(card, "splits")}
    assert specs["texts_once"]
    assert not specs["one_label"]
    assert {spec.name: spec.blocking for spec in make_check_specs(card, "corpus")}["no_mojibake"]
    splits = fruit()[1]
    splits.loc[2, "text_id"] = splits["text_id"][0]
    assert check_splits(docs, splits, card)["texts_once"].severity == dg.AssetCheckSeverity.ERROR


def test_a_result_says_how_many_rows_offend_and_shows_them_as_text(docs: Path) -> None:
    splits = fruit()[1]
    splits.loc[2, ["text_id", "split"]] = [splits["text_id"][0], SCRIPT]
    result = check_splits(docs, splits.assign(part="dev"))["items_valid"]
    metadata = {name: entry.value for name, entry in result.metadata.items()}
    assert (metadata["offending_rows"], metadata["total_rows"], metadata["percent"]) == (13, 13, 100)
    assert "not in 13 rows" in metadata["rules"].values()
    assert "not in 13 rows" in str(result.description)
    assert "<script" not in metadata["examples"] and "&#60;script&#62;" in metadata["examples"]
    assert Path(metadata["data_docs"]).is_relative_to(docs)
    passed = check_splits(docs, fruit()[1])["items_valid"]
    assert "examples" not in passed.metadata


# in a run


def run(tmp_path: Path, fault: bool, card: TaskCard = CARD) -> tuple[dg.ExecuteInProcessResult, list[str]]:
    """Materialise a splits asset with its checks, and an asset downstream of it."""
    ran: list[str] = []

    @dg.asset(key=SPLITS_KEY, check_specs=make_check_specs(card, "splits"))
    def splits(quality: QualityResource) -> dg.MaterializeResult:
        corpus, table = fruit()
        if fault:
            table.loc[2, "text_id"] = table["text_id"][0]
        found = quality.check(card, "splits", table, corpus, ProcessExecutor(), Storage(tmp_path / "home"), "v1")
        return dg.MaterializeResult(check_results=found)

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
    assert len(evaluations) == len(CHECKS["splits"])
    assert not evaluations["texts_once"].passed
    assert evaluations["texts_once"].severity == dg.AssetCheckSeverity.WARN


@pytest.mark.slow
def test_a_blocking_failure_stops_what_is_downstream(tmp_path: Path) -> None:
    card = TaskCard(name="fruit", blocking=("texts_once",))
    result, ran = run(tmp_path, fault=True, card=card)
    assert not result.success
    assert ran == []
    result, ran = run(tmp_path, fault=False, card=card)
    assert result.success
    assert ran == ["embeddings"]
