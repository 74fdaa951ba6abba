"""The second day of a benchmark: a task is added, a checkpoint refused, rolled back, data broken and mended, a night by hand.

After each step all surfaces agree: the table that was published, the command, MLflow, the registry, the report, alerts.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from assets.common import MODELS, NIGHT
from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.alerts import read_alerts
from resources.registry import RegistryResource
from resources.tracking import TrackingResource
from tests.platform.conftest import evaluate_tick, schedule_of, sensor_of, word_rows, write_task
from traube._cli.main import app
from traube._core import paths
from traube._pipeline.params import load_params
from traube._pipeline.request import make_request
from traube._storage import open_storage
from traube.comparison.champions import read_champions

pytestmark = [pytest.mark.slow, pytest.mark.begin_with("published")]


class Daemon:
    """Ticks as Dagster's daemon sees to them, in this process."""

    def __init__(self, launcher: DagsterLauncher) -> None:
        self.launcher, self.instance, self.cursors = launcher, launcher.instance, dict[str, str | None]()

    def tick(self, name: str) -> int:
        """Evaluate a sensor of the graph as it is now, run what it requests, and return how many runs that were."""
        definitions = self.launcher.definitions
        context = dg.build_sensor_context(self.instance, self.cursors.get(name), definitions=definitions)
        result: Any = evaluate_tick(sensor_of(definitions, name), context)
        self.cursors[name] = getattr(result, "cursor", None) or context.cursor
        if isinstance(result, dg.SensorResult):
            for change in result.dynamic_partitions_requests or []:
                if isinstance(change, dg.AddDynamicPartitionsRequest):
                    self.instance.add_dynamic_partitions(str(MODELS.name), change.partition_keys)
        requests = getattr(result, "run_requests", None) or ([result] if isinstance(result, dg.RunRequest) else [])
        job = definitions.resolve_job_def("datasets" if name == "raw_data" else "evaluate")
        for request in requests:
            job.execute_in_process(
                instance=self.instance,
                partition_key=request.partition_key,
                asset_selection=request.asset_selection,
                tags=request.tags,
                raise_on_error=False,
            )
        return len(requests)


def check_surfaces(tasks: set[str]) -> pd.DataFrame:
    """All surfaces show the same; return the leaderboard's best rows."""
    storage = open_storage(paths.home())
    board = pd.read_parquet(storage.get_table_path("leaderboard.parquet"))
    best = board[board["best"].astype(bool)]
    printed = CliRunner().invoke(app, ["leaderboard", "--format", "json"])
    rows = [row for row in json.loads(printed.stdout) if row["best"]]
    assert {(row["task"], row["model"]): row["mean"] for row in rows} == {
        (task, model): pytest.approx(mean)
        for task, model, mean in best[["task", "model", "mean"]].itertuples(index=False)
    }
    assert {*best["task"]} == tasks
    assert TrackingResource().find_contradictions(board) == []
    champions = read_champions(storage)
    assert champions == RegistryResource().read_champions() and champions.served.keys() == tasks
    page = (paths.home() / "report" / "index.html").read_text(encoding="utf-8")
    assert all(f"{champion.model} with {champion.method}" in page for champion in champions.now)
    return best.set_index(["task", "model"])


def test_a_second_day(launcher: DagsterLauncher, cards: Path, tiny_bert: Path) -> None:
    daemon, params = Daemon(launcher), paths.params()
    check_surfaces({"words"})

    # a card is added, and named in params.yaml
    write_task(cards, "more", [*word_rows(), ("the owl of the wren birds", "birds")])
    params.write_text(params.read_text().replace("[words]", "[words, more]"))
    assert daemon.tick("raw_data") == 1
    assert launcher.evaluate("bow", ["more"], replace(make_request(load_params()), models=["bow"])) == []
    assert launcher.publish() == []
    check_surfaces({"words", "more"})

    # a checkpoint without weights is refused, beside one that is evaluated
    good, bad = (Path(shutil.copytree(tiny_bert, paths.checkpoints() / name)) for name in ("good", "bad"))
    (bad / "model.safetensors").unlink()
    assert [daemon.tick("new_checkpoints") for _ in range(3)] == [0, 1, 0]
    assert [alert["key"] for alert in read_alerts() if "bad" in alert["key"]] != []
    assert launcher.publish() == []
    first = check_surfaces({"words", "more"}).loc[("words", "good"), "mean"]

    # other weights, and then those of before
    weights = load_file(good / "model.safetensors")
    other = {name: tensor.flip(0) for name, tensor in weights.items()}
    seen = []
    for content in (other, weights):
        save_file(content, good / "model.safetensors", {"format": "pt"})
        assert [daemon.tick("new_checkpoints") for _ in range(3)] == [0, 1, 0]
        assert launcher.publish() == []
        seen.append(check_surfaces({"words", "more"}).loc[("words", "good"), "mean"])
    assert seen[1] == first

    # data is broken, which stops its task alone, and mended
    before = check_surfaces({"words", "more"})
    write_task(cards, "more", [*word_rows(), *[("  ", "birds")] * 100])
    assert daemon.tick("raw_data") == 1
    assert launcher.publish() == []
    write_task(cards, "more", [*word_rows(), ("the owl of the wren birds", "birds")])
    daemon.tick("raw_data")  # what is stored is what was mended
    assert launcher.publish() == []
    assert check_surfaces({"words", "more"})["mean"].equals(before["mean"])

    # a night by hand: nothing is missing, and it is published
    evening = pd.Timestamp("2026-01-02 02:00Z")
    benchmark, publication = (
        evaluate_tick(schedule_of(build_defs(), name), dg.build_schedule_context(launcher.instance, evening))
        for name in ("nightly_benchmark", "nightly_publish")
    )
    assert isinstance(benchmark, dg.SkipReason)
    publish = launcher.definitions.resolve_job_def("publish")
    assert publish.execute_in_process(instance=launcher.instance, tags=publication.tags).success
    assert publication.tags[NIGHT] == "2026-01-02"
    check_surfaces({"words", "more"})
