"""The page of a task: the numbers behind its figures. The page itself is used in a browser by
tests/e2e/test_explorer_page.py.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import refused
from tests.made import page_data, save_scored, store_task, with_replicates
from traube._core import paths
from traube._core.errors import Missing
from traube._core.files import write_parquet
from traube._core.measure import Cost
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import record
from traube._pipeline.workbench import Workbench
from traube._reports import recommendation
from traube._reports.costs import costs
from traube._reports.explorer import page
from traube._reports.explorer.board import history, on_front
from traube._reports.explorer.ranks import differences, rank_diagram
from traube._reports.explorer.views import NOISE, confusion, thin_out
from traube._reports.figures import color_models
from traube._reports.pages import make_page
from traube._reports.rendering import as_json
from traube._reports.tables import NAME, leaderboard
from traube._storage.costs import NO_TASK, save_cost
from traube.comparison.candidates import candidates
from traube.comparison.jackknife import Sample, compute_intervals
from traube.comparison.ranking import find_ties, rank
from traube.comparison.regressions import CHANGES
from traube.comparison.standings import Standing, read_standing
from traube.models import load_model
from traube.tasks.task import Task

METRIC = "v_measure/noise_as_cluster"
OWN = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1, 2, 3))
groupings = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=40)


@settings(deadline=None)  # the first call imports SciPy
@given(pairs=groupings, names=st.permutations(range(5)))
def test_a_confusion_counts_texts_once_whatever_clusters_numbers(
    pairs: list[tuple[int, int]], names: list[int]
) -> None:
    gold, found = np.array(pairs).T
    table = confusion(gold, found)
    match, clusters = table["match"], table["columns"]
    assert np.sum(table["counts"]) == len(pairs)
    assert len(set(match.values())) == len(match) <= len(table["rows"])
    assert str(NOISE) not in match and (NOISE not in clusters or clusters[-1] == NOISE)
    agreeing = sum(match.get(str(f)) == g for g, f in pairs)
    renamed = confusion(gold, np.array([f if f == NOISE else names[f] for f in found]))
    assert sum(renamed["match"].get(str(f if f == NOISE else names[f])) == g for g, f in pairs) == agreeing


def test_what_belongs_together_lies_on_the_diagonal() -> None:
    gold, found = np.repeat([0, 1, 2], [3, 9, 6]), np.repeat([2, 0, 1], [3, 9, 6])
    table = confusion(gold, found)
    assert np.array_equal(table["counts"], np.diag([9, 6, 3]))
    assert table["match"] == {"2": 0, "0": 1, "1": 2}
    split = confusion(gold, np.repeat([2, 0, 3, 1, NOISE], [3, 5, 4, 4, 2]))  # a class in two, and two texts of none
    assert table["rows"] == [1, 2, 0]
    assert split["counts"] == [[5, 0, 0, 4, 0], [0, 4, 0, 0, 2], [0, 0, 3, 0, 0]]


@given(groups=st.lists(st.integers(0, 3), max_size=300), most=st.integers(2, 50))
def test_thinned_texts_are_few_different_and_of_each_class_its_share(groups: list[int], most: int) -> None:
    codes = np.array(groups, dtype=np.int64)
    kept = thin_out(codes, most)
    assert len(kept) == len(set(kept)) == min(len(codes), most)
    for group in set(groups):
        share = (codes == group).mean() * len(kept)
        assert abs((codes[kept] == group).sum() - share) <= 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 100)), max_size=20))
def test_whoever_is_on_the_front_is_beaten_by_nobody_at_its_cost(entries: list[tuple[float, float]]) -> None:
    scores, seconds = (pd.Series([e[i] for e in entries], dtype=float) for i in (0, 1))
    front = on_front(scores, seconds)
    for i, is_on in enumerate(front):
        beaten = [
            j
            for j in range(len(entries))
            if scores[j] >= scores[i] and seconds[j] <= seconds[i] and entries[j] != entries[i]
        ]
        assert not (is_on and beaten)
        assert is_on or beaten or entries.index(entries[i]) < i or entries.count(entries[i]) > 1


def test_an_entry_whose_cost_is_unknown_is_on_no_front() -> None:
    assert on_front(pd.Series([0.9, 0.1]), pd.Series([np.nan, 1.0])).tolist() == [False, True]


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_a_bar_is_a_largest_set_of_models_of_which_no_two_differ(rows: list[list[bool]]) -> None:
    alike = np.triu(rows, 1)
    alike = alike | alike.T | np.eye(len(rows), dtype=bool)
    bars = [set(bar) for bar in find_ties(np.where(alike, 0.05 + 1e-9, 0.01))]
    models = range(len(rows))
    for bar in bars:
        assert all(alike[a, b] for a in bar for b in bar)
        assert not any(all(alike[other, b] for b in bar) for other in set(models) - bar)  # nobody can join
    for a in models:
        for b in range(a):
            assert alike[a, b] == any({a, b} <= bar for bar in bars)
    assert len({frozenset(bar) for bar in bars}) == len(bars)


def standing_on(names: list[str], *scores: tuple[float, ...]) -> Standing:
    """Return the standings of models by these scores of splits, the best first. The texts do not matter to them."""
    tables = [
        pd.DataFrame({"cell_id": "c", "split": [f"s{i}" for i in range(len(s))], "level": "x", "value": s})
        for s in scores
    ]
    found = [Sample.of(with_replicates(table), seeded=False) for table in tables]
    return Standing((), tuple(found), compute_intervals(found), rank(names, found))


def test_the_diagram_shows_the_rankings_own_ranks_in_its_order_and_colors() -> None:
    up, down, low = (0.81, 0.79, 0.80, 0.82), (0.79, 0.81, 0.82, 0.80), (0.12, 0.08, 0.10, 0.11)
    names = ["b", "<b>a", "c"]
    found = standing_on(names, up, down, low)
    drawn = rank_diagram("", found, color_models(names))
    assert drawn is not None
    assert [trace["x"] for trace in drawn.traces] == found.ranking.ranks.tolist() == [[1, 2], [1, 2], [3, 3]]
    assert drawn.layout["yaxis"]["ticktext"] == ["b", "&lt;b&gt;a", "c"]
    assert [trace["line"]["color"] for trace in drawn.traces] == [color_models(names)[name] for name in names]
    assert rank_diagram("", standing_on(["alone"], up), {}) is None


def test_whatever_a_text_holds_stays_inside_the_pages_data() -> None:
    evil = ["</script><script>alert(1)</script>", "<!-- ]]> & \u2028", "\ud800"]
    text = as_json({"texts": evil})
    assert not set(text) & set("<>&") and json.loads(text) == {"texts": evil}


@pytest.fixture
def bench(tmp_path: Path, tiny_task: Task) -> Workbench:
    """The tiny task, with scores of two models."""
    bench = Workbench.at(tmp_path)
    store_task(bench.storage, tiny_task)
    score(bench, tiny_task, "bow", {"early": 0.2, "late": 0.6})
    score(bench, tiny_task, "tfidf", {"early": 0.4, "late": 0.5})
    return bench


def score(bench: Workbench, task: Task, model: str, scores: dict[str, float]) -> None:
    for cell in cells(task, load_model(model), OWN, protocol_name="own"):
        rows = [(split, level, METRIC, value) for split, value in scores.items() for level in ("coarse", "fine")]
        table = pd.DataFrame(rows, columns=["split", "level", "metric", "value"])
        made = with_replicates(table, 0.01, seed=cell.seed or 0)
        save_scored(bench.storage, record(cell, "done", seconds=0.1), made)


def test_each_split_says_who_is_better_on_it_from_either_side(bench: Workbench, tiny_task: Task) -> None:
    splits, options = (
        list(tiny_task.test_splits()),
        {level: candidates(bench.storage, "tiny", "own", OWN, METRIC, level=level) for level in ("coarse", "fine")},
    )
    standings = {level: read_standing(bench.storage, found) for level, found in options.items()}
    turned = {level: read_standing(bench.storage, found[::-1]) for level, found in options.items()}
    found = {row["level"]: row for row in differences(standings, splits, most=8)}
    back = {row["level"]: row for row in differences(turned, splits, most=8)}
    row, other = found["coarse"], back["coarse"]
    assert (row["a"], row["b"]) == ("tfidf", "bow")
    assert [(s["split"], s["size"], s["classes"], s["difference"]) for s in row["splits"]] == [
        ("early", 36, 3, 20.0),
        ("late", 36, 3, -10.0),
    ]
    assert row["difference"] == 5.0 == -other["difference"] and row["low"] == -other["high"]
    assert (
        row["answer"].startswith("not significantly different (p = ") and row["p"] > 0.05
    )  # two splits, of different minds
    assert row["comparisons"] == 1
    assert found["fine"]["splits"][0]["classes"] == 6


def publish(bench: Workbench) -> None:
    write_parquet(bench.storage.get_table_path(NAME), leaderboard(bench.storage, protocols={"own": OWN}))


@pytest.mark.slow
def test_a_page_is_made_again_when_its_content_changes(bench: Workbench, tiny_task: Task, tmp_path: Path) -> None:
    with refused(Missing, "traube run -t tiny"):
        make_page(bench, {"own": OWN}, "tiny", tmp_path)
    publish(bench)
    path = make_page(bench, {"own": OWN}, "tiny", tmp_path)
    assert 'href="tiny.html"' in (path.parent / "index.html").read_text()
    first, made = path.read_text(), path.stat().st_mtime_ns
    assert make_page(bench, {"own": OWN}, "tiny", tmp_path).stat().st_mtime_ns == made
    score(bench, tiny_task, "lsa", {"early": 0.9, "late": 0.9})
    publish(bench)
    assert '"model":"lsa"' in make_page(bench, {"own": OWN}, "tiny", tmp_path).read_text()
    assert '"model":"lsa"' not in first


def test_a_history_has_a_point_for_each_state_and_a_line_for_a_trainer(bench: Workbench, tiny_task: Task) -> None:
    folder = paths.checkpoints() / "simcse__tiny__1"
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_text('{"task": "tiny"}')
    cell = cells(tiny_task, load_model("bow"), OWN, protocol_name="own")[0]
    for i, (model, weights) in enumerate([("bow", "before"), ("simcse__tiny__1", "w1"), ("simcse__other__1", "w2")]):
        old = replace(cell, model=model, fingerprint=weights)
        table = pd.DataFrame({"split": ["early"], "level": "coarse", "metric": METRIC, "value": [0.1 * i]})
        row = replace(record(old, "done"), created=f"2020-01-0{i + 1}T00:00:00+00:00")
        save_scored(bench.storage, row, with_replicates(table))
    points = history(bench.storage, {"own": OWN}, "tiny")
    assert [(p["line"], p["weights"], p["score"]) for p in points[:3]] == [
        ("bow", "before", 0.0),
        ("simcse's checkpoints", "w1", 10.0),
        ("simcse__other__1", "w2", 20.0),  # trained on another task: a model like any other
    ]
    assert sorted(p["line"] for p in points[3:]) == ["bow", "tfidf"]  # as they are now


def test_what_is_as_good_and_cheaper_is_what_traube_best_says(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(bench, bench.task("tiny"), "lsa", {"early": 0.401, "late": 0.503})  # hardly better than tfidf
    seconds = {"bow": 0.1, "tfidf": 1.0, "lsa": 5.0}
    known = pd.DataFrame({"task": "tiny", "protocol": "own", "model": seconds, "method": "none/kmeans"})
    known = known.assign(model=list(seconds), encoding=0.0, clustering=0.0, seconds=list(seconds.values()), memory=0.0)
    known["earlier"], known["money"] = False, np.nan
    for module in (page, recommendation):
        monkeypatch.setattr(module, "costs", lambda *_: known)
    publish(bench)
    found = page_data(make_page(bench, {"own": OWN}, "tiny", tmp_path).read_text())["answers"]
    assert [(row["protocol"], row["level"]) for row in found] == [("own", ""), ("own", "coarse"), ("own", "fine")]
    assert found[0]["bargain"] == recommendation.recommend(bench.storage, "tiny", "own", OWN).bargain != ""


def test_what_an_endpoint_was_paid_is_shown_however_little_it_is(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = page.costs(bench.storage, {"own": OWN}, bench.storage.read_cells())
    monkeypatch.setattr(page, "costs", lambda *_: known.assign(money=known["model"].map({"bow": 4e-7})))
    publish(bench)
    board = page_data(make_page(bench, {"own": OWN}, "tiny", tmp_path).read_text())["board"]
    assert {(row["model"], row["money"], row["paid"]) for row in board} == {
        ("bow", 4e-7, "$0.0000004"),
        ("tfidf", None, ""),
    }


def test_what_changed_since_the_last_night_is_on_the_tasks_page(bench: Workbench, tmp_path: Path) -> None:
    change = {"protocol": "own", "model": "bow", "method": "none/kmeans", "metric": METRIC, "since": "2026-01-01"}
    numbers = {"before": 0.4, "after": 0.5, "difference": 0.1, "p": np.nan, "comparisons": np.nan}
    said = {**change, **numbers, "verdict": "changed; not tested"}
    rows = [{"task": t, **said, "cause": cause} for t, cause in (("tiny", "seeds"), ("other", "the moon"))]
    write_parquet(bench.storage.get_table_path(CHANGES), pd.DataFrame(rows))
    publish(bench)
    shown = make_page(bench, {"own": OWN}, "tiny", tmp_path).read_text()
    assert "changed; not tested" in shown and "40.00" in shown and "the moon" not in shown


def test_banner_ranks_and_pairs_of_a_level_are_the_leaderboards(bench: Workbench, tmp_path: Path) -> None:
    publish(bench)
    score(bench, bench.task("tiny"), "lsa", {"early": 0.9, "late": 0.9})  # after the last publication
    table = leaderboard(bench.storage, protocols={"own": OWN})
    data = page_data(make_page(bench, {"own": OWN}, "tiny", tmp_path).read_text())
    for level in ("coarse", "fine"):
        rows = table[(table["level"] == level) & table["best"]]
        own = [row for row in data["board"] if row["level"] == level and row["best"]]
        (answer,) = [one for one in data["answers"] if one["level"] == level]
        (drawn,) = [one for one in data["diagrams"] if one["level"] == level]
        assert [row["model"] for row in own] == rows["model"].tolist() == drawn["layout"]["yaxis"]["ticktext"]
        assert [trace["x"] for trace in drawn["traces"]] == rows[["rank_low", "rank_high"]].to_numpy().tolist()
        assert (
            answer["text"].startswith(f"{own[0]['model']} ")
            and f"V-measure {own[0]['score']:.1f}"[1:] in answer["text"]
        )
        p = {pair["b"]: pair["p"] for pair in data["pairs"] if pair["level"] == level and pair["a"] == own[0]["model"]}
        assert p == pytest.approx(dict(zip(rows["model"][1:], rows["p"][1:], strict=True)), abs=1e-4)


def test_texts_that_were_encoded_earlier_cost_what_that_took(bench: Workbench) -> None:
    cells = bench.storage.read_cells("tiny")
    known = costs(bench.storage, {"own": OWN}, cells)
    assert known["seconds"].isna().all() and known["earlier"].all()  # nobody measured it
    fingerprint = cells.set_index("model")["fingerprint"].loc["bow"].iloc[0]
    save_cost(bench.storage, NO_TASK, fingerprint, Cost(500, 2.0, 10.0))  # as `traube cluster` does
    of_bow = costs(bench.storage, {"own": OWN}, cells).set_index("model").loc["bow"]
    assert (of_bow["encoding"], bool(of_bow["earlier"])) == (4.0, True) and of_bow["seconds"] > 4
    save_cost(bench.storage, "tiny", fingerprint, Cost(72, 0.36, 10.0))
    of_bow = costs(bench.storage, {"own": OWN}, cells).set_index("model").loc["bow"]
    assert (of_bow["encoding"], bool(of_bow["earlier"])) == (5.0, False)
