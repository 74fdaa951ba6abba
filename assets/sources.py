"""The sources of lineage, observed and not made: `T/raw`, a task's raw files and card, and `weights`, those of each model."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import dagster as dg

from assets.common import MODELS, RAW, WEIGHTS, asset_key, final_failures, tag_family
from traube._core.errors import TraubeError, Unavailable
from traube._pipeline.params import load_params
from traube.models import load_model
from traube.tasks import Source, get_source

VERSION_TAG = "dagster/data_version"  # by which Dagster knows the version of an observation


def raw_asset(source: Source) -> dg.AssetsDefinition:
    """Return the asset of what a task is read from. A change of the files, the card or the reader is another version."""
    key = asset_key(source.name, RAW)
    spec = dg.AssetSpec(
        key,
        group_name=source.name,
        tags=tag_family(source),
        kinds={"file"},
        description=f"The raw data of {source.name} and its card: what the texts are read from, and how.",
        metadata={"source": source.card.source, "license": source.card.license},
    )

    @dg.multi_observable_source_asset(name=key.to_python_identifier(), specs=[spec])
    def raw() -> dg.ObserveResult:
        with final_failures():
            if reason := source.missing():
                raise Unavailable(reason)
            return dg.ObserveResult(
                data_version=dg.DataVersion(source.raw_version()), metadata={"files": len(source.files())}
            )

    return raw


def weights_asset() -> dg.AssetsDefinition:
    """Return the asset of the models' weights, a partition each: of a package, a folder of checkpoints/ or the hub."""
    spec = dg.AssetSpec(
        WEIGHTS,
        group_name="models",
        kinds={"file"},
        description="Weights and settings of each model: a package, a folder of checkpoints/, of the hub, or an endpoint.",
    )

    @dg.multi_observable_source_asset(name="weights", specs=[spec], partitions_def=MODELS)
    def weights(context: dg.AssetExecutionContext) -> dg.ObserveResult:
        with final_failures():
            model = load_model(context.partition_key, precision=load_params().chosen().precision)
            _report_partition(context.instance, WEIGHTS, model.fingerprint, context.partition_key)
            return dg.ObserveResult(data_version=dg.DataVersion(model.fingerprint))

    return weights


def observe_raw(instance: dg.DagsterInstance, tasks: Iterable[str]) -> None:
    """Report what tasks are about to be read from, if it has changed; a run of theirs says why one cannot be read."""
    for name in tasks:
        with suppress(TraubeError, OSError):
            source = get_source(name, None)
            if not source.missing():
                _report(instance, asset_key(name, RAW), source.raw_version())


def observe_weights(instance: dg.DagsterInstance, fingerprints: Mapping[str, str]) -> None:
    """Report the fingerprints of models that are about to work, by name, where they have changed."""
    for name, fingerprint in fingerprints.items():
        _report(instance, WEIGHTS, fingerprint, name)
        _report_partition(instance, WEIGHTS, fingerprint, name)


def find_fingerprints(models: Iterable[str]) -> dict[str, str]:
    """Return the fingerprints of models by name, under the chosen protocol; of those whose weights are here."""
    fingerprints, precision = {}, load_params().chosen().precision
    for name in models:
        with suppress(TraubeError, OSError):
            fingerprints[name] = load_model(name, precision=precision).fingerprint
    return fingerprints


def _report(instance: dg.DagsterInstance, key: dg.AssetKey, version: str, partition: str | None = None) -> None:
    of = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    for record in instance.fetch_observations(of, limit=1).records:
        observation = record.asset_observation
        if observation and (observation.tags or {}).get(VERSION_TAG) == version:
            return
    tags = {VERSION_TAG: version}
    instance.report_runless_asset_event(dg.AssetObservation(key, partition=partition, tags=tags))


def _report_partition(instance: dg.DagsterInstance, key: dg.AssetKey, version: str, partition: str) -> None:
    """Report a partition as materialized, if that has changed: Dagster calls one that is only observed missing."""
    of = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    for record in instance.fetch_materializations(of, limit=1).records:
        made = record.asset_materialization
        if made and (made.tags or {}).get(VERSION_TAG) == version:
            return
    # with the version, by which Dagster tells what is out of date where there are events of both kinds
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, tags={VERSION_TAG: version}))
