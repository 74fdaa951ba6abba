"""Declarative automation is offered and off; its conditions step round what Dagster's own `eager` falls into."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from assets.common import BACKFILL, MODELS, REBUILD, data_keys, model_keys
from definitions import build_defs
from operations.launch import DagsterLauncher
from tests.platform.conftest import sensor_of
from traube._pipeline.request import Request


def test_it_is_offered_and_off() -> None:
    sensor = sensor_of(build_defs(), "declarative_automation")
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED


def graph(scores: dg.AutomationCondition, board: dg.AutomationCondition) -> dg.Definitions:
    """A table after a partitioned asset, after a checked one: the shape of the benchmark, with nothing to compute."""

    @dg.asset(check_specs=[dg.AssetCheckSpec("sound", asset="data", blocking=True)])
    def data(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        passed = context.run.tags.get("sound") != "no"
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=passed)])

    @dg.asset(deps=[data], partitions_def=MODELS, automation_condition=scores)
    def score() -> None: ...

    @dg.asset(deps=[dg.AssetDep("score", partition_mapping=dg.AllPartitionMapping())], automation_condition=board)
    def table() -> None: ...

    return dg.Definitions(assets=[data, score, table])


@pytest.fixture
def instance() -> dg.DagsterInstance:
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions(str(MODELS.name), ["bow", "tfidf"])
    return instance


def make(
    defs: dg.Definitions, instance: dg.DagsterInstance, name: str, model: str | None = None, sound: str = "yes"
) -> None:
    assets = [a for a in defs.assets or [] if isinstance(a, dg.AssetsDefinition)]
    selected = dg.AssetSelection.assets(name)
    dg.materialize(
        assets, selection=selected, instance=instance, partition_key=model, tags={"sound": sound}, raise_on_error=False
    )


def test_partitions_that_were_there_before_are_filled(instance: dg.DagsterInstance) -> None:
    eager, ours = graph(dg.AutomationCondition.eager(), REBUILD), graph(BACKFILL, REBUILD)
    make(ours, instance, "data")
    score = dg.AssetKey("score")
    assert dg.evaluate_automation_conditions(eager, instance).get_num_requested(score) == 0
    assert dg.evaluate_automation_conditions(ours, instance).get_num_requested(score) == 2


def test_a_check_that_failed_in_an_earlier_run_holds_its_downstream(instance: dg.DagsterInstance) -> None:
    defs = graph(BACKFILL, REBUILD)
    make(defs, instance, "data", sound="no")
    assert dg.evaluate_automation_conditions(defs, instance).get_num_requested(dg.AssetKey("score")) == 0
    make(defs, instance, "data")
    assert dg.evaluate_automation_conditions(defs, instance).get_num_requested(dg.AssetKey("score")) == 2


@pytest.mark.parametrize(("board", "rebuilt"), [(dg.AutomationCondition.eager(), 0), (REBUILD, 1)])
def test_the_table_does_not_wait_for_a_new_model(
    instance: dg.DagsterInstance, board: dg.AutomationCondition, rebuilt: int
) -> None:
    defs = graph(BACKFILL, board)
    make(defs, instance, "data")
    first = dg.evaluate_automation_conditions(defs, instance)
    make(defs, instance, "score", "bow")  # tfidf has no score yet
    again = dg.evaluate_automation_conditions(defs, instance, cursor=first.cursor)
    assert again.get_num_requested(dg.AssetKey("table")) == rebuilt


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_the_benchmarks_own_assets_carry_the_conditions(
    launcher: DagsterLauncher, cards: Path, request_for: Callable[..., Request]
) -> None:
    defs, own = build_defs(), dg.AssetSelection.assets(*data_keys(["words"]), *model_keys(["words"], ()))
    found = dg.evaluate_automation_conditions(defs, launcher.instance, asset_selection=own)
    assert found.get_num_requested(dg.AssetKey(["words", "embeddings"])) == 1  # bow
    launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"]))
    found = dg.evaluate_automation_conditions(defs, launcher.instance, asset_selection=own)
    assert found.get_num_requested(dg.AssetKey(["words", "embeddings"])) == 0
