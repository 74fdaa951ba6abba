"""One truth: after a run, every surface shows the same numbers, ranks and verdicts."""

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from typer.testing import CliRunner

from operations.launch import DagsterLauncher
from resources.experiment import connect, default_uri
from resources.registry import RegistryResource
from traube._cli.main import app
from traube._core import paths
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._pipeline.workbench import Workbench
from traube._reports.pages import make_page
from traube._reports.tables import show_rank
from traube._storage import Storage
from traube.comparison.candidates import candidates, main_metric
from traube.comparison.standings import compare_candidates
from traube.comparison.verdict import format_significance
from traube.tasks.stored import get_card

MODELS = ("bow", "tfidf", "lsa")
CHAMPIONS = "docs/how-to/champions.md"


def answer(*command: str) -> Any:
    """Return the JSON that a command prints."""
    as_json = ["--format", "json"] if command[0] == "leaderboard" else ["--json"]
    done = CliRunner().invoke(app, [*command, *as_json])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Truth:
    """The leaderboard's rows by model, the best first, and the wording that every surface quotes."""

    rows: dict[str, dict[str, Any]]

    @property
    def first(self) -> str:
        """The best model."""
        return next(iter(self.rows))

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each other model."""
        return {model: row["verdict"] for model, row in self.rows.items() if model != self.first}

    @property
    def ranks(self) -> dict[str, str]:
        """Each model's rank in words."""
        return {model: show_rank(pd.Series(row)) for model, row in self.rows.items()}

    def significance(self, model: str) -> str:
        """Return the p-value of a model's difference from the best in words."""
        return format_significance(self.rows[model]["p"], 3)


@pytest.fixture
def truth(launcher: DagsterLauncher, request_for: Callable[..., Request], storage: Storage) -> Truth:
    """Three models: two were scored and published after the champion."""
    for model in MODELS[1:]:
        assert launcher.evaluate(model, ["words"], request_for(["words"], [model])) == []
    assert launcher.publish() == []
    table = pd.read_parquet(storage.get_table_path("leaderboard.parquet"))
    return Truth({row["model"]: row for row in table[table["best"].astype(bool)].to_dict("records")})


@pytest.mark.begin_with("published")
def test_all_surfaces_quote_the_same_numbers_and_verdicts(
    launcher: DagsterLauncher, truth: Truth, storage: Storage
) -> None:
    assert set(truth.rows) == set(MODELS)
    assert len(set(truth.verdicts.values())) == 2  # so that each surface shows both wordings
    assert all(truth.rows[model]["comparisons"] == 3 for model in truth.verdicts)
    answers = check_terminal(truth)
    check_files(truth, storage)
    check_page(truth, answers)
    check_mlflow(truth, storage)
    check_dagster(truth, launcher)
    check_registry(truth, launcher, storage)


def check_terminal(truth: Truth) -> dict[str, str]:
    """Check `recommend`, `compare` and `leaderboard`; return the answers of `compare`."""
    best = answer("recommend", "words")
    assert (best["model"], best["score"]) == (truth.first, pytest.approx(truth.rows[truth.first]["mean"]))
    assert {of["b"]: of["id"] for of in best["verdicts"]} == truth.verdicts
    answers = {}
    for model in truth.verdicts:
        (compared,) = answer("compare", truth.first, model, "-t", "words")
        answers[model] = compared["verdict"]["answer"]
        assert compared["verdict"]["id"] == truth.verdicts[model]
        p = compared["verdict"]["p"]
        assert math.isnan(truth.rows[model]["p"]) if p is None else p == pytest.approx(truth.rows[model]["p"])
        assert compared["b"]["mean"] == pytest.approx(truth.rows[model]["mean"])
    shown = {row["model"]: row for row in answer("leaderboard") if row["best"]}
    assert {model: row["verdict"] for model, row in shown.items() if model != truth.first} == truth.verdicts

    table = CliRunner().invoke(app, ["leaderboard", "-t", "words"]).stdout
    assert "95 % CI" in table and all(rank in table for rank in truth.ranks.values())
    assert all(truth.significance(model) in text or "undecided" in text for model, text in answers.items())
    return answers


def check_files(truth: Truth, storage: Storage) -> None:
    """Check the written leaderboard and the page of all tasks."""
    saved = pd.read_csv(storage.get_table_path("leaderboard.csv"))
    of_best = saved[saved["best"]].set_index("model")
    assert of_best["mean"].to_dict() == pytest.approx({model: row["mean"] for model, row in truth.rows.items()})
    assert of_best["verdict"].dropna().to_dict() == truth.verdicts
    index = (paths.home() / "report" / "index.html").read_text()
    for row in truth.rows.values():
        assert f"{100 * row['mean']:.2f}" in index
    assert "<th>95 % CI</th>" in index and all(f">{rank}</td>" in index for rank in truth.ranks.values())


def check_page(truth: Truth, answers: dict[str, str]) -> None:
    """Check the page of the task."""
    bench = Workbench.at(paths.home())
    page = make_page(bench, load_params().protocols, "words", paths.home()).read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    board = {row["model"]: row for row in data["board"] if row["best"]}
    for model, row in truth.rows.items():
        assert board[model]["score"] == pytest.approx(100 * row["mean"], abs=0.005)
        assert board[model]["rank"] == truth.ranks[model]
    pairs = {(pair["a"], pair["b"]): pair for pair in data["pairs"]}
    for model in truth.verdicts:
        assert pairs[truth.first, model]["comparisons"] == 3
        assert pairs[truth.first, model]["answer"] == answers[model]
        if not math.isnan(truth.rows[model]["p"]):
            assert pairs[truth.first, model]["p"] == pytest.approx(truth.rows[model]["p"], abs=1e-4)


def check_mlflow(truth: Truth, storage: Storage) -> None:
    """Check runs, their artifacts, and logged models."""
    import mlflow

    experiment = connect(default_uri())
    client = experiment.client
    runs = client.search_runs([experiment.id], "tags.`traube.kind` = 'task'")
    assert {run.data.tags["traube.model"] for run in runs} == set(MODELS)
    for run in runs:
        model, tags = run.data.tags["traube.model"], run.data.tags
        assert run.data.metrics["best/topic"] == pytest.approx(truth.rows[model]["mean"])
        assert run.data.params["protocol.reducers"] == str(list(load_params().chosen().reducers))
        assert run.data.params["model.kind"] == model
        method, metric = (truth.rows[model][name] for name in ("method", "metric"))
        assert (tags["traube.method/topic"], tags["traube.metric/topic"]) == (method, metric)
        assert f"`best/topic` is {metric} of {method}" in tags["mlflow.note.content"]
        assert tags["traube.rank/topic"] == truth.ranks[model]
        assert tags.get("traube.p/topic", "") == ("" if model == truth.first else truth.significance(model))
        assert tags.get("traube.verdict/topic", "") == ("" if model == truth.first else truth.verdicts[model])
        assert model == truth.first or re.fullmatch(r"\d{4}-\d\d-\d\d", tags["traube.verdict_date"])
        kept = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, tracking_uri=default_uri()))
        assert {file.name for file in kept.iterdir()} == {"assignments.parquet", "heatmap.png", "methods.png"}
        assigned = pd.read_parquet(kept / "assignments.parquet")
        cells = storage.read_cells("words").query("model == @model and status == 'done'")
        assert len(assigned) == sum(len(storage.read_assignments(cell_id)) for cell_id in cells["cell_id"])
    best_first: list[dict[str, Any]] = [{"field_name": "metrics.best/topic", "ascending": False}]
    logged = client.search_logged_models([experiment.id], "tags.`traube.task` = 'words'", order_by=best_first)
    ranked = {of.tags["traube.model"]: {m.key: m.value for m in of.metrics}["best/topic"] for of in logged}
    assert ranked == {model: row["mean"] for model, row in truth.rows.items()} and len(logged) == len(ranked)
    assert list(ranked.values()) == sorted(ranked.values(), reverse=True)
    for code in re.findall("```python\n(mlflow.search.*?)```", (paths.PROJECT / CHAMPIONS).read_text("utf-8"), re.S):
        mlflow.set_tracking_uri(default_uri())
        names = {"'pydocs_s2s'": "'words'", "'paper'": f"'{load_params().protocol}'", "metrics.coarse": "metrics.topic"}
        for name, here in names.items():
            assert name in code
            code = code.replace(name, here)
        assert set(eval(code.strip())["name"]) == {f"words-{model}" for model in MODELS}
    by_ami = "metrics.topic/ami/noise_as_cluster"
    logged = client.search_logged_models([experiment.id], order_by=[{"field_name": by_ami, "ascending": False}])
    scored = [of for of in logged if of.metrics]  # the served one is another
    amis = [{m.key: m.value for m in of.metrics}[by_ami.removeprefix("metrics.")] for of in scored]
    assert len(amis) == len(MODELS) and amis == sorted(amis, reverse=True)
    assert {m.dataset_name for of in scored for m in of.metrics} == {"words"}


def check_dagster(truth: Truth, launcher: DagsterLauncher) -> None:
    """Check the metadata of the leaderboard and of the scores."""
    board_event = launcher.instance.get_latest_materialization_event(dg.AssetKey("leaderboard"))
    assert board_event is not None and board_event.asset_materialization is not None
    chart = str(board_event.asset_materialization.metadata["chart"].value)
    assert base64.b64decode(chart.partition("base64,")[2].removesuffix(")")).startswith(b"\x89PNG")
    assert all(id_ in str(board_event.asset_materialization.metadata["best"].value) for id_ in truth.verdicts.values())
    shown = str(board_event.asset_materialization.metadata["best"].value)
    assert "95 % CI" in shown and all(f"| {rank} | {model} |" in shown for model, rank in truth.ranks.items())
    events = launcher.instance.fetch_materializations(dg.AssetKey(["words", "scores"]), limit=10).records
    scored = {event.partition_key: event.asset_materialization for event in events}
    for model, row in truth.rows.items():
        made = scored[model]
        assert made is not None and made.metadata["best_topic"].value == pytest.approx(row["mean"])
        table = str(made.metadata["scores"].value)
        assert f"| {row['method']} |" in table and f" {100 * row['mean']:.2f} " in table and "nan" not in table


def check_registry(truth: Truth, launcher: DagsterLauncher, storage: Storage) -> None:
    """Check the registry, whose family of comparisons are the newcomers."""
    registry, params = RegistryResource(), load_params()
    decided = [tags for alias in ("champion", "challenger") if (tags := registry.find_version("words", alias))]
    (tags,) = (tags for tags in decided if tags.get("verdict"))
    metric = main_metric(get_card(storage, "words"), params.chosen())
    by_name = {c.name: c for c in candidates(storage, "words", params.protocol, params.chosen(), metric)}
    new, old = by_name[f"{tags['model']} with {tags['method']}"], by_name[tags["against"]]
    verdict = compare_candidates(storage, new, old, comparisons=2, level=params.promotion.level)
    assert (tags["verdict"], tags["comparisons"], tags["test"]) == (verdict.id, "2", verdict.test)
    assert tags["interval"] == f"{verdict.low:+.6f} to {verdict.high:+.6f}"
    assert verdict.undecided or verdict.significance in tags["reason"]
    assert float(tags["p"]) == pytest.approx(verdict.p, rel=0.01)
    assert float(tags["score"]) == pytest.approx(new.mean, abs=1e-6)
    assert float(tags["difference"]) == pytest.approx(new.mean - old.mean, abs=1e-6)
    event = launcher.instance.get_latest_materialization_event(dg.AssetKey("registry"))
    assert event is not None and event.asset_materialization is not None
    assert tags["reason"] in str(event.asset_materialization.metadata["verdicts"].value)
    champion = registry.find_version("words", "champion")
    assert champion is not None
    assert float(champion["score"]) == pytest.approx(truth.rows[champion["model"]]["mean"], abs=1e-6)
