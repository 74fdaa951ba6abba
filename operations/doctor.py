"""`traube doctor`: one function for each check."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from traube._cli.options import Json
from traube._cli.printing import err, print_json, print_table, show_progress
from traube._core import paths, settings
from traube._core.disk import OTHERS
from traube._core.errors import TraubeError, Unavailable
from traube._core.system_errors import explain_error

if TYPE_CHECKING:
    from traube._storage import Storage

app = typer.Typer()
OLDEST_POSTGRES = 12


@app.command(rich_help_panel="Platform")
def doctor(
    mend: Annotated[bool, typer.Option("--mend", help="Log again what MLflow shows differently.")] = False,
    as_json: Json = False,
) -> None:
    """Check this installation, and say how to repair it.

    Examples
    --------
    traube doctor
    traube doctor --mend
    traube doctor --json

    The exit code is 1 if something is wrong.
    """
    if mend:
        mend_mlflow()
    findings = examine()
    rows = [asdict(finding) for finding in findings]
    print_json(rows) if as_json else print_table(rows, fold={"finding": 30})
    if any(f.status == "wrong" for f in findings):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Finding:
    """The result of one check of the installation."""

    check: str
    status: Literal["ok", "note", "wrong"]
    finding: str


def examine() -> list[Finding]:
    """Return all findings, each check by itself: one that fails unexpectedly is a finding too."""
    findings: list[Finding] = []
    checks = (
        _check_antlr, _check_home, _check_blobs, _check_database, _check_disk, _check_params, _check_engine,
        _check_tasks, _check_weights, _check_checkpoints, _check_device, _check_store, _check_databases, _check_runs,
        _check_mlflow,
    )  # fmt: skip
    for check in checks:
        try:
            findings.extend(check())
        except Exception as error:
            known = explain_error(error) or f"{type(error).__name__}: {error}"
            findings.append(Finding(check.__name__.removeprefix("_check_"), "wrong", known))
    return findings


def _check_antlr() -> Iterator[Finding]:
    installed = version("antlr4-python3-runtime")
    if installed.startswith("4.13"):
        yield Finding("antlr", "ok", f"{installed}: works for Dagster and for DVC, except `dvc exp run -S`")
    else:
        yield Finding("antlr", "wrong", f"{installed}: Dagster's asset selections crash with it; run `make setup`")


def _check_home() -> Iterator[Finding]:
    from resources.databases import get_dagster_home

    home = paths.home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=home):
            pass
    except OSError:
        yield Finding("home", "wrong", f"{home} cannot be written to; set TRAUBE_HOME to another folder")
        return
    if home.stat().st_mode & OTHERS:
        yield Finding("home", "note", f"{home} can be read by others on this machine; chmod 700 it")
    else:
        yield Finding("home", "ok", str(home))
    wanted, given = str(get_dagster_home()), os.environ.get("DAGSTER_HOME")
    if given and given != wanted:
        yield Finding("DAGSTER_HOME", "note", f"is set to {given}; Traube uses {wanted} instead")
    for file, name in settings.list_ignored(home):
        yield Finding("settings", "note", f"{file}: {name} is not taken from there; set it in the environment")


def _check_blobs() -> Iterator[Finding]:
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    if not storage.catalog.is_read_only:
        storage.blobs.delete(storage.blobs.put(b"traube doctor"))  # refused where a right lacks
    yield Finding("blobs", "ok", storage.blobs.url)


def _check_database() -> Iterator[Finding]:
    from resources.databases import connect

    url = settings.database()
    if not url:
        return
    server, file = settings.without_password(url), os.environ.get(settings.PASSWORD_FILE)
    if server != url:
        yield Finding("database", "note", f"{settings.DATABASE} holds a password; put it into {settings.PASSWORD_FILE}")
    if file and Path(file).stat().st_mode & OTHERS:
        yield Finding("database", "note", f"{file} can be read by others on this machine; chmod 600 it")
    with closing(connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT has_database_privilege(current_database(), 'CREATE')")
        may_create = cursor.fetchone()[0]
        number = connection.server_version // 10000
    if not may_create:
        yield Finding("database", "wrong", f"{server}: no right to make schemas; GRANT CREATE ON DATABASE to this user")
    elif number < OLDEST_POSTGRES:
        yield Finding("database", "wrong", f"{server}: Postgres {number}; MLflow and Dagster want {OLDEST_POSTGRES}")
    else:
        yield Finding("database", "ok", f"{server}: Postgres {number}, dagster-postgres {version('dagster-postgres')}")


def _check_disk() -> Iterator[Finding]:
    home = paths.home()
    free = shutil.disk_usage(home if home.exists() else paths.PROJECT).free / 2**30
    if free > 2:
        yield Finding("disk", "ok", f"{free:.1f} GiB free")
    else:
        yield Finding("disk", "wrong", f"{free:.1f} GiB free; delete something")


def _check_params() -> Iterator[Finding]:
    from traube._pipeline.params import load_params

    params = load_params()
    counts = f"{len(params.tasks)} tasks, {len(params.models)} models, protocol {params.protocol}"
    yield Finding("params.yaml", "ok", counts)


def _check_engine() -> Iterator[Finding]:
    from traube._pipeline.executors import cores, engine, make_executor

    name, address = engine(), os.environ.get("RAY_ADDRESS")
    if name == "local":
        yield Finding("engine", "ok", f"local: {cores()} processes of this machine")
    elif not find_spec("ray"):
        yield Finding("engine", "wrong", f"{name}: Ray is not installed; run `make setup-scale`")
    elif not address:
        yield Finding("engine", "ok", f"{name}: started here, on {cores()} cores, when there is work")
    else:
        with make_executor() as executor:
            yield Finding("engine", "ok", f"{name}: {address} answers, with {executor.n_workers} cores")


def _check_tasks() -> Iterator[Finding]:
    from traube import models, tasks

    for path, error in {**tasks.card_errors(), **models.card_errors()}.items():
        yield Finding(f"card {path.name}", "wrong", str(error))
    absent = [name for name, source in tasks.sources().items() if source.missing()]
    if absent:
        yield Finding("tasks", "note", f"without raw data: {', '.join(absent)}; `traube tasks` says where to get it")
    else:
        yield Finding("tasks", "ok", "the raw data of all is on this machine")


def _check_weights() -> Iterator[Finding]:
    from traube.models import model_cards
    from traube.models.tensors import check_tensors
    from traube.models.vetting import VettedFolder
    from traube.models.weights import check_present, is_folder, locate

    absent = []
    for name, card in model_cards().items():
        if card.kind not in ("packaged", "transformer") or (paths.checkpoints() / name).is_dir():
            continue  # checkpoints are examined by themselves
        try:
            check_present(card)
            if not card.file and is_folder(card.model or ""):  # what came from the hub is as its authors put it there
                check_tensors(VettedFolder.at(locate(card)))
        except Unavailable:
            absent += [] if card.package else [name]
        except TraubeError as error:
            yield Finding(f"model {name}", "wrong", str(error))
    if absent:
        said = f"{len(absent)} are downloaded when they are first used; `traube models` lists them"
        yield Finding("models", "note", said)
    else:
        yield Finding("models", "ok", "the weights of all are on this machine")


def _check_checkpoints() -> Iterator[Finding]:
    from traube.models import checkpoints

    errors = checkpoints.errors()
    for path, error in errors.items():
        yield Finding(f"checkpoint {path.name}", "wrong", str(error))
    sound = len(checkpoints.folders()) - len(errors)
    yield Finding("checkpoints", "ok", f"{sound} usable in {paths.checkpoints()}")


def _check_device() -> Iterator[Finding]:
    from traube.models.transformer import best_device

    device = best_device()
    yield Finding("device", "ok", device + (" (no GPU found)" if device == "cpu" else ""))


def _check_store() -> Iterator[Finding]:
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    corrupt = storage.verify()
    for line in corrupt:
        yield Finding("storage", "wrong", line)
    if not corrupt:
        yield Finding("storage", "ok", f"{len(storage.read_cells())} cells")


def _check_runs() -> Iterator[Finding]:
    import dagster as dg

    from operations.launch import prepare
    from sensors.lost_runs import end_lost_runs

    prepare()
    with dg.DagsterInstance.get() as instance:
        lost = end_lost_runs(instance)
    if lost:
        yield Finding("runs", "note", f"marked {len(lost)} runs as failed: their processes no longer exist")
    else:
        yield Finding("runs", "ok", "none is lost")


def _check_databases() -> Iterator[Finding]:
    from resources.databases import get_mlflow_database, list_dagster_databases

    if settings.database():
        return  # examined above
    databases = (*list_dagster_databases(paths.home() / "dagster"), get_mlflow_database(paths.home() / "mlflow.db"))
    for database in (database for database in databases if database.path.exists()):
        try:
            database.check()
            yield Finding(f"database {database.path.name}", "ok", "valid")
        except TraubeError as error:
            yield Finding(f"database {database.path.name}", "wrong", str(error))


def _check_mlflow() -> Iterator[Finding]:
    from resources.experiment import default_uri
    from resources.tracking import TrackingResource
    from traube._reports.tables import tables_are_current
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    TrackingResource().connect()
    yield Finding("mlflow", "ok", settings.without_password(default_uri()))
    if storage.read_cells().empty:
        return
    if not tables_are_current(storage):  # MLflow may be ahead of them
        outdated = "its scores were not compared, since the leaderboard is older than the results or params.yaml"
        yield Finding("mlflow", "note", f"{outdated}; `traube doctor --mend` rebuilds the leaderboard and compares")
        return
    for model, task, protocol, is_there in find_contradictions(storage):
        what = "has other scores than the leaderboard" if is_there else "lacks the scores of the leaderboard"
        mend = f"`traube doctor --mend`, or `traube run -t {task} -m {model} --protocol {protocol}`, logs them"
        yield Finding("mlflow", "wrong", f"{task}, {model}: MLflow {what}; {mend}")


def find_contradictions(storage: "Storage") -> list[tuple[str, str, str, bool]]:
    """Return model, task and protocol of which MLflow has other scores than the leaderboard, and whether it has any.

    The next run logs them again.
    """
    from resources.tracking import TrackingResource
    from resources.untracked import add_debt
    from traube._core.files import read_parquet
    from traube._reports.tables import NAME

    contradictions = TrackingResource().find_contradictions(read_parquet(storage.get_table_path(NAME)))
    if not storage.catalog.is_read_only:
        for model, task, protocol, _ in contradictions:
            add_debt(model, task, protocol)
    return contradictions


def mend_mlflow() -> None:
    """Log scores again of which MLflow has others than the leaderboard, or none; rebuild an outdated leaderboard first."""
    from operations.launch import DagsterLauncher
    from traube._pipeline.params import load_params
    from traube._pipeline.request import make_request
    from traube._reports.tables import tables_are_current
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    if storage.read_cells().empty:
        return
    with show_progress() as (progress, _), DagsterLauncher(progress) as launcher:
        errors = [] if tables_are_current(storage) else launcher.publish()
        for model, task, protocol, _ in find_contradictions(storage):
            err.print(f"Logging {model} on {task} to MLflow")
            errors += launcher.evaluate(model, [task], make_request(load_params(), protocol))
        for error in errors:
            err.print(error)
