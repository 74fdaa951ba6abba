"""Comparisons and boards of scores: tables for papers and pages, ranks over tasks, MTEB's files."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Traube, begin_in, call
from traube._core import paths
from traube._core.config import read_yaml

WORDS = {
    "one": {"fruit": "apple pear plum cherry grape", "tools": "hammer saw drill wrench chisel"},
    "two": {"birds": "owl robin swift crane heron", "seas": "wave tide reef shore gulf"},
    "three": {"sky": "star moon nova comet orbit", "food": "bread soup rice stew cake"},
}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which three files were evaluated with three models, and one of them under another protocol as well."""
    folder = tmp_path_factory.mktemp("evaluated")
    for name, topics in WORDS.items():
        rows = [
            f"{a} {b} number {i},{topic}"
            for topic, words in topics.items()
            for i, (a, b) in enumerate(zip(words.split(), words.split()[::-1], strict=True))
        ]
        (folder / f"{name}.csv").write_text("\n".join(["text,topic", *rows, *(f"{row} again" for row in rows)]))
    with pytest.MonkeyPatch.context() as patch:
        begin_in(folder, patch)
        for name in ("HOME", "CARDS", "CHECKPOINTS"):
            patch.setenv(f"TRAUBE_{name}", str(folder / name.lower()))
        every = [f"{name}.csv" for name in WORDS]
        for command in (["run", *every, "-m", "bow", "-m", "tfidf", "-m", "lsa"], ["run", "one.csv", "-p", "tiny"]):
            done = call(*command)
            assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def traube(evaluated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traube]:
    """Call the command in that folder."""
    begin_in(evaluated, monkeypatch)
    monkeypatch.setenv("TRAUBE_HOME", str(evaluated / "home"))
    return call


@pytest.mark.slow
def test_without_a_task_models_are_compared_on_all_that_both_have(traube: Traube) -> None:
    found = json.loads(traube("compare", "bow", "tfidf", "--json").stdout)
    assert [comparison["task"] for comparison in found] == ["one", "three", "two"]
    (one,) = json.loads(traube("compare", "bow", "tfidf", "-t", "one.csv", "--json").stdout)
    assert one["verdict"] == found[0]["verdict"]
    assert "`traube run -m bow -m minilm`" in " ".join(traube("compare", "bow", "minilm").stderr.split())
    assert "unknown model 'tfidff': did you mean tfidf" in traube("compare", "bow", "tfidff").stderr


def test_metrics_and_methods_may_be_written_in_any_case(traube: Traube) -> None:
    (found,) = json.loads(traube("compare", "bow:KMeans", "tfidf:none/KMEANS", "-t", "one", "--json").stdout)
    assert (found["a"]["method"], found["b"]["method"]) == ("none/kmeans", "none/kmeans")
    by_metric = [
        traube("leaderboard", "-t", "one", "--metric", name).stdout for name in ("ARI", "ari/noise_as_cluster")
    ]
    assert by_metric[0] == by_metric[1] and "ari/noise_as_cluster" in by_metric[0]
    assert "none/kmeans" in traube("provenance", "one.csv", "bow", "KMeans").stdout
    assert "up to date" in traube("run", "one.csv", "-m", "bow", "--method", "Kmeans").stdout


def test_a_leaderboard_is_written_for_a_paper_a_page_and_a_program(traube: Traube) -> None:
    command = ("leaderboard", "-t", "one", "-p", "own", "--format")
    rows = json.loads(traube(*command, "json").stdout)
    assert {row["model"] for row in rows} == {"bow", "tfidf", "lsa"}
    written = list(csv.DictReader(traube(*command, "csv").stdout.splitlines()))
    assert [row["model"] for row in written] == [row["model"] for row in rows]
    page = traube(*command, "markdown").stdout
    assert page.startswith(
        "**one, topic: ami/noise_as_cluster x100, 1 split, protocol own**\n\n| rank | model | best method |"
    )
    assert page.count("\n| ") == 2 + 3 and "rank:" not in page
    paper = traube(*command, "latex").stdout
    assert r"\toprule" in paper and paper.count(r"\\") == 1 + 3 and re.search(r"none/(kmeans|agglomerative)", paper)
    assert r"95 \% CI" in paper


@pytest.mark.parametrize(
    ("command", "shown", "added"),
    [
        ("leaderboard -t one -p own", ["rank", "95 % CI"], ["sd", "seeds", "p against the first"]),
        ("compare bow tfidf -t one", ["95 % CI", "3 comparisons"], ["paired jackknife", "standard error"]),
        ("recommend one.csv", ["95 % CI", "3 comparisons"], ["paired jackknife", "standard error"]),
    ],
)
def test_statistics_beyond_rank_interval_and_p_are_details(
    traube: Traube, command: str, shown: list[str], added: list[str]
) -> None:
    usual, detailed = (" ".join(traube(*command.split(), *more).stdout.split()) for more in ([], ["--details"]))
    assert all(words in usual and words in detailed for words in shown)
    assert all(words not in usual and words in detailed for words in added)


def test_models_are_ranked_over_tasks_by_our_own_tests(traube: Traube, tmp_path: Path) -> None:
    rows = json.loads(traube("leaderboard", "--over-tasks", "--format", "json").stdout)
    assert [row["tasks"] for row in rows] == [3, 3, 3]
    assert sum(row["mean_rank"] for row in rows) == pytest.approx(6)  # 1 + 2 + 3, ties shared
    assert [row["mean_rank"] for row in rows] == sorted(row["mean_rank"] for row in rows)
    table = traube("leaderboard", "--over-tasks")
    assert "mean rank" in table.stdout and "ranks are means over 3 tasks: one, three and two" in " ".join(
        table.stdout.split()
    )
    command = "leaderboard --over-tasks -t one.csv -t two.csv -m bow -m lsa --format json"
    two = json.loads(traube(*command.split()).stdout)
    assert [(row["tasks"], row["model"] in ("bow", "lsa")) for row in two] == [(2, True), (2, True)]
    assert r"\toprule" in traube("leaderboard", "--over-tasks", "--format", "latex").stdout
    refused = traube("leaderboard", "--over-tasks", "-t", "one")
    assert "3 of 3" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(("ending", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_ranks_over_tasks_are_drawn(traube: Traube, tmp_path: Path, ending: str, begin: bytes) -> None:
    path = tmp_path / f"ranks.{ending}"
    done = traube("leaderboard", "--over-tasks", "--figure", str(path))
    assert done.exit_code == 0, done.output
    assert path.read_bytes().startswith(begin) and f"written to {path}" in done.stderr
    assert ".svg, .png, .pdf" in " ".join(traube("leaderboard", "--over-tasks", "--figure", "ranks.gif").stderr.split())


def test_every_protocol_is_exported_by_its_method_that_is_nearest_to_mtebs(traube: Traube, tmp_path: Path) -> None:
    done = traube("export", "-o", str(tmp_path / "results"))
    assert done.exit_code == 0, done.output
    assert "10 files written to" in done.stdout and "of none/kmeans, none/minibatch_kmeans" in done.stdout
    files = {path.relative_to(tmp_path / "results").parts[0] for path in (tmp_path / "results").rglob("*.json")}
    assert files == {"traube__bow", "traube__tfidf", "traube__lsa", "tiny"}
    of_one = traube("export", "-o", str(tmp_path / "tiny"), "-p", "tiny")
    assert "1 file written" in of_one.stdout and of_one.stdout.rstrip().endswith("of none/minibatch_kmeans")
    assert "3 files" not in traube("export", "-o", str(tmp_path / "average"), "--method", "Agglomerative").stderr


def test_the_citation_file_says_what_its_format_asks_for() -> None:
    citation, _ = read_yaml(paths.PROJECT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0" and all(author.get("name") for author in citation["authors"])
