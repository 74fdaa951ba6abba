"""The shape of the graph, and that it loads light."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

import dagster as dg
import pytest
from syrupy.assertion import SnapshotAssertion

from assets.common import CHECKPOINTS, trainer_key
from tests.errors import refused
from tests.made import store_task
from traube._core import paths
from traube._core.errors import Invalid
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.params import load_params
from traube._pipeline.record import record
from traube._storage import open_storage
from traube.components import parse_method
from traube.tasks.task import Task
from traube.training import TRAINERS

HEAVY = {
    "torch",
    "transformers",
    "sentence_transformers",
    "great_expectations",
    "umap",
    "hdbscan",
    "mlflow",
    "matplotlib",
    "ray",
}

pytestmark = pytest.mark.all_papers
SHOWN = {  # by table, whose checkpoints it shows
    "german/table_5": {"wwm", "tsdae"},
    "cob/table_4": {"cob", "triplet", "untrained"},
    "qs3m/table_2": {"qs3m"},
    "aecl/table_2": set(),
}


def write_params(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Have a params.yaml with other values than the project's, a line each."""
    text = (paths.PROJECT / "params.yaml").read_text()
    for line in more:
        text = re.sub(rf"^{line.partition(':')[0]}:.*\n", line, text, count=1, flags=re.MULTILINE)
    (folder / "params.yaml").write_text(text)
    monkeypatch.setenv("TRAUBE_PARAMS", str(folder / "params.yaml"))


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    """The whole graph, which nobody changes."""
    from definitions import build_defs

    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "CHECKPOINTS", "CARDS"):  # nobody's own tasks
            patch.setenv(f"TRAUBE_{name}", str(folder))
        write_params(folder, patch, "graph: all\n")
        return build_defs()


def test_the_graph_is_the_one_that_was_agreed_on(definitions: dg.Definitions, snapshot: SnapshotAssertion) -> None:
    graph = definitions.resolve_asset_graph()
    checks = {key: sorted(c.name for c in graph.get_check_keys_for_assets({key})) for key in graph.get_all_asset_keys()}
    shape = {
        key.to_user_string(): {
            "group": graph.get(key).group_name,
            "partitions": getattr(graph.get(key).partitions_def, "name", None),
            "after": sorted(parent.to_user_string() for parent in graph.get(key).parent_keys),
            "checks": checks[key],
        }
        for key in sorted(graph.get_all_asset_keys())
        if key.path[0] in ("pydocs_s2s", "tweet") or graph.get(key).group_name == "results"
    }
    shape["leaderboard"]["after"] = [name for name in shape["leaderboard"]["after"] if "pydocs" in name]
    assert shape == snapshot


def test_the_graph_can_be_read(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    labels = Counter((graph.get(key).group_name, key.path[-1]) for key in graph.get_all_asset_keys())
    assert len(labels) < 330
    assert set(labels.values()) == {1}  # a node's label is the last part of its key
    german = dg.AssetSelection.tag("traube/family", "german").resolve(graph)
    assert {graph.get(key).group_name for key in german} >= {"blurbs_s2s", "tenkgnad_p2p"}
    (parted,) = {graph.get(trainer_key(name, CHECKPOINTS)).partitions_def for name in ("cob", "wwm", "qs3m")}
    assert {"newsgroups", "tweet"} <= set(parted.get_partition_keys())
    groups = {key: str(graph.get(key).group_name) for key in graph.get_all_asset_keys()}
    assert {name for key, name in groups.items() if key.path[0] == "trainers"} == {f"trainer_{t}" for t in TRAINERS}
    before = {
        group: {groups[p] for k in groups if groups[k] == group for p in graph.get(k).parent_keys}
        for group in groups.values()
    }
    TopologicalSorter({group: before[group] - {group} for group in before}).prepare()  # no arrow leads back
    assert all(graph.get(key).kinds and graph.get(key).description for key in groups)
    descriptions = [str(graph.get(key).description) for key in groups]
    assert not [text for text in descriptions if re.search(r"[.:]:|\.\.|[^.:] It goes on", text)]
    assert all(sensor.description for sensor in definitions.sensors or [])
    described = str(graph.get(dg.AssetKey(["blurbs_s2s", "corpus"])).description)
    assert re.search(r"\[Source\]\(https://\S+\)", described)
    nightly = {key for key in groups if graph.get(key).freshness_policy}
    assert nightly >= {dg.AssetKey(name) for name in ("leaderboard", "registry", "regressions")}
    assert nightly >= {key for key in groups if key.path[0] == "papers"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "stored", "shown"),
    [("", False, {"tweet"}), ("protocol: aecl\n", False, {"tweet", "pydocs_s2s"}), ("", True, {"tweet", "pydocs_s2s"})],
    ids=["the demo", "a protocol that trains", "a result of AECL"],
)
def test_pages_show_no_stage_that_nothing_fills(
    more: str, stored: bool, shown: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from definitions import build_defs

    write_params(tmp_path, monkeypatch, "graph: all\n", *filter(None, [more]))
    if stored:
        method = parse_method("none/aecl", {"aecl": {"epochs": 2}})
        cell = ClusteringCell("pydocs_s2s", "pydocs", "minilm", "f1", method, 1, "aecl", "default", "v1")
        open_storage(paths.home()).save(replace(record(cell, "failed"), created="2026-01-01"))
    definitions = build_defs()
    graph = definitions.resolve_asset_graph()
    stages = {task: dg.AssetKey([task, "deep_clusterings"]) for task in ("tweet", "pydocs_s2s")}
    assert {task for task, key in stages.items() if key in graph.get_all_asset_keys()} == shown
    assert {
        task for task, key in stages.items() if key in graph.get(dg.AssetKey([task, "scores"])).parent_keys
    } == shown
    assert definitions.resolve_job_def("evaluate")


@pytest.mark.slow
def test_pages_show_who_answers_for_an_asset_and_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from definitions import build_defs

    monkeypatch.setenv("TRAUBE_PARAMS", str(tmp_path / "params.yaml"))
    given = (paths.PROJECT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(given.replace("owners: []", "owners: [team:search, anna@example.org]"))
    node = build_defs().resolve_asset_graph().get(dg.AssetKey(["pydocs_s2s", "scores"]))
    assert set(node.owners) == {"team:search", "anna@example.org"}
    assert "assets/stages.py" in str(node.metadata["dagster/code_references"])
    (tmp_path / "params.yaml").write_text(given.replace("owners: []", "owners: [somebody]"))
    with refused(Invalid, "owners"):
        load_params()
    assert build_defs().resolve_asset_graph().get(node.key)  # the graph is loaded all the same
    subprocess.run(["git", "init", "-q", tmp_path / "checkout"], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "checkout" / ".git"))
    subprocess.run(["git", "remote", "add", "origin", "https://github.com/anna/traube.git"], check=True)
    code = build_defs().resolve_asset_graph().get(node.key).metadata["dagster/code_references"]
    assert "https://github.com/anna/traube/tree/main/assets/stages.py" in str(code)


def test_the_jobs_are_known_and_what_runs_by_itself_is_on(definitions: dg.Definitions) -> None:
    jobs = {job.name for job in definitions.resolve_all_job_defs() if not job.name.startswith("__")}
    assert jobs == {"datasets", "evaluate", "publish", "train", "tune", "sweep", "fetch", "clean"}
    sensors = {sensor.name: sensor.default_status for sensor in definitions.sensors or []}
    names = [
        "watched_models",
        "new_checkpoints",
        "raw_data",
        "publish_after_success",
        "publish_after_failure",
        "publish_after_canceled",
        "failed_runs",
        "lost_runs",
        "failed_ticks",
        "nightly_digest",
        "late_night",
    ]
    running = dict.fromkeys(names, dg.DefaultSensorStatus.RUNNING)
    assert sensors == {**running, "declarative_automation": dg.DefaultSensorStatus.STOPPED}


SENSOR = """
import dagster as dg

def jobs():
    @dg.op
    def ring(): ...

    @dg.job
    def bell():
        ring()

    return [bell]

def sensors(loaded):
    @dg.sensor(name="doorbell", job=loaded.jobs["bell"])
    def doorbell():
        return dg.SkipReason(f"besides {loaded.jobs['evaluate'].name}")

    return [doorbell]
"""


def test_a_new_sensor_and_its_job_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sensors
    from definitions import build_defs

    (tmp_path / "doorbell.py").write_text(SENSOR)
    with monkeypatch.context() as patched:
        patched.setattr(sensors, "__path__", [*sensors.__path__, str(tmp_path)])
        definitions = build_defs()
    sys.modules.pop("sensors.doorbell")
    assert "doorbell" in {sensor.name for sensor in definitions.sensors or []}
    assert definitions.resolve_job_def("bell").name == "bell"


def test_the_paper_of_a_plugin_is_in_the_graph(install: Callable[..., None]) -> None:
    from definitions import build_defs

    install(
        "toy",
        paper="import pandas as pd\n"
        "from traube._reports.papers import Paper, Table\n"
        "PAPER = Paper('Toy', tables=(Table('table_1', 'A table.', None, lambda context: pd.DataFrame()),))\n",
    )
    definitions = build_defs()
    key = dg.AssetKey(["papers", "toy", "table_1"])
    assert definitions.resolve_asset_graph().get(key).group_name == "paper_toy"
    assert key in definitions.resolve_job_def("publish").asset_layer.selected_asset_keys


def test_the_lineage_of_a_paper_reaches_the_checkpoints_that_it_shows(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    parents = {name: graph.get(dg.AssetKey(["papers", *name.split("/")])).parent_keys for name in SHOWN}
    trained = {
        name: {k.path[1].removesuffix(CHECKPOINTS) for k in keys if k.path[0] == "trainers"}
        for name, keys in parents.items()
    }
    assert trained == SHOWN
    published = definitions.resolve_job_def("publish").asset_layer.selected_asset_keys
    assert not any(key.path[0] == "trainers" for key in published)  # publishing trains nothing


def test_the_evaluate_job_holds_partitioned_assets_only(definitions: dg.Definitions) -> None:
    job = definitions.resolve_job_def("evaluate")
    graph = definitions.resolve_asset_graph()
    made = job.asset_layer.selected_asset_keys
    stages = {"embeddings", "clusterings", "deep_clusterings", "scores", "pair_scores"}
    assert {key.path[1] for key in made} == stages
    assert all(graph.get(key).partitions_def for key in made)


def test_an_asset_has_at_most_eight_checks(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    assert all(len(graph.get_check_keys_for_assets({key})) <= 8 for key in graph.get_all_asset_keys())


def test_every_registered_task_is_in_the_whole_graph(
    definitions: dg.Definitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traube.tasks import PAIRS, sources

    monkeypatch.setenv("TRAUBE_CARDS", str(tmp_path))  # nobody's own tasks
    keys = {key.path[0] for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {*sources(), *sources(PAIRS)} <= keys


def test_the_graph_holds_what_is_named_and_what_has_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_task: Task
) -> None:
    from assets.used import find_used
    from definitions import build_defs

    def groups(*tasks: str) -> set[str | None]:
        graph = build_defs(find_used(tasks)).resolve_asset_graph()
        return {graph.get(key).group_name for key in graph.get_all_asset_keys()}

    write_params(tmp_path, monkeypatch, "pair_tasks: [stsb_de]\n")
    few = {"pydocs_s2s", "pydocs_p2p", "stsb_de", "models", "results", "sweeps", "trainer_tsdae", "trainer_wwm"}
    assert groups() == few
    assert groups("pydocs_s2s") == few
    assert groups("tweet") - few >= {"tweet"} and not any(str(name).startswith("paper_") for name in groups("tweet"))
    write_params(tmp_path, monkeypatch, "tasks: [tweet]\n")
    assert not {"pydocs_s2s", "stsb_de"} & groups()
    named = replace(tiny_task, card=tiny_task.card.model_copy(update={"name": "blurbs_s2s"}))
    store_task(open_storage(paths.home()), named)
    assert groups() >= {"tweet", "blurbs_s2s", "paper_german"} and not {"paper_cob", "paper_giccs"} & groups()


def test_a_pair_task_has_stages_of_its_own(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    after = {
        key.path[1]: sorted(parent.path[-1] for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
        if key.path[0] == "stsb_de"
    }
    assert after == {
        "raw": [],
        "corpus": ["raw"],
        "pairs": ["corpus"],
        "embeddings": ["corpus", "pairs", "weights"],
        "pair_scores": ["embeddings", "pairs"],
    }
    made = {
        key
        for job in ("datasets", "evaluate")
        for key in definitions.resolve_job_def(job).asset_layer.selected_asset_keys
    }
    assert {key.path[1] for key in made if key.path[0] == "stsb_de"} == set(after) - {"raw"}


@pytest.mark.slow
def test_loading_imports_nothing_heavy_from_whatever_folder_it_is_started(tmp_path: Path) -> None:
    code = "import definitions, sys; definitions.defs(); print(*sorted(sys.modules)); print(definitions.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    modules, file = done.stdout.splitlines()[-2:]
    assert not HEAVY & set(modules.split())
    assert Path(file).parent == paths.PROJECT


@pytest.mark.slow
@pytest.mark.parametrize("command", [("check", "defs"), ("list", "defs", "--json")], ids=" ".join)
def test_dagsters_own_command_finds_the_definitions(command: tuple[str, ...]) -> None:
    dg_command = Path(sys.executable).with_name("dg")
    done = subprocess.run([dg_command, *command], cwd=paths.PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "task_reports" in done.stdout or "loaded successfully" in done.stdout + done.stderr
