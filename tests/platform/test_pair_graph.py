"""Pair tasks in the graph: from raw data to stored scores, and checks that stop what is broken."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import dagster as dg
import pytest

from assets.common import MODELS, PAIR_DATA_STAGES, PAIR_MODEL_STAGES, asset_key
from definitions import build_defs
from tests import giccs_like
from traube.engine.pair_scores import ALL
from traube.engine.progress import SILENT
from traube.foundation import paths
from traube.store import Store
from traube.store.pairs import PairStore
from traube.tasks import load_pairs

Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def run(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a job's stages of a pair task, on the hand-written sample or on a card."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    definitions = cache(lambda: build_defs(progress=SILENT))
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions(str(MODELS.name), ["tfidf", "jaccard"])

    def execute(task: str, model: str = "") -> dg.ExecuteInProcessResult:
        stages = PAIR_MODEL_STAGES if model else PAIR_DATA_STAGES
        job = definitions().resolve_job_def("pair_scores" if model else "pair_datasets")
        return job.execute_in_process(
            instance=instance,
            asset_selection=[asset_key(task, stage) for stage in stages],
            raise_on_error=False,
            **({"partition_key": model} if model else {}),
        )

    return execute


def failed(result: dg.ExecuteInProcessResult) -> set[str]:
    return {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}


def test_from_raw_data_to_scores_once(run: Run) -> None:
    read = run("giccs")
    assert read.success and not failed(read)
    scored = run("giccs", "tfidf")
    assert scored.success
    made = scored.asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert made["scored_now"].value == 6  # three comparisons, with and without history
    assert -1 <= float(str(made["pearson"].value)) <= 1
    again = run("giccs", "tfidf").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert again["scored_now"].value == 0 and again["pearson"].value == made["pearson"].value
    own = run("giccs", "jaccard").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert own["scored_now"].value == 2

    store = PairStore.of(Store(paths.home() / "store"))
    task = store.task("giccs")
    assert task is not None and task.data_version == load_pairs("giccs").data_version
    records = list((store.folder / "results" / "giccs").glob("*.json"))
    assert len(records) == 8
    record = store.cell("giccs", records[0].stem)
    assert record is not None and record["run_id"] and record["scores"][0]["group"] == ALL
    assert len(store.alike("giccs", records[0].stem)) == 40  # kept, so that a metric can be added


def test_a_damaged_cell_is_made_again(run: Run) -> None:
    run("giccs")
    run("giccs", "jaccard")
    store = PairStore.of(Store(paths.home() / "store"))
    broken = next((store.folder / "results" / "giccs").glob("*.parquet"))
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 0xFF
    broken.write_bytes(content)
    assert store.cell("giccs", broken.stem) is None
    again = run("giccs", "jaccard").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert again["scored_now"].value == 1
    assert store.cell("giccs", broken.stem) is not None


def test_bad_pairs_are_told_and_nothing_is_scored(run: Run, cards: Path) -> None:
    (cards / "flat.csv").write_text("a,b,score\nred moon,red sun,0.5\nold bread,new car,0.5\nred sun,red moon,0.5\n")
    (cards / "flat.yaml").write_text("pairs: flat.csv\ntext_a: a\ntext_b: b\nscore: score\n")
    result = run("flat")
    assert not result.success
    assert failed(result) == {"scores_vary", "pairs_once"}
    stopped = run("flat", "tfidf")
    assert not stopped.success
    error = next(e for e in stopped.all_events if e.is_step_failure).step_failure_data
    assert "blocking check 'scores_vary' failed" in str(error.user_failure_data and error.user_failure_data.description)


def test_missing_raw_data_is_one_line(run: Run) -> None:
    result = run("stsb_de")
    data = next(e for e in result.all_events if e.is_step_failure).step_failure_data.user_failure_data
    assert data is not None and "get it from https://" in str(data.description)
