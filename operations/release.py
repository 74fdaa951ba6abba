"""`traube release`: one stage of the release pipeline (dvc.yaml)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from traube._cli.printing import fail_on, out, print_unavailable
from traube._core import paths
from traube._core.files import write_json
from traube._core.progress import SILENT

if TYPE_CHECKING:
    from traube._storage import Storage

app = typer.Typer()


@app.command(rich_help_panel="Platform")
def release(
    stage: Annotated[
        Literal["datasets", "validate", "benchmark", "report"],
        typer.Argument(help="Stage; `dvc repro` runs those that are needed."),
    ],
) -> None:
    """Run one stage of the release pipeline, which writes to release/.

    Examples
    --------
    traube release datasets
    traube release report

    `dvc repro` calls it.
    """
    from traube._pipeline.params import load_params
    from traube._storage import open_storage

    params, storage = load_params(), open_storage(paths.home())
    match stage:
        case "datasets":
            from resources.release_files import write_datasets

            _read(params.tasks, storage)
            write_datasets(storage, params.tasks, paths.release())
        case "validate":
            from resources.data_docs import data_docs, draw
            from traube._pipeline.validation.validate import validate_tasks

            _read(params.tasks, storage)  # a clone has the file of versions from git, and no data yet
            results = {}
            for validation in validate_tasks(storage, params.tasks):
                draw(validation, data_docs())
                for finding in validation.findings:
                    results[f"{validation.card.name}/{validation.table}/{finding.check.name}"] = {
                        "blocking": finding.blocking,
                        "passed": finding.passed,
                        "offending_rows": finding.offending,
                    }
            write_json(paths.release() / "validation.json", results)
            fail_on([f"{key} failed" for key, r in results.items() if r["blocking"] and not r["passed"]])
        case "benchmark":
            from resources.release_files import write_scores
            from traube._cli.run import compute
            from traube._pipeline.request import Request
            from traube._pipeline.survey import plan

            # the release's own models: what lies in checkpoints/ on this machine is no part of it
            request = Request(params.tasks, params.models, params.protocol, params.chosen())
            if not compute(request, storage, plan(request, storage)):
                raise typer.Exit(1)
            write_scores(storage, params, paths.release())
        case "report":
            from resources.release_files import write_metrics

            write_metrics(storage, params, paths.release())


def _read(tasks: Sequence[str], storage: "Storage") -> None:
    """Read the tasks whose raw data is new or has changed."""
    from operations.launch import DagsterLauncher
    from traube._pipeline.survey import find_not_ingested

    new, unavailable = find_not_ingested(tasks, storage)
    if new:
        out.print(f"Reading {', '.join(new)}")
        with DagsterLauncher(SILENT) as launcher:
            fail_on(launcher.datasets(new))
    print_unavailable(unavailable)
