"""A kind of task that a plug-in adds passes through plan, graph, storage, leaderboard and MLflow, and no other file names it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from assets.common import MODELS, data_keys, model_keys
from assets.used import find_used
from definitions import build_defs
from resources.tracking import TrackingResource
from traube._cli.main import app
from traube._core import paths
from traube._core.progress import SILENT
from traube._pipeline.current import count_outdated, current_cells, list_outdated_cells
from traube._pipeline.kinds import kinds
from traube._pipeline.params import load_params
from traube._reports.tables import leaderboard
from traube._storage import open_storage
from traube.tasks import _import_readers, sources

PLUGIN = Path(__file__).parents[1] / "choices"


@pytest.fixture(scope="module", autouse=True)
def shared_workers() -> None:
    """Start processes of this module's own: those of other tests were started before the plug-in was there."""


@pytest.fixture
def plugin(install: Callable[..., None]) -> Iterator[None]:
    caches = kinds, _import_readers
    for cache in caches:
        cache.cache_clear()
    install("choices", **{name: (PLUGIN / f"{name}.py").read_text() for name in ("readers", "kinds")})
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("plugin", "cards")
def test_a_third_kind_is_one_module_of_a_plugin() -> None:
    assert "choices" in sources(None) and "choices" not in sources()
    instance, definitions = dg.DagsterInstance.ephemeral(), build_defs(find_used(["choices"]), progress=SILENT)
    instance.add_dynamic_partitions(str(MODELS.name), ["bow"])
    for job, keys in (("datasets", data_keys(["choices"])), ("evaluate", model_keys(["choices"]))):
        key = {"partition_key": "bow"} if job == "evaluate" else {}
        made = definitions.resolve_job_def(job).execute_in_process(instance=instance, asset_selection=keys, **key)
        assert made.success
    (scored,) = made.asset_materializations_for_node("choices__scores")
    assert scored.metadata["accuracy"].value == pytest.approx(2 / 3)
    experiment = TrackingResource().connect()
    (run,) = experiment.client.search_runs([experiment.id])
    assert run.info.run_name == "choices x bow" and run.data.metrics == {"accuracy": pytest.approx(2 / 3)}

    storage, protocols = open_storage(paths.home()), load_params().protocols
    assert current_cells(storage, protocols).empty and list_outdated_cells(storage, protocols) == set()
    assert count_outdated(storage.read_cells()) == 0
    (row,) = leaderboard(storage, protocols=protocols).itertuples(index=False)
    assert (row.task, row.method, row.metric, row.best, row.mean) == (*("choices", "choice", "accuracy"), True, 2 / 3)
    assert "choices, all: accuracy x100" in CliRunner().invoke(app, ["leaderboard", "-t", "choices"]).output
