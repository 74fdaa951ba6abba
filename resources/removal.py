"""Removal from MLflow, for good, of runs that nothing refers to: of forgotten models, and of what only ever challenged."""

import io
from collections.abc import Collection, Iterable
from contextlib import redirect_stdout

from resources.experiment import SERVING, Experiment, connect, default_uri

REMOVED = "traube.removed"  # tag of a run that goes: the ids of its logged models, which go with it
AT_ONCE = 500


def mark_removed(experiment: Experiment, runs: Iterable[str]) -> None:
    """Delete runs and their logged models as MLflow's pages do: they can be restored until `remove_runs`."""
    client = experiment.client
    for run in runs:
        logged = client.search_logged_models([experiment.id], f"source_run_id = '{run}'")
        client.set_tag(run, REMOVED, " ".join(model.model_id for model in logged))
        for model in logged:
            client.delete_logged_model(model.model_id)
        client.delete_run(run)


def remove_runs(forgotten: Collection[str]) -> int:
    """Remove the runs of forgotten models, and those that were marked before, with their files; return how many.

    Left marked are those of a server that is reached by HTTP, where `mlflow gc` belongs to whoever runs it, and of a store
    whose trash holds experiments, which `mlflow gc` would empty too.
    """
    from mlflow.entities import ViewType

    uri = default_uri()
    experiment, serving = connect(uri), connect(uri, SERVING)
    client = experiment.client
    for model in forgotten:
        mark_removed(experiment, experiment.find_ids(f"tags.`traube.model` = '{model}'"))
    if uri.startswith("http") or client.search_experiments(ViewType.DELETED_ONLY, max_results=1):
        return 0
    condition, removed = f"tags.`{REMOVED}` LIKE '%'", 0
    while runs := client.search_runs([experiment.id, serving.id], condition, ViewType.DELETED_ONLY, AT_ONCE):
        logged = {id_ for run in runs for id_ in run.data.tags[REMOVED].split()}
        if not logged:  # without names, all logged models in the trash would go
            break
        _collect_garbage(uri, [run.info.run_id for run in runs], logged)
        removed += len(runs)
    return removed


def _collect_garbage(uri: str, runs: Iterable[str], logged: Iterable[str]) -> None:
    """Call `mlflow gc`, in this process: a command line would show the database's password."""
    from mlflow.cli import cli

    options = ["--backend-store-uri", uri, "--tracking-uri", uri]
    with redirect_stdout(io.StringIO()):
        cli.main(
            ["gc", *options, "--run-ids", ",".join(runs), "--logged-model-ids", ",".join(logged)],
            standalone_mode=False,
        )
