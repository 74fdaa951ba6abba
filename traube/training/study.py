"""Search for a recipe's best values by Optuna.

Trainings are judged by their watched score, and the hopeless ones are stopped early. A study is one file and goes on
where it stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from traube._core.errors import Conflict, Corrupt, Invalid, Malformed, NotInstalled, TraubeError, install_hint
from traube._core.files import locked
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube.models.transformer import Transformer
from traube.tasks.task import Task
from traube.training import Entry, Trainer, searched_trainers

if TYPE_CHECKING:
    import optuna

SEED = 42


@dataclass(frozen=True)
class StudyState:
    """State of a study."""

    best: dict[str, float]  # values of the best trial, and `value`, its score
    trials: int  # that are finished, pruned ones among them
    study: "optuna.Study"


def locate_study(folder: Path, trainer: str, task: str, base: str, changes: Mapping[str, Any] | None = None) -> Path:
    """Return the path of a study's file: one for each set of values that the study does not search."""
    mark = f".x{digest({name: str(value) for name, value in changes.items()})[:6]}" if changes else ""
    return folder / f"{trainer}__{task}__{base}{mark}.log"


def open_study(path: Path, trainer: str) -> "optuna.Study":
    """Open an existing study, or create a new one.

    Raises TraubeError if Optuna is not installed, or the file cannot be read.
    """
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise NotInstalled(
            f"optuna, which searches recipes, is not installed: {install_hint('tune', 'setup')}"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(
            storage=storage,
            study_name=trainer,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1),
            load_if_exists=True,
        )
    except Exception as error:  # a corrupt file raises many kinds
        raise Malformed(f"{path}: not a study's file ({error}); delete it to start again") from None
    # not the same random numbers again after a stop
    study.sampler = optuna.samplers.TPESampler(seed=SEED + len(study.trials))
    return study


def search(
    trainer: type[Trainer[Any]],
    task: Task,
    base: Transformer,
    path: Path,
    trials: int,
    changes: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
    watch: Callable[[int, Entry], None] = lambda trial, entry: None,
) -> StudyState:
    """Bring a study to a number of finished trials.

    Parameters
    ----------
    path : Path
        The study's file.
    changes : mapping, optional
        Values of the recipe that are not searched.
    watch : callable, optional
        Called at each evaluation with the trial's number and the entry.
    """
    import optuna

    ranges = trainer.searched
    if not ranges:
        raise Invalid(f"{trainer.name}: there is nothing to search; studies are for {', '.join(searched_trainers())}")
    if both := sorted(set(ranges) & set(changes or {})):
        raise Conflict(f"{', '.join(both)}: searched by the study, so no value can be set")

    def objective(trial: optuna.Trial) -> float:
        suggested: dict[str, float] = {}
        for name, values in ranges.items():
            if isinstance(values, list):
                suggested[name] = int(trial.suggest_categorical(name, values))
            else:
                suggested[name] = trial.suggest_float(name, *values)
        scores: list[float] = []

        def report(entry: Entry) -> None:
            watch(trial.number, entry)
            scores.append(float(entry[trainer.watched] or 0))
            trial.report(scores[-1], len(scores))
            if trial.should_prune():
                raise optuna.TrialPruned

        with TemporaryDirectory(prefix="traube-") as folder:
            trainer.with_values(**changes or {}, **suggested).fit(task, base, Path(folder), watch=report)
        return max(scores)

    with locked(path.with_suffix(".search")):
        study = open_study(path, trainer.name)
        _resume(study, path, {"data_version": task.data_version, "base": base.fingerprint})
        progress.total("trials", max(0, trials - count_finished(study)))
        while count_finished(study) < trials:
            study.optimize(objective, n_trials=1)
            progress.done("trials", 1)
        return read_state(study)


def _resume(study: "optuna.Study", path: Path, identity: dict[str, str]) -> None:
    """Close the trials that were killed, and refuse a study of another identity.

    The caller holds the lock, so no other process searches.
    """
    from optuna.trial import TrialState

    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
    for key, value in identity.items():
        if study.user_attrs.get(key, value) != value:
            raise Conflict(f"{path}: its trials are of another {key.replace('_', ' ')}; move it away to start again")
        study.set_user_attr(key, value)


def read_state(study: "optuna.Study") -> StudyState:
    """Return the state of a study; without a complete trial, `best` is empty."""
    from optuna.trial import TrialState

    try:
        complete = study.get_trials(states=[TrialState.COMPLETE])
        best = {**study.best_params, "value": study.best_value} if complete else {}
    except (
        TypeError,
        ValueError,
        IndexError,
        RuntimeError,
    ) as error:  # a damaged trial, which Optuna reads without a check
        raise Corrupt(
            f"study {study.study_name}: a trial is damaged ({error}); delete its file to start again"
        ) from None
    return StudyState(best, count_finished(study), study)


def count_finished(study: "optuna.Study") -> int:
    """Return the number of trials that came to an end, pruned ones included."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=[TrialState.COMPLETE, TrialState.PRUNED]))


def find_best_by_task(folder: Path, trainer: str) -> dict[str, dict[str, float]]:
    """Return the best values of each task's studies in a folder, with the highest score.

    A corrupt file is passed over.
    """
    by_task: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob(f"{trainer}__*.log")):
        task = path.stem.split("__")[1]
        try:
            best = read_state(open_study(path, trainer)).best
        except TraubeError:
            continue
        if best and best["value"] > by_task.get(task, {}).get("value", float("-inf")):
            by_task[task] = best
    return by_task
