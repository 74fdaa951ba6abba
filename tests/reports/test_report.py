"""From stored cells to the leaderboard and the page that people read."""

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.made import save_scored, store_task, with_replicates
from traube._core import paths
from traube._core.escaping import format_csv
from traube._pipeline.cell import Cell
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.params import Protocol
from traube._pipeline.record import record
from traube._reports import tables
from traube._reports.found import describe_counts
from traube._reports.pages import leaderboard_page as page
from traube._reports.tables import (
    COLUMNS,
    KeptRows,
    _missing,
    leaderboard,
    show_interval,
    show_name,
    show_rank,
    summary,
)
from traube._storage import DocumentRow, Storage, open_storage
from traube.comparison.candidates import WITHOUT_LABELS
from traube.components import parse_method
from traube.tasks.stored import complete_task, save_corpus, save_rows
from traube.tasks.task import Task, TaskCard, index_texts

METRIC = "v_measure/noise_as_cluster"
Add = Callable[..., Cell]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def make_protocol(**more: Any) -> Protocol:
    return Protocol(reducers=("none",), clusterers=("kmeans",), **more)


def ranks_of(table: pd.DataFrame) -> dict[str, str]:
    return {str(row["model"]): show_rank(row) for _, row in table.iterrows()}


def names_of(table: pd.DataFrame) -> dict[str, str]:
    return {row.model: show_name(row) for row in table.itertuples(index=False)}


@pytest.fixture
def add(storage: Storage) -> Add:
    """Stores a cell with its score by split."""

    def store_cell(
        *values: float,
        model: str = "bow",
        method: str = "none/kmeans",
        seed: int | None = 1,
        fingerprint: str | None = None,
        data_version: str = "d1",
        protocol: str = "own",
        status: str = "done",
        reason: str = "",
        created: str = "2026-01-01T00:00:00+00:00",
        metric: str = METRIC,
        level: str = "coarse",
        spread: float = 0.0,
        texts: int = 0,
        precision: str = "",
    ) -> Cell:
        cell = ClusteringCell(
            "tiny", "own", model, fingerprint or model, parse_method(method), seed, protocol, "default", data_version
        )
        splits = [f"split {i}" for i in range(len(values))]
        scores = pd.DataFrame({"split": splits, "level": level, "metric": metric, "value": values})
        row = replace(record(cell, status, reason=reason), created=created, precision=precision)
        save_scored(storage, row, with_replicates(scores, spread, texts))
        return cell

    return store_cell


# the number of clusters


def test_where_k_is_chosen_what_was_found_stands_beside_what_there_is(storage: Storage, tiny_task: Task) -> None:
    store_task(storage, tiny_task)
    auto = make_protocol(parameters={"kmeans": {"k": "auto"}})
    methods = {"auto": auto.method("none/kmeans"), "given": parse_method("none/kmeans")}
    for (protocol, method), (seed, found) in product(methods.items(), ((1, 3), (2, 12))):
        cell = ClusteringCell("tiny", "own", "bow", "bow", method, seed, protocol, "default", tiny_task.data_version)
        values = product(("coarse", "fine"), ((METRIC, 0.5), ("clusters", found)))
        rows = [("early", level, metric, value) for level, (metric, value) in values]
        scores = pd.DataFrame(rows, columns=["split", "level", "metric", "value"])
        save_scored(storage, record(cell, "done"), with_replicates(scores))
    table = leaderboard(storage, protocols={"auto": auto})
    assert list(table.columns) == list(COLUMNS)
    chosen = table[table["protocol"] == "auto"].set_index("level")
    # the mean of |log2(3 / 3)| and |log2(12 / 3)|, and of |log2(3 / 6)| and |log2(12 / 6)|
    assert chosen["k_error"].to_dict() == {"coarse": 1.0, "fine": 1.0}
    assert chosen[["found_k", "true_k"]].to_numpy().tolist() == [[7.5, 3], [7.5, 6]]
    assert table.loc[table["protocol"] == "given", ["found_k", "true_k", "k_error"]].isna().all(axis=None)
    assert describe_counts(*chosen.loc["fine", ["found_k", "true_k"]]) == "clusters found (8) / labels (6)"


# rows that are kept


def test_rows_that_are_kept_are_those_that_would_be_made(
    storage: Storage, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model, value in (("bow", 0.4), ("lsa", 0.5), ("e5", 0.7)):
        add(value, value + 0.1, value, model=model, spread=0.1)
    add(model="bow", method="pca/kmeans", status="failed", reason="no memory")
    add(0.3, metric=WITHOUT_LABELS, protocol="other", level="all")
    made = leaderboard(storage)
    leaderboard(storage, keep=True)
    with monkeypatch.context() as patch:
        patch.setattr(tables, "summary", None)
        kept = leaderboard(storage)
        for changed in ({"metric": METRIC}, {"protocols": {"own": make_protocol()}}, {"tasks": []}):
            with pytest.raises(TypeError):  # they are made again, from the cells requested
                leaderboard(storage, **changed)
    pd.testing.assert_frame_equal(kept, made)
    assert format_csv(kept) == format_csv(made) and kept.to_json() == made.to_json()
    add(0.9, 0.9, 0.9, model="gte", spread=0.1)
    assert "gte" in set(leaderboard(storage)["model"])


def test_kept_rows_that_are_damaged_are_made_again(storage: Storage, add: Add) -> None:
    add(0.4, 0.5, 0.6)
    made = leaderboard(storage, keep=True)
    (kept,) = storage.read_documents(KeptRows)
    storage.blobs.delete(kept.files["table"])
    pd.testing.assert_frame_equal(leaderboard(storage), made)
    storage.save(DocumentRow(kind="leaderboard", key="clusterings", content="a digest alone"))
    pd.testing.assert_frame_equal(leaderboard(storage, keep=True), made)
    assert [rows.key for rows in storage.read_documents(KeptRows)] == ["clusterings"]


# statistics


def test_the_mean_is_over_seeds_first_and_over_splits_then(storage: Storage, add: Add) -> None:
    add(0.4, 0.5, 0.9, seed=1)
    add(0.6, 0.5, 0.7, seed=2)
    (row,) = leaderboard(storage).to_dict("records")
    # by split 0.5, 0.5, 0.8: mean 0.6, population deviation sqrt(0.02), sample deviation sqrt(0.03), t(0.975, 2) = 4.3027
    assert row["mean"] == pytest.approx(0.6)
    assert row["sd"] == pytest.approx(0.02**0.5)
    assert row["high"] - row["mean"] == pytest.approx(4.302653 * (0.03 / 3) ** 0.5, rel=1e-6)
    assert row["mean"] - row["low"] == pytest.approx(row["high"] - row["mean"])
    assert (row["splits"], row["seeds"], row["metric"], row["best"]) == (3, 2, METRIC, True)


def test_the_interval_of_a_single_split_is_over_seeds(storage: Storage, add: Add) -> None:
    add(0.4, seed=1)
    add(0.6, seed=2)
    (row,) = leaderboard(storage).to_dict("records")
    assert row["mean"] == pytest.approx(0.5) and row["sd"] == pytest.approx(0.1)
    assert row["high"] - row["mean"] == pytest.approx(12.7062 * 0.1, rel=1e-5)  # t(0.975, 1) * sqrt(0.02 / 2)


def test_each_level_protocol_model_and_method_has_a_row(storage: Storage, add: Add) -> None:
    add(0.1)
    add(0.2, method="pca/kmeans")
    add(0.3, model="lsa")
    add(0.4, protocol="paper")
    add(0.5, method="pca/agglomerative", seed=None, level="fine")
    table = leaderboard(storage)
    assert list(table.columns) == list(COLUMNS)
    assert table[["level", "protocol", "mean", "model", "method", "best"]].values.tolist() == [
        ["coarse", "own", 0.3, "lsa", "none/kmeans", True],
        ["coarse", "own", 0.2, "bow", "pca/kmeans", True],
        ["coarse", "own", 0.1, "bow", "none/kmeans", False],
        ["coarse", "paper", 0.4, "bow", "none/kmeans", True],
        ["fine", "own", 0.5, "bow", "pca/agglomerative", True],
    ]


def test_ties_are_in_order_of_names_whatever_was_stored_first(storage: Storage, add: Add) -> None:
    for method in ("none/minibatch_kmeans", "none/kmeans", "none/agglomerative"):
        add(0.5, 0.7, method=method, seed=None if "aggl" in method else 1)
    cells = storage.read_cells()
    for order in permutations(range(3)):
        table = summary(cells.iloc[list(order)], storage.read_scores(cells, replicates=True), {})
        assert table["method"].tolist() == ["none/agglomerative", "none/kmeans", "none/minibatch_kmeans"]
        assert table["best"].tolist() == [True, False, False]


def test_the_metric_is_the_protocols_or_the_cards_or_the_requested_one(storage: Storage, add: Add) -> None:
    cell = add(0.5)
    values = {METRIC: 0.5, "ari/noise_dropped": 0.4, "acc/noise_dropped": 0.3}
    scores = pd.DataFrame({"split": "s", "level": "coarse", "metric": list(values), "value": list(values.values())})
    save_scored(storage, record(cell, "done"), with_replicates(scores))
    cards = {"tiny": TaskCard(name="tiny", main_metric="ari/noise_dropped")}
    protocols = {"own": make_protocol(main_metric="acc/noise_dropped")}
    cells, scores = storage.read_cells(), storage.read_scores(storage.read_cells(), replicates=True)
    assert summary(cells, scores, {})["mean"].tolist() == [0.5]
    assert summary(cells, scores, cards)["mean"].tolist() == [0.4]
    assert summary(cells, scores, cards, protocols=protocols)["mean"].tolist() == [0.3]
    assert summary(cells, scores, cards, METRIC, protocols)["mean"].tolist() == [0.5]


def test_a_task_without_labels_is_ranked_by_its_silhouette(storage: Storage, add: Add) -> None:
    add(0.25, metric="silhouette", level="none")
    (row,) = leaderboard(storage).to_dict("records")
    assert (row["metric"], row["mean"], row["best"]) == ("silhouette", 0.25, True)
    assert "no ranks" in row["note"]


def test_a_split_without_a_score_leaves_the_mean_without_one_which_is_never_the_best(
    storage: Storage, add: Add
) -> None:
    add(0.9, float("nan"), float("nan"))
    add(0.1, 0.1, 0.1, method="pca/kmeans")
    best, row = leaderboard(storage).to_dict("records")
    assert (best["method"], best["best"], row["best"]) == ("pca/kmeans", True, False)
    assert np.isnan([row["mean"], row["sd"], row["low"]]).all()


def test_ranks_are_intervals_and_ties_overlap(storage: Storage, add: Add) -> None:
    add(*[0.81, 0.80, 0.79, 0.80], model="lsa")
    add(*[0.51, 0.49, 0.51, 0.49], model="bow")
    add(*[0.49, 0.51, 0.50, 0.51], model="tfidf")
    assert ranks_of(leaderboard(storage)) == {"lsa": "1", "bow": "2–3 (tied)", "tfidf": "2–3 (tied)"}


def test_a_model_of_which_a_part_is_computed_is_marked(storage: Storage, add: Add) -> None:
    """The best of one method does not compare with the best of four."""
    for method in ("none/kmeans", "none/agglomerative", "pca/kmeans", "pca/agglomerative"):
        for seed in (None,) if method == "none/agglomerative" else (1, 2):
            add(0.5, 0.6, model="bow", method=method, seed=seed)
    add(0.5, 0.6, model="lsa", method="none/kmeans", seed=1)
    protocols = {"own": Protocol(reducers=("none", "pca"), clusterers=("kmeans", "agglomerative"), seeds=(1, 2))}
    cells = storage.read_cells().assign(own_choice=False)
    assert _missing(cells, protocols) == {("tiny", "own", "bow"): 0, ("tiny", "own", "lsa"): 6}
    assert names_of(leaderboard(storage, protocols=protocols)) == {"bow": "bow", "lsa": "lsa *"}
    assert _missing(cells, {}) == {}


def test_one_split_with_one_seed_decides_no_place(storage: Storage, add: Add) -> None:
    """Scores of another seed are unknown: by the texts alone, a third of equal models would differ."""
    add(0.80, model="lsa", spread=0.001)
    add(0.50, model="bow", spread=0.001)
    add(0.30, model="tfidf", method="none/agglomerative", seed=None, spread=0.001)
    add(0.10, model="minilm", method="none/agglomerative", seed=None, spread=0.002)
    add(0.5, 0.6, model="several splits", protocol="another", spread=0.01)
    board = leaderboard(storage).set_index("model")
    assert board.loc["several splits", "note"] == ""
    table = board[board["protocol"] == "own"]
    # of methods without randomness one seed is all there is
    ranks = {"lsa": "1–4 (tied)", "bow": "1–4 (tied)", "tfidf": "1–3 (tied)", "minilm": "2–4 (tied)"}
    assert ranks_of(table.reset_index()) == ranks
    assert table["note"].map(bool).to_dict() == {"lsa": True, "bow": True, "tfidf": False, "minilm": False}
    assert table.loc["bow", "low"] < 0.5 < table.loc["bow", "high"]
    assert "one split and one seed" in table.loc["bow", "note"]


def test_one_split_has_ranks_too(storage: Storage, add: Add) -> None:
    for seed in (1, 2, 3):
        add(0.80 + 0.01 * seed, model="lsa", seed=seed, spread=0.001)
        add(0.50 + 0.01 * seed, model="bow", seed=seed, spread=0.001)
    assert ranks_of(leaderboard(storage)) == {"lsa": "1", "bow": "2"}
    assert set(leaderboard(storage)["note"]) == {""}


def test_the_more_a_score_depends_on_the_texts_the_wider_its_interval(storage: Storage, add: Add) -> None:
    add(0.4, 0.5, 0.6, model="lsa")
    add(0.4, 0.5, 0.6, model="bow", spread=0.2)
    table = leaderboard(storage).set_index("model")
    assert table.loc["bow", "high"] > table.loc["lsa", "high"]


def test_the_choice_of_the_best_method_is_part_of_the_interval(storage: Storage, add: Add) -> None:
    """Two methods that are nearly equal: without its rival, the best one's interval is its own."""
    best = {"model": "bow", "method": "none/kmeans", "spread": 0.02}
    add(0.500, **best)
    (alone,) = leaderboard(storage).to_dict("records")
    add(0.499, **{**best, "method": "pca/kmeans", "texts": 1, "spread": 0.1})
    both = leaderboard(storage).set_index("method").loc["none/kmeans"]
    assert both["best"] and both["mean"] == alone["mean"] and both["high"] > alone["high"]


# what belongs on it


def test_only_cells_of_the_present_data_count(
    storage: Storage, add: Add, tiny_task: Task, topics: pd.DataFrame
) -> None:
    save_corpus(storage, "tiny", tiny_task.corpus, index_texts(topics)[1], "raw")
    version = save_rows(storage, tiny_task.card, tiny_task.splits).data_version
    complete_task(storage, tiny_task.card)
    add(0.9, data_version="older", created="2026-02-02")
    add(0.5, data_version=version)
    assert leaderboard(storage)[["data_version", "mean"]].to_numpy().tolist() == [[version, 0.5]]


def test_a_model_that_was_trained_on_the_tasks_texts_is_marked_and_one_in_bf16(storage: Storage, add: Add) -> None:
    folder = paths.checkpoints() / "ck"
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_text('{"task": "tiny"}')
    for model, precision in (("ck", ""), ("minilm", "bf16"), ("e5", "fp32"), ("bow", "")):
        add(0.5, model=model, precision=precision)
    marked = {"ck": "ck †", "minilm": "minilm (bf16)", "e5": "e5", "bow": "bow"}
    assert names_of(leaderboard(storage)) == marked


def test_only_a_models_newest_fingerprint_counts(storage: Storage, add: Add) -> None:
    add(0.9, fingerprint="old", created="2026-01-01T00:00:00+00:00")
    add(0.8, fingerprint="old", method="pca/kmeans", created="2026-01-01T00:00:02+00:00")
    add(0.5, fingerprint="new", created="2026-01-01T00:00:03+00:00")
    add(0.7, fingerprint="old", model="lsa", created="2025-01-01T00:00:00+00:00")
    add(0.6, fingerprint="old", protocol="paper", created="2025-01-01T00:00:00+00:00")
    rows = leaderboard(storage)[["model", "protocol", "fingerprint"]].to_numpy().tolist()
    assert sorted(rows) == [["bow", "own", "new"], ["bow", "paper", "old"], ["lsa", "own", "old"]]


def test_what_failed_is_shown_once_with_its_reason(storage: Storage, add: Add) -> None:
    add(0.5)
    for seed in (1, 2):
        add(method="pca/kmeans", seed=seed, status="failed", reason="split 0 (coarse): no way")
    add(method="none/hdbscan", seed=None, status="unsupported", reason="too many dimensions")
    table = leaderboard(storage, {"far": "model 'far': there is no folder"})
    shown = table[table["status"] != "done"]
    assert shown[["model", "method", "status", "reason"]].fillna("").values.tolist() == [
        ["bow", "none/hdbscan", "unsupported", "too many dimensions"],
        ["bow", "pca/kmeans", "failed", "split 0 (coarse): no way"],
        ["far", "", "unavailable", "model 'far': there is no folder"],
    ]
    assert not shown["best"].any()


def test_the_leaderboard_of_an_empty_store_is_an_empty_table_and_its_page_says_what_to_do(storage: Storage) -> None:
    table = leaderboard(storage)
    assert table.empty and list(table.columns) == list(COLUMNS)
    assert leaderboard(storage, {"far": "gone"})["reason"].tolist() == ["gone"]
    text = Page(page(table)).text
    assert "traube run" in text and "Not scored" not in text


# the page


class Page(HTMLParser):
    """The tags and the text of a page, its styles and figures aside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.aside = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.aside += tag in ("style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self.aside -= tag in ("style", "svg")

    def handle_data(self, data: str) -> None:
        self.text += "" if self.aside else data


def test_the_page_shows_each_models_best_method_with_its_interval(storage: Storage, add: Add) -> None:
    add(0.49, 0.51)
    add(0.2, 0.3, method="pca/kmeans")
    add(0.7, model="lsa", level="fine")
    found = Page(page(leaderboard(storage)))
    text = " ".join(found.text.split())
    assert "tiny, coarse" in text and "tiny, fine" in text and f"{METRIC}, 2 splits, protocol own" in text
    assert "-bownone/kmeans50.00 1.00 37.29 to 62.71 1 " in text + " "  # 12.7062 * 0.01 either way
    assert "pca/kmeans" not in text  # only on the task's own page, which has all methods
    assert "tiny.html" in page(leaderboard(storage), pages=["tiny"])
    assert 'href="tiny.html"' not in page(leaderboard(storage))  # nobody has made it


def test_an_interval_is_shown_within_the_metrics_scale(storage: Storage, add: Add) -> None:
    add(0.4, 0.6)
    row = next(leaderboard(storage).itertuples(index=False))
    assert (row.low, row.high) == pytest.approx((-0.7706, 1.7706), abs=1e-4)  # as the statistics have it
    assert show_interval(row) == "0.00 to 100.00"
    assert show_interval(row._replace(metric="ari/noise_as_cluster")) == "-77.06 to 100.00"
    assert show_interval(row._replace(low=float("nan"))) == "-"


def test_whatever_people_write_is_shown_and_never_run(storage: Storage, add: Add) -> None:
    evil = "<script>alert(1)</script>"
    add(0.5, model=f"m{evil}")
    add(model="bow", status="failed", reason=evil)
    found = Page(page(leaderboard(storage, {f"far{evil}": f"& {evil}"})))
    assert "script" not in found.tags
    assert f"m{evil}" in found.text and f"far{evil}" in found.text and f"& {evil}" in found.text


def test_a_page_can_be_written_when_no_score_exists(storage: Storage, add: Add) -> None:
    add(float("nan"), metric="silhouette", level="none")
    add(status="failed", method="pca/kmeans", reason="no way")
    text = Page(page(leaderboard(storage))).text
    assert "tiny, none" in text and "no way" in text
