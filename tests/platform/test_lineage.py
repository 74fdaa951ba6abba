"""Lineage begins at the source: raw data with its card, and weights, whose versions tell what is out of date."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from assets.common import MODELS
from assets.sources import observe_weights
from operations.launch import DagsterLauncher
from tests.platform.conftest import word_rows, write_task
from traube._pipeline.request import Request
from traube._pipeline.survey import get_raw_version
from traube._storage import Storage
from traube.models import load_model

MakeRequest = Callable[..., Request]
CORPUS, RAW = dg.AssetKey(["words", "corpus"]), dg.AssetKey(["words", "raw"])
EMBEDDINGS, WEIGHTS = dg.AssetKey(["words", "embeddings"]), dg.AssetKey("weights")


def find_outdated(launcher: DagsterLauncher) -> set[tuple[str, str | None]]:
    """Return what Dagster's pages call out of date, with its partition."""
    instance, graph = launcher.instance, launcher.definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    outdated = set()
    for key in graph.get_all_asset_keys():
        for partition in ("bow",) if graph.get(key).partitions_def and "sweeps" not in key.path else (None,):
            if key.path[0] == "words" and resolver.get_status(key, partition).value == "STALE":
                outdated.add((key.to_user_string(), partition))
    return outdated


def get_version(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None) -> str:
    """Return the version of the last observation."""
    of = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    (record,) = instance.fetch_observations(of, limit=1).records
    assert record.asset_observation is not None and record.asset_observation.tags is not None
    return record.asset_observation.tags["dagster/data_version"]


def test_texts_come_from_raw_data_and_vectors_from_weights(launcher: DagsterLauncher) -> None:
    graph = launcher.definitions.resolve_asset_graph()
    assert graph.get(CORPUS).parent_keys == {RAW}
    assert WEIGHTS in graph.get(EMBEDDINGS).parent_keys
    assert {key.to_user_string() for key in graph.observable_asset_keys} == {"words/raw", "weights"}


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
def test_a_change_of_raw_data_makes_the_texts_out_of_date_until_they_are_read(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest, storage: Storage
) -> None:
    instance, request = launcher.instance, request_for(["words"], ["bow"])
    model = load_model("bow", precision=request.protocol.precision)
    assert get_version(instance, WEIGHTS, "bow") == model.fingerprint
    assert get_version(instance, RAW) == get_raw_version("words", storage)
    assert find_outdated(launcher) == set()

    write_task(cards, "words", word_rows()[:-1])
    graph = launcher.definitions.resolve_implicit_global_asset_job_def()
    assert graph.execute_in_process(instance=instance, asset_selection=[RAW]).success  # as the button *Observe* does
    assert find_outdated(launcher) == {("words/corpus", None)}
    assert launcher.datasets(["words"]) == []
    assert launcher.evaluate("bow", ["words"], request) == []
    assert get_version(instance, RAW) == get_raw_version("words", storage)
    assert find_outdated(launcher) == set()


@pytest.mark.begin_with("evaluated")
def test_other_weights_make_a_models_partition_out_of_date(launcher: DagsterLauncher) -> None:
    instance = launcher.instance
    assert MODELS.name is not None
    instance.add_dynamic_partitions(MODELS.name, ["tfidf"])
    observe_weights(instance, {"tfidf": "others"})
    assert find_outdated(launcher) == set()
    observe_weights(instance, {"bow": "others"})
    assert ("words/embeddings", "bow") in find_outdated(launcher)
    observe_weights(instance, {"bow": "others"})  # reported once
    bow = dg.AssetRecordsFilter(asset_key=WEIGHTS, asset_partitions=["bow"])
    assert len(instance.fetch_observations(bow, limit=9).records) == 2
    assert len(instance.fetch_materializations(bow, limit=9).records) == 2
    assert instance.get_materialized_partitions(WEIGHTS) == {"bow", "tfidf"}  # by which the UI calls no other missing
    graph = launcher.definitions.resolve_implicit_global_asset_job_def()
    assert graph.execute_in_process(instance=instance, asset_selection=[WEIGHTS], partition_key="bow").success
    assert find_outdated(launcher) == set()  # they are what they were again


@pytest.mark.begin_with("evaluated")
def test_automation_waits_for_no_source(launcher: DagsterLauncher) -> None:
    """Nobody materializes a source: to an automation condition it would be missing for ever."""
    assert MODELS.name is not None
    launcher.instance.add_dynamic_partitions(MODELS.name, ["tfidf"])
    requested = dg.evaluate_automation_conditions(defs=launcher.definitions, instance=launcher.instance)
    assert requested.get_requested_partitions(EMBEDDINGS) == {"tfidf"}
