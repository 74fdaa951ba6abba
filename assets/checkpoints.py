"""`checkpoints/<trainer>/<task>`: encoders whose pre-training went on with a task's texts. What is left is a checkpoint like any other."""

import dagster as dg
from pydantic import Field

from assets.common import asset_key
from resources.encoder import EncoderResource
from resources.storage import StorageResource
from resources.tracking import TrackingResource
from traube import paths
from traube.errors import TraubeError
from traube.evaluate import Progress
from traube.tasks.source import Source

NAMES = ("wwm", "tsdae")


class Training(dg.Config):
    """What to train, and how; what is left out is as in the paper."""

    model: str = Field("minilm", description="the model to start from")
    recipe: dict[str, str] = Field(default_factory=dict, description='like {epochs: "3", learning_rate: "3e-5"}')
    unlabelled: bool = Field(False, description="also train on the texts of the task's source that have no labels")


def checkpoint_assets(source: Source) -> list[dg.AssetsDefinition]:
    return [_trained(name, source) for name in NAMES]


def _trained(name: str, source: Source) -> dg.AssetsDefinition:
    @dg.asset(
        key=["checkpoints", name, source.name],
        deps=[asset_key(source.name, "splits")],
        group_name="checkpoints",
        kinds={"torch"},
        description=f"An encoder trained on the texts of {source.name} by {name}. The sensor evaluates it.",
    )
    def trained(
        context: dg.AssetExecutionContext,
        config: Training,
        storage: StorageResource,
        encoder: EncoderResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        from traube.models.transformer import Transformer
        from traube.training import TRAINERS

        trainer = TRAINERS[name]
        try:
            base = encoder.model(config.model, "fp32")
            if not isinstance(base, Transformer):
                raise TraubeError(f"'{config.model}' is no encoder that can be trained")
            if storage.store.manifest(source.name) is None:
                raise TraubeError(f"task '{source.name}' has not been read yet; materialise {source.name}/splits")
            left = trainer.with_changes(config.recipe).fit(
                storage.store.task(source.card),
                base,
                paths.checkpoints(),
                source.unlabelled() if config.unlabelled else (),
                progress,
                lambda entry: context.log.info(f"step {entry['step']:.0f}: V-measure {entry['v_measure']:.4f}"),
            )
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        metadata: dict[str, dg.MetadataValue | float] = {
            "last": dg.MetadataValue.path(left.last),
            "best": dg.MetadataValue.path(left.best),
            "v_measure_before": float(left.curve[0]["v_measure"] or 0),
            "v_measure_last": float(left.curve[-1]["v_measure"] or 0),
            "v_measure_best_by_gold_labels": max(float(entry["v_measure"] or 0) for entry in left.curve),
        }
        try:
            metadata |= tracking.log_curve(left.last.name.removesuffix("-last"), left.curve, context.run.run_id)
        except Exception as error:  # a checkpoint is never lost because the tracking server is
            context.log.warning(f"the checkpoint is there, but MLflow could not be told: {error}")
        return dg.MaterializeResult(metadata=metadata)

    return trained
