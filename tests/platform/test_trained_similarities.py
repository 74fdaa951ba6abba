"""A trained similarity dropped into checkpoints/ is a model like any other: evaluated, shown, explained and served."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from assets.common import MODELS
from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.experiment import default_uri
from resources.registry import RegistryResource
from tests.errors import check_names
from tests.made import save_similarity
from tests.platform.conftest import evaluate_tick, sensor_of
from traube._cli.main import app
from traube._core import paths
from traube._storage import Storage

PARAMS = """
protocol: tiny
tasks: [queried, words]
models: [bow]
protocols:
  tiny:
    reducers: [none, pca]
    clusterers: [kmeans, agglomerative_average]
"""
WORDS = ["the", "a", "cat", "dog", "star", "soup", "bread"]
METHOD = "none/agglomerative_average"


@pytest.fixture
def cards(cards: Path) -> Path:
    """The cards folder, with the task `queried` too, whose splits have queries."""
    random = Random(0)
    rows = [
        (f"{topic} {topic} {topic} {' '.join(random.choices(WORDS, k=3))} {i}", topic, query, split)
        for split, query in (("first", "query star"), ("second", "query a soup"))
        for topic in ("cat", "dog", "bread")
        for i in range(5 if split == "first" else 4)
    ]
    with (cards / "queried.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "topic", "question", "part_of"), *rows])
    (cards / "queried.yaml").write_text(
        "file: queried.csv\ntext: text\nlabels: topic\nsplit: part_of\nquery: question\n"
    )
    (cards.parent / "params.yaml").write_text(PARAMS)
    return cards


@pytest.fixture
def checkpoint(tiny_bert: Path) -> Path:
    """A trained similarity in checkpoints/, called `mine`."""
    return save_similarity(Path(shutil.copytree(tiny_bert, paths.checkpoints() / "mine")))


@pytest.fixture
def traube(traube: Callable[..., Result]) -> Callable[..., Result]:
    """Call a command that succeeds."""

    def call(*arguments: str) -> Result:
        result = traube(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return call


def statuses(storage: Storage) -> dict[tuple[str, str], str]:
    """Of the cells of `mine`, by task and method."""
    cells = storage.read_cells()
    cells = cells[cells["model"] == "mine"]
    return dict(zip(zip(cells["task"], cells["reducer"] + "/" + cells["clusterer"]), cells["status"]))  # noqa: B905


@pytest.mark.slow
def test_the_sensor_has_it_evaluated_where_splits_have_queries(
    launcher: DagsterLauncher, checkpoint: Path, storage: Storage
) -> None:
    launcher.datasets(["queried", "words"])
    definitions = build_defs()
    sensor, cursor, requests = sensor_of(definitions, "new_checkpoints"), None, []
    while not requests:
        ticked = evaluate_tick(sensor, dg.build_sensor_context(launcher.instance, cursor, definitions=definitions))
        cursor, requests = ticked.cursor, ticked.run_requests or []
    (request,) = requests
    launcher.instance.add_dynamic_partitions(str(MODELS.name), [request.partition_key])
    job = definitions.resolve_job_def("evaluate")
    done = job.execute_in_process(
        instance=launcher.instance, partition_key=request.partition_key, asset_selection=request.asset_selection
    )
    assert done.success
    found = statuses(storage)
    assert [key for key, status in found.items() if status == "done"] == [("queried", METHOD)]
    assert set(found.values()) == {"done", "unsupported"} and len(found) == 8
    cells = storage.read_cells()
    (reason,) = set(cells[(cells["model"] == "mine") & (cells["task"] == "words")]["reason"])
    check_names(reason, "mine", "words")


@pytest.mark.slow
def test_every_command_takes_it_for_a_model(
    traube: Callable[..., Result], checkpoint: Path, home: Path, storage: Storage
) -> None:
    traube("run", "-m", "mine", "-m", "bow")
    board = json.loads(traube("leaderboard", "--all", "--format", "json").stdout)
    shown = {(row["task"], row["model"], row["method"]): row for row in board}
    assert shown["queried", "mine", METHOD]["status"] == "done"
    assert shown["words", "mine", METHOD]["status"] == "unsupported"
    assert "mine" in traube("leaderboard").stdout
    (origin,) = json.loads(traube("provenance", "queried", "mine", METHOD, "--json").stdout)
    assert origin["status"] == "done" and origin["changed_since"] == [] and origin["scores"]
    listed = {row["model"]: row for row in json.loads(traube("models", "--json").stdout)}
    assert (listed["mine"]["kind"], listed["mine"]["status"]) == ("pairwise", "ready")
    assert "equal: cell" in traube("reproduce", origin["cell_id"]).stdout
    assert "checkpoints" in traube("doctor").stdout
    assert "Nothing is missing" in traube("run", "-m", "mine", "-m", "bow").stdout
    assert (home / "report" / "index.html").read_text().count("mine")
    assert json.loads(traube("compare", "mine", "bow", "--json").stdout)[0]["a"]["model"] == "mine"


def test_commands_say_what_is_wrong_with_a_broken_one(cards: Path, checkpoint: Path) -> None:
    (checkpoint / "similarity" / "config.json").write_text("{}")
    said = CliRunner().invoke(app, ["models", "--json"]).stdout
    assert "similarity/config.json" in {row["model"]: row for row in json.loads(said)}["mine"]["status"]
    done = CliRunner().invoke(app, ["run", "-m", "mine"])
    assert done.exit_code == 1 and "similarity/config.json" in done.output.replace("\n", "")
    examined = CliRunner().invoke(app, ["doctor", "--json"])
    assert examined.exit_code == 1
    (finding,) = [row["finding"] for row in json.loads(examined.stdout) if row["check"] == "checkpoint mine"]
    assert "similarity/config.json" in finding


@pytest.mark.slow
def test_it_becomes_champion_and_serves_new_passages_in_a_fresh_process(
    traube: Callable[..., Result], checkpoint: Path
) -> None:
    params = paths.params().read_text()
    paths.params().write_text(re.sub(r"(?m)^models: .*$", "models: [mine]", params))  # the first champion waits for all
    traube("run", "-m", "mine", "-t", "queried")
    held = RegistryResource().find_version("queried", "champion")
    assert held is not None
    assert (held["model"], held["method"], held["decision"]) == ("mine", METHOD, "first")
    shutil.rmtree(checkpoint)  # what is served stays
    code = """
import mlflow
model = mlflow.pyfunc.load_model("models:/traube-queried@champion")
print(model.predict(["cat cat cat the", "bread bread bread the", "cat cat cat a"]).to_json(orient="records"))
"""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": default_uri(), "TRAUBE_HOME": str(paths.home())}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    cat, bread, other = json.loads(done.stdout.splitlines()[-1])
    assert cat["cluster"] == other["cluster"] != bread["cluster"]
    assert "cat" in cat["words"] and "bread" in bread["words"]
    assert 0 <= cat["distance"] <= 1


def test_what_was_found_for_a_query_is_grouped_and_described(
    traube: Callable[..., Result], cards: Path, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "found.csv"
    shutil.copy(cards / "queried.csv", file)
    shown = traube("cluster", str(file), "--query", "query [red]star", "--model", "mine", "-k", "3").stdout
    assert f"3 groups by mine, {METHOD}, for: query [red]star" in " ".join(shown.split())
    assert all(topic in shown for topic in ("cat", "dog", "bread"))
    with file.with_name("found.csv.clusters.csv").open() as written:
        rows = list(csv.DictReader(written))
    assert len(rows) == 27 and len({row["group"] for row in rows}) == 3
    assert all(0 <= float(row["distance"]) <= 1 for row in rows)
    assert "k was chosen by correlation" in traube("cluster", str(file), "--query", "a star", "--model", "mine").stdout
    given = ("-m", "mine", "--query", "a cat", "--method", "none/hdbscan", "-k", "3")
    refused = CliRunner().invoke(app, ["cluster", str(file), *given])
    assert refused.exit_code == 1 and f" -k, or use {METHOD}" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
