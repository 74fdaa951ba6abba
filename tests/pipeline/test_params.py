"""params.yaml: the benchmark in one file, whose mistakes are found before any work is done."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.errors import Refusal, refused
from traube._core import paths
from traube._core.errors import Invalid, Missing
from traube._pipeline.params import Nightly, Params, Point, load_params

PARAMS = """\
protocol: paper
tasks: [pydocs_s2s]
models: [bow]
protocols:
  paper:
    reducers: [none, pca]
    clusterers:
    - kmeans
    - hdbscan
    parameters:
      kmeans:
        n_init: 10
      pca: {n_components: 5}
    seeds: [1, 2]
"""
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """params.yaml, with one thing replaced."""

    def replaced(old: str, new: str) -> Path:
        assert PARAMS.count(old) == 1
        (tmp_path / "params.yaml").write_text(PARAMS.replace(old, new))
        return tmp_path / "params.yaml"

    return replaced


@pytest.fixture
def params(write: Write) -> Params:
    return load_params(write("[1, 2]", "[1, 2]"))


def test_a_protocol_is_every_reducer_with_every_clusterer_with_its_parameters(params: Params) -> None:
    names = [method.name for method in params.chosen().methods()]
    assert names == ["none/kmeans", "none/hdbscan", "pca/kmeans", "pca/hdbscan"]
    method = params.chosen("paper").method("pca/kmeans")
    assert method.reducer_params == {"n_components": 5}
    assert method.clusterer_params["n_init"] == 10
    assert method.clusterer_params["max_iter"] == 300


def test_parameters_of_a_task_replace_the_protocols(write: Write) -> None:
    """Those of AECL's sets are what the paper prints, and a sweep's value holds for them too."""
    text = "    parameters_of: {pydocs_s2s: {kmeans: {n_init: 3, max_iter: 7}}}\n    seeds: [1, 2]\n"
    params = load_params(write("    seeds: [1, 2]\n", text + SWEEP))
    found = {
        (name, task): params.chosen(name).for_task(task).method("pca/kmeans")
        for name in ("paper", "starts", "starts.n_init=20")
        for task in ("pydocs_s2s", "pydocs_p2p")
    }
    values = {key: (m.clusterer_params["n_init"], m.clusterer_params["max_iter"]) for key, m in found.items()}
    assert values == {
        ("paper", "pydocs_s2s"): (3, 7),
        ("paper", "pydocs_p2p"): (10, 300),
        ("starts", "pydocs_s2s"): (3, 7),
        ("starts", "pydocs_p2p"): (10, 300),
        ("starts.n_init=20", "pydocs_s2s"): (20, 7),
        ("starts.n_init=20", "pydocs_p2p"): (20, 300),
    }
    assert all(method.reducer_params == {"n_components": 5} for method in found.values())
    aecl = load_params(paths.PROJECT / "params.yaml").chosen("aecl")
    weights = {t: aecl.for_task(t).method("none/aecl").clusterer_params["balance"] for t in ("agnews", "tweet")}
    assert weights == {"agnews": "even", "tweet": "auto"}


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("- kmeans\n", "- k-means\n", (Invalid, "line 8", "protocols.paper.clusterers", "k-means", "kmeans")),
        ("[none, pca]", "[pac]", (Invalid, "line 6", "protocols.paper.reducers", "pac", "pca")),
        ("      kmeans:", "      kmaens:", (Invalid, "line 11", "protocols.paper.parameters", "kmaens")),
        ("n_init: 10", "n_inti: 10",
         (Invalid, "line 12", "protocols.paper.parameters.kmeans", "n_inti", "n_init")),
        ("n_init: 10", "n_clusters: 3", (Invalid, "line 12", "protocols.paper.parameters.kmeans", "n_clusters")),
        ("seeds: [1, 2]", "parameters_of: {pydocs: {}}", (Invalid, "line 14", "protocols.paper.parameters_of", "pydocs")),
        ("seeds: [1, 2]", "parameters_of: {pydocs_s2s: {pca: {k: 2}}}",
         (Invalid, "line 14", "protocols.paper.parameters_of.pydocs_s2s.pca", "k")),
        ("seeds: [1, 2]", "seed: [1, 2]", (Invalid, "line 14", "protocols.paper.seed", "seeds")),
        ("seeds: [1, 2]", "seeds: []", (Invalid, "line 14", "protocols.paper.seeds")),
        ("seeds: [1, 2]", "precision: fp8", (Invalid, "line 14", "protocols.paper.precision", "fp32", "bf16", "auto")),
        ("models: [bow]\n", "", (Invalid, "line 1", "models")),
        ("tasks: [pydocs_s2s]", "tasks: []", (Invalid, "line 2", "tasks", 1)),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_line_and_key(write: Write, old: str, new: str, refusal: Refusal) -> None:
    path = write(old, new)
    with refused(*refusal, path):
        load_params(path)


@pytest.mark.parametrize(
    ("cron", "is_valid"),
    [
        ("0 2 * * *", True),
        ("30 4,16 1-15 */2 7", True),  # Sunday, as is 0
        ("0 2 * * 8", False),
        ("0 22-25 * * *", False),
        ("0 2 * *", False),
    ],
)
def test_a_cron_expression_has_five_fields_within_their_bounds(cron: str, is_valid: bool) -> None:
    with nullcontext() if is_valid else pytest.raises(ValidationError):
        Nightly(cron=cron)


def test_params_lie_where_traube_params_says(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAUBE_PARAMS", str(write("[bow]", "[bow, lsa]")))
    assert load_params().models == ("bow", "lsa")
    monkeypatch.setenv("TRAUBE_PARAMS", str(tmp_path / "none.yaml"))
    with refused(Missing, "none.yaml"):
        load_params()


def test_the_params_that_come_with_traube_are_sound() -> None:
    params = load_params(paths.PROJECT / "params.yaml")
    assert all(protocol.methods() for protocol in params.protocols.values())


def test_tasks_of_ones_own_have_a_protocol_of_their_own(cards: Path) -> None:
    """A card's task is evaluated by `own`, unless the benchmark holds it, or other tasks are named with it."""
    (cards / "mine.yaml").write_text("file: mine.csv\ntext: text\n")
    params = load_params()
    assert params.protocol_for(["mine"]) == "own"
    assert params.protocol_for(["mine", "pydocs_s2s"]) == params.protocol_for(None) == params.protocol
    held = params.model_copy(update={"tasks": ("mine",)})
    assert held.protocol_for(["mine"]) == params.protocol
    without = params.model_copy(update={"protocols": {params.protocol: params.chosen()}})
    assert without.protocol_for(["mine"]) == params.protocol


SWEEP = """\
sweeps:
  starts:
    protocol: paper
    clusterer: kmeans
    values:
      n_init: [1, 10, 20]
"""


def test_a_sweep_is_a_protocol_for_each_value_that_changes_something(write: Write) -> None:
    params = load_params(write("    seeds: [1, 2]\n", f"    seeds: [1, 2]\n{SWEEP}"))
    points = {name: point for name, point in params.protocols.items() if isinstance(point, Point)}
    assert list(points) == ["starts", "starts.n_init=1", "starts.n_init=20"]  # 10 is what the protocol has
    starts = [point.method("none/kmeans").clusterer_params["n_init"] for point in points.values()]
    assert starts == [10, 1, 20]
    changed = points["starts.n_init=20"]
    assert (changed.sweep, changed.parameter, changed.value, changed.seeds) == ("starts", "n_init", 20, (1, 2))
    assert [method.name for method in changed.methods()] == ["none/kmeans", "pca/kmeans"]
    assert changed.method("pca/kmeans").reducer_params["n_components"] == 5


def test_a_combination_of_a_sweep_changes_its_values_together(write: Write) -> None:
    combined = f"{SWEEP}    combinations:\n      short: {{n_init: 1, max_iter: 5}}\n      same: {{n_init: 10}}\n"
    params = load_params(write("    seeds: [1, 2]\n", f"    seeds: [1, 2]\n{combined}"))
    points = {name: point for name, point in params.protocols.items() if isinstance(point, Point)}
    assert list(points) == ["starts", "starts.n_init=1", "starts.n_init=20", "starts.short"]  # 'same' changes nothing
    short = points["starts.short"].method("none/kmeans").clusterer_params
    assert (short["n_init"], short["max_iter"], points["starts.short"].parameter) == (1, 5, "short")


@pytest.mark.parametrize(
    ("old", "new", "place", "refusal"),
    [
        ("n_init: [1,", "n_inits: [1,", "line 20: sweeps.starts.values.n_inits", (Invalid, "kmeans")),
        ("clusterer: kmeans", "clusterer: kmean", "line 16: sweeps.starts", (Invalid, "kmean")),
        ("protocol: paper\n    cl", "protocol: papers\n    cl", "line 16: sweeps.starts", (Invalid, "papers")),
    ],
)
def test_a_sweep_of_what_there_is_not_is_refused_with_its_place(
    old: str, new: str, place: str, refusal: Refusal, write: Write
) -> None:
    assert SWEEP.count(old) == 1
    path = write("    seeds: [1, 2]\n", f"    seeds: [1, 2]\n{SWEEP.replace(old, new)}")
    with refused(*refusal, place):
        load_params(path)
