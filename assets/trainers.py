"""`trainers/T_checkpoints`: encoders that a trainer T made on a task, the partition; `trainers/T_studies`: recipes searched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from pydantic import Field

from assets.common import CHECKPOINTS, STUDIES, TRAININGS, asset_key, final_failures, report_tracking, trainer_key
from resources.benchmark import EncoderResource, StorageResource
from resources.tracking import TrackingResource
from traube._core import paths
from traube._core.errors import Invalid, Unsupported
from traube._core.progress import Progress
from traube._reports.markdown import markdown
from traube.tasks import Source, get_source
from traube.training import TRAINERS, Trainer

if TYPE_CHECKING:
    from traube.models.transformer import Transformer


class TrainingConfig(dg.Config):
    """The configuration of a training; what is left out is as in the paper."""

    model: str = Field("minilm", description="the model to start from")
    recipe: dict[str, str] = Field(default_factory=dict, description='like {epochs: "3", learning_rate: "3e-5"}')
    unlabeled: bool = Field(False, description="also train on the texts of the task's source that have no labels")


class SearchConfig(dg.Config):
    """The configuration of a search for a recipe."""

    model: str = Field("minilm", description="the model to start from")
    trials: int = Field(
        20, ge=1, description="finished trials that the study shall have, those of earlier runs counted"
    )
    recipe: dict[str, str] = Field(default_factory=dict, description="values that are not searched")


@dataclass(frozen=True)
class TrainerStep:
    """A trainer's work on a task, with the base model and the resources."""

    context: dg.AssetExecutionContext
    trainer: type[Trainer[Any]]
    source: Source
    base: "Transformer"
    storage: StorageResource
    tracking: TrackingResource
    progress: Progress


def trainer_assets(sources: Sequence[Source]) -> list[dg.AssetsDefinition]:
    """Make an asset for each trainer that can learn from the tasks, and one for the search of its recipe, if any."""
    suited = {trainer: [s for s in sources if not trainer.explain_unsuited(s)] for trainer in TRAINERS.values()}
    # the same for all: Dagster makes assets in one job whose partitions are the same
    tasks = dg.StaticPartitionsDefinition(sorted({source.name for able in suited.values() for source in able}))
    assets = []
    for trainer in (trainer for trainer, able in suited.items() if able):
        make = partial(
            _trainer_asset,
            trainer,
            deps=[asset_key(source.name, "splits") for source in suited[trainer]],
            partitions_def=tasks,
        )
        description = f"Encoders trained by {trainer.name} on the texts of a task. The sensor evaluates them."
        assets.append(make(CHECKPOINTS, TrainingConfig, train, kinds={"torch"}, description=description))
        if trainer.searched:
            description = (
                f"A study of {trainer.name}'s recipe on a task: trials judged by the validation splits. "
                "It goes on where it stopped."
            )
            assets.append(make(STUDIES, SearchConfig, search_recipe, kinds={"optuna"}, description=description))
    return assets


def _trainer_asset(
    trainer: type[Trainer[Any]],
    made: str,
    config_class: type[dg.Config],
    compute: Callable[[TrainerStep, Any], dg.MaterializeResult],
    **about: Any,
) -> dg.AssetsDefinition:
    """Return the asset of a trainer's checkpoints or studies, which a function computes for a task, the partition."""

    @dg.asset(key=trainer_key(trainer.name, made), pool=TRAININGS, group_name=f"trainer_{trainer.name}", **about)
    def asset(
        context: dg.AssetExecutionContext,
        config: config_class,  # type: ignore[valid-type]
        storage: StorageResource,
        encoder: EncoderResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        with final_failures():
            name = cast("TrainingConfig | SearchConfig", config).model
            base = cast("Transformer", encoder.model(name, "fp32"))
            if not base.trainable:
                raise Invalid(f"'{name}' is no encoder that can be trained")
            source = get_source(context.partition_key)
            if reason := trainer.explain_unsuited(source):
                raise Unsupported(reason)
            return compute(TrainerStep(context, trainer, source, base, storage, tracking, progress), config)

    return asset


def train(step: TrainerStep, config: TrainingConfig) -> dg.MaterializeResult:
    """Train the base model, and report the training."""
    context, source, watched = step.context, step.source, step.trainer.watched
    trainer = step.trainer.with_values(**config.recipe)
    with step.tracking.watch_training(context.run.run_id, trainer.name, source.name) as run_id:
        left = trainer.fit(
            step.storage.workbench().task(source.name),
            step.base,
            paths.checkpoints(),
            source.read_unlabeled() if config.unlabeled else (),
            step.progress,
            lambda entry: context.log.info(f"step {entry['step']:.0f}: {watched} {entry[watched]:.4f}"),
        )
    name = left.last.name.removesuffix("-last")
    params = {"trainer": trainer.name, "task": source.name, "model": step.base.name, **trainer.recipe.model_dump()}
    log = partial(step.tracking.log_curve, run_id, name, left.curve, params)
    return dg.MaterializeResult(
        metadata={
            "last": dg.MetadataValue.path(left.last),
            "best": dg.MetadataValue.path(left.best),
            f"{watched}_before": left.scores[0],
            f"{watched}_last": left.scores[-1],
            f"{watched}_best": max(left.scores),
            **report_tracking(context, log, "the checkpoint is there"),
        }
    )


def search_recipe(step: TrainerStep, config: SearchConfig) -> dg.MaterializeResult:
    """Go on with the study of a trainer's recipe, and report the study."""
    from resources.studies import history, importances, trials_table
    from traube.training.study import locate_study, search

    context, trainer, task = step.context, step.trainer, step.source.name
    path = locate_study(paths.home() / "studies", trainer.name, task, config.model, config.recipe)
    result = search(
        trainer,
        step.storage.workbench().task(task),
        step.base,
        path,
        config.trials,
        config.recipe,
        step.progress,
        lambda trial, entry: context.log.info(f"trial {trial}: {entry}"),
    )
    table = trials_table(result.study)
    pages = {"history.html": history(result.study), "importances.html": importances(result.study)}
    log = partial(step.tracking.log_study, path.stem, result.best, table, pages, context.run.run_id)
    return dg.MaterializeResult(
        metadata={
            **{f"best_{key}": float(value) for key, value in result.best.items()},
            "trials": dg.MetadataValue.md(markdown(table)),
            "path": dg.MetadataValue.path(path),
            **report_tracking(context, log, "the study is kept"),
        }
    )
