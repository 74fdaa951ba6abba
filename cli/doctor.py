"""`traube doctor`: what it looks at, one function a check."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from tempfile import TemporaryFile
from typing import Literal

import typer

from cli.options import Json
from cli.printing import print_json, print_table
from traube.foundation import paths
from traube.foundation.errors import TraubeError

app = typer.Typer()


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check this installation, and say how to mend what is wrong. Exit code 1 if something is."""
    findings = examine()
    rows = [asdict(finding) for finding in findings]
    print_json(rows) if as_json else print_table(rows, fold={"finding": 30})
    if any(f.status == "wrong" for f in findings):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Finding:
    check: str
    status: Literal["ok", "note", "wrong"]
    finding: str


def examine() -> list[Finding]:
    """All checks, each by itself: one that fails unexpectedly is a finding too."""
    found: list[Finding] = []
    for check in (_antlr, _home, _disk, _params, _tasks, _weights, _checkpoints, _device, _runs, _mlflow):
        try:
            found.extend(check())
        except Exception as error:
            found.append(Finding(check.__name__.strip("_"), "wrong", f"{type(error).__name__}: {error}"))
    return found


def _antlr() -> Iterator[Finding]:
    found = version("antlr4-python3-runtime")
    if found.startswith("4.13"):
        yield Finding("antlr", "ok", f"{found}: dagster's selections work; of dvc only `dvc exp run -S` does not")
    else:
        yield Finding("antlr", "wrong", f"{found}: dagster's string selections crash; run `make setup`")


def _home() -> Iterator[Finding]:
    home = paths.home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=home):
            pass
    except OSError:
        yield Finding("home", "wrong", f"{home} cannot be written; point TRAUBE_HOME elsewhere")
        return
    yield Finding("home", "ok", str(home))
    wanted = str(home / "dagster")
    given = os.environ.get("DAGSTER_HOME")
    if given and given != wanted:
        yield Finding("DAGSTER_HOME", "note", f"is {given}; `traube` uses {wanted}")


def _disk() -> Iterator[Finding]:
    home = paths.home()
    free = shutil.disk_usage(home if home.exists() else paths.PROJECT).free / 2**30
    yield Finding(
        "disk", "ok" if free > 2 else "wrong", f"{free:.1f} GiB free" + ("" if free > 2 else "; free some space")
    )


def _params() -> Iterator[Finding]:
    from traube.benchmark.params import load_params

    params = load_params()
    yield Finding(
        "params.yaml", "ok", f"{len(params.tasks)} tasks, {len(params.models)} models, protocol {params.protocol}"
    )


def _tasks() -> Iterator[Finding]:
    from traube import models, tasks
    from traube.tasks import sources

    for path, error in {**tasks.card_errors(), **models.card_errors()}.items():
        yield Finding(f"card {path.name}", "wrong", str(error))
    absent = [name for name, source in sources().items() if source.missing()]
    yield Finding(
        "tasks",
        "note" if absent else "ok",
        f"no raw data for {', '.join(absent)} (`traube tasks`)" if absent else "all have their raw data",
    )


def _weights() -> Iterator[Finding]:
    from traube.foundation.errors import Unavailable
    from traube.models import model_cards
    from traube.models.transformer import check_folder, locate

    absent = []
    for name, card in model_cards().items():
        if card.kind not in ("packaged", "transformer"):
            continue
        try:
            check_folder(locate(card), card)
        except Unavailable:
            absent.append(name)
        except TraubeError as error:
            yield Finding(f"model {name}", "wrong", str(error))
    yield Finding(
        "models",
        "note" if absent else "ok",
        f"{len(absent)} are downloaded when they are first run (`traube models`)" if absent else "all there",
    )


def _checkpoints() -> Iterator[Finding]:
    from traube.models import checkpoints

    errors = checkpoints.errors()
    for path, error in errors.items():
        yield Finding(f"checkpoint {path.name}", "wrong", str(error))
    sound = len(checkpoints.folders()) - len(errors)
    yield Finding("checkpoints", "ok", f"{sound} can be evaluated, in {paths.checkpoints()}")


def _device() -> Iterator[Finding]:
    from traube.models.transformer import best_device

    device = best_device()
    yield Finding("device", "ok", device + ("; no GPU was found" if device == "cpu" else ""))


def _runs() -> Iterator[Finding]:
    import dagster as dg

    from cli.launch import prepare
    from sensors.lost_runs import end_lost_runs

    prepare()
    with dg.DagsterInstance.get() as instance:
        lost = end_lost_runs(instance)
    yield Finding("runs", "note" if lost else "ok", f"{len(lost)} lost runs were ended" if lost else "none is lost")


def _mlflow() -> Iterator[Finding]:
    from resources.tracking import connect, default_uri

    connect(default_uri())
    yield Finding("mlflow", "ok", default_uri())
