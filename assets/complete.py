"""Reports to Dagster what is complete in the storage, whoever made it: partitions after a failure that was mended, or a copy."""

import dagster as dg

from assets.common import MODELS, asset_key
from traube._core.hashing import digest
from traube._pipeline.kinds import kind_of
from traube._pipeline.plan import Plan
from traube._pipeline.stages import describe_failures
from traube._storage import Storage
from traube.tasks.task import Stage

DATA_VERSION = "dagster/data_version"  # tag of a materialization
STORED = "stored"  # metadata: nothing was computed


def report_complete(instance: dg.DagsterInstance, todo: Plan, storage: Storage) -> list[dg.AssetKey]:
    """Report partitions as materialized whose cells are all stored and that Dagster takes for missing or failed.

    Parameters
    ----------
    instance : DagsterInstance
        Its dynamic partitions are the models.
    todo : Plan
        The plan of all that is requested.
    storage : Storage
        The storage of the results.

    Returns
    -------
    list of AssetKey
        The keys of the assets with such partitions.
    """
    assert MODELS.name is not None
    models, reported = instance.get_dynamic_partitions(MODELS.name), []
    for task, manifest in todo.at_hand.tasks.items():
        cells = {model: todo.requested[model][task] for model in models if task in todo.requested.get(model, {})}
        complete = {
            model: of_model
            for model, of_model in cells.items()
            if task not in todo.missing.get(model, {})
            and not describe_failures(storage, [cell.cell_id for cell in of_model])
        }
        stages_of_cells = {cell.stage for of_model in cells.values() for cell in of_model}
        for stage in manifest.card.type.stages:
            if stage is Stage.DEEP_CLUSTERINGS and stage not in stages_of_cells:
                continue
            key = asset_key(task, stage)
            status = instance.get_status_by_partition(key, list(complete), MODELS) or {}
            unknown = [model for model in complete if (now := status.get(model)) is None or now.name == "FAILED"]
            for model in unknown:
                made_of = sorted(cell.cell_id for cell in complete[model])
                tags = {DATA_VERSION: digest([made_of, str(stage), kind_of(manifest.card).scoring_version])}
                about = {STORED: f"{len(made_of)} cells are in the storage"}
                instance.report_runless_asset_event(dg.AssetMaterialization(key, None, about, model, tags))
            reported += [key] if unknown else []
    return reported
