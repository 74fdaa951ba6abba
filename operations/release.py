"""`traube release`: one stage of the release pipeline (dvc.yaml)."""

from enum import StrEnum
from typing import Annotated

import typer

from traube.cli.printing import fail_on, out, print_unavailable

app = typer.Typer()


class Stage(StrEnum):
    """Stages of the release pipeline (dvc.yaml), in order."""

    datasets = "datasets"
    validate = "validate"
    benchmark = "benchmark"
    report = "report"


@app.command()
def release(
    stage: Annotated[Stage, typer.Argument(help="The stage; `dvc repro` runs the stages that are needed.")],
) -> None:
    """Run one stage of the release pipeline, which writes to release/.

    `dvc repro` calls it.
    """
    stages = {Stage.datasets: _datasets, Stage.validate: _validate, Stage.benchmark: _benchmark, Stage.report: _report}
    stages[stage]()


def _datasets() -> None:
    from operations.launch import Launcher
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import unread
    from traube.engine.progress import SILENT
    from traube.foundation import paths
    from traube.report.release import write_datasets
    from traube.store import Store

    tasks, store = load_params().tasks, Store(paths.home() / "store")
    new, unavailable = unread(tasks, store)
    if new:
        out.print(f"Reading {', '.join(new)}")
        with Launcher(SILENT) as launcher:
            fail_on(launcher.datasets(new))
    print_unavailable(unavailable)
    write_datasets(store, tasks, paths.release())


def _validate() -> None:
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.foundation.files import write_json
    from traube.quality import data_docs, validate_tasks
    from traube.store import Store

    results = validate_tasks(Store(paths.home() / "store"), load_params().tasks, data_docs())
    write_json(paths.release() / "validation.json", results)
    fail_on([f"{key} failed" for key, r in results.items() if r["blocking"] and not r["passed"]])


def _benchmark() -> None:
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, plan
    from traube.cli.run import compute
    from traube.foundation import paths
    from traube.report.release import write_scores
    from traube.store import Store

    params, store = load_params(), Store(paths.home() / "store")
    # the release's own models: what lies in checkpoints/ on this machine is no part of it
    request = Request(params.tasks, params.models, params.protocol, params.chosen())
    if not compute(request, store, plan(request, store)).finished:
        raise typer.Exit(1)
    write_scores(store, params, paths.release())


def _report() -> None:
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.report.release import write_metrics
    from traube.store import Store

    write_metrics(Store(paths.home() / "store"), load_params(), paths.release())
