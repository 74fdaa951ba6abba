"""`trainers/T_checkpoints`: encoders that a trainer T made on a task, the partition; `trainers/T_studies`: recipes searched."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from pydantic import Field

from assets.common import CHECKPOINTS, STUDIES, TRAININGS, asset_key, final_failures, told, trainer_key
from resources.benchmark import EncoderResource, StorageResource
from resources.tracking import TrackingResource
from traube.core import paths
from traube.core.errors import TraubeError
from traube.core.progress import Progress
from traube.reports.markdown import markdown
from traube.tasks import Source, get_source
from traube.training import TRAINERS, Trainer

if TYPE_CHECKING:
    from traube.models.transformer import Transformer


class Training(dg.Config):
    """The configuration of a training; what is left out is as in the paper."""

    model: str = Field("minilm", description="the model to start from")
    recipe: dict[str, str] = Field(default_factory=dict, description='like {epochs: "3", learning_rate: "3e-5"}')
    unlabelled: bool = Field(False, description="also train on the texts of the task's source that have no labels")


def trainer_assets(sources: Sequence[Source]) -> list[dg.AssetsDefinition]:
    """Make an asset for each trainer that can learn from the tasks, and one for the search of its recipe, if any."""
    suited = {trainer: [s for s in sources if not trainer.unsuited(s)] for trainer in TRAINERS.values()}
    # the same for all: Dagster makes assets in one job whose partitions are the same
    tasks = dg.StaticPartitionsDefinition(sorted({source.name for able in suited.values() for source in able}))
    deps = {trainer: [asset_key(source.name, "splits") for source in able] for trainer, able in suited.items() if able}
    made = [_checkpoints_asset(trainer, keys, tasks) for trainer, keys in deps.items()]
    return [*made, *(_studies_asset(trainer, keys, tasks) for trainer, keys in deps.items() if trainer.searched)]


def _get_suited(trainer: type[Trainer[Any]], task: str) -> Source:
    source = get_source(task)
    if reason := trainer.unsuited(source):
        raise TraubeError(reason)
    return source


def _checkpoints_asset(
    trainer: type[Trainer[Any]], deps: Sequence[dg.AssetKey], tasks: dg.PartitionsDefinition
) -> dg.AssetsDefinition:
    @dg.asset(
        key=trainer_key(trainer.name, CHECKPOINTS),
        deps=deps,
        partitions_def=tasks,
        pool=TRAININGS,
        group_name=f"trainer_{trainer.name}",
        kinds={"torch"},
        description=f"Encoders trained by {trainer.name} on the texts of a task. The sensor evaluates them.",
    )
    def checkpoints(
        context: dg.AssetExecutionContext,
        config: Training,
        storage: StorageResource,
        encoder: EncoderResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        with final_failures():
            base, watched = _base(encoder, config.model), trainer.watched
            source = _get_suited(trainer, context.partition_key)
            made = trainer.with_values(**config.recipe)
            with tracking.watch_training(context.run.run_id, trainer.name, source.name) as run_id:
                left = made.fit(
                    storage.workbench().task(source.name),
                    base,
                    paths.checkpoints(),
                    source.read_unlabeled() if config.unlabelled else (),
                    progress,
                    lambda entry: context.log.info(f"step {entry['step']:.0f}: {watched} {entry[watched]:.4f}"),
                )
        metadata: dict[str, dg.MetadataValue | float] = {
            "last": dg.MetadataValue.path(left.last),
            "best": dg.MetadataValue.path(left.best),
            f"{left.watched}_before": left.scores[0],
            f"{left.watched}_last": left.scores[-1],
            f"{left.watched}_best": max(left.scores),
        }
        name = left.last.name.removesuffix("-last")
        params = {"trainer": trainer.name, "task": source.name, "model": base.name, **made.recipe.model_dump()}
        log = partial(tracking.log_curve, run_id, name, left.curve, params)
        metadata |= told(context, log, "the checkpoint is there")
        return dg.MaterializeResult(metadata=metadata)

    return checkpoints


class Search(dg.Config):
    """The configuration of a search for a recipe."""

    model: str = Field("minilm", description="the model to start from")
    trials: int = Field(
        20, ge=1, description="finished trials that the study shall have, those of earlier runs counted"
    )
    recipe: dict[str, str] = Field(default_factory=dict, description="values that are not searched")


def _studies_asset(
    trainer: type[Trainer[Any]], deps: Sequence[dg.AssetKey], tasks: dg.PartitionsDefinition
) -> dg.AssetsDefinition:
    @dg.asset(
        key=trainer_key(trainer.name, STUDIES),
        deps=deps,
        partitions_def=tasks,
        pool=TRAININGS,
        group_name=f"trainer_{trainer.name}",
        kinds={"optuna"},
        description=f"A study of {trainer.name}'s recipe on a task: trials judged by the validation splits. "
        "It goes on where it stopped.",
    )
    def studies(
        context: dg.AssetExecutionContext,
        config: Search,
        storage: StorageResource,
        encoder: EncoderResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        from traube.reports.studies import history, importances, trials_table
        from traube.training.study import search, study_file

        task = context.partition_key
        path = study_file(storage.root / "studies", trainer.name, task, config.model, config.recipe)
        with final_failures():
            _get_suited(trainer, task)
            result = search(
                trainer,
                storage.workbench().task(task),
                _base(encoder, config.model),
                path,
                config.trials,
                config.recipe,
                progress,
                lambda trial, entry: context.log.info(f"trial {trial}: {entry}"),
            )
        table = trials_table(result.study)
        pages = {"history.html": history(result.study), "importances.html": importances(result.study)}
        metadata: dict[str, dg.MetadataValue | float] = {
            **{f"best_{key}": float(value) for key, value in result.best.items()},
            "trials": dg.MetadataValue.md(markdown(table)),
            "path": dg.MetadataValue.path(path),
        }
        log = partial(tracking.log_study, path.stem, result.best, table, pages, context.run.run_id)
        metadata |= told(context, log, "the study is kept")
        return dg.MaterializeResult(metadata=metadata)

    return studies


def _base(encoder: EncoderResource, name: str) -> "Transformer":
    base = encoder.model(name, "fp32")
    if not base.trainable:
        raise TraubeError(f"'{name}' is no encoder that can be trained")
    return cast("Transformer", base)
