"""Charts as images: what they show is what the tables say."""

import base64
from pathlib import Path

import numpy as np
import pandas as pd

from traube._pipeline.evaluate import evaluate
from traube._pipeline.executors import Executor
from traube._reports.charts import MOST_PANELS, draw_bars, draw_heatmaps, draw_map, show_bars
from traube._storage import open_storage
from traube.components import parse_method
from traube.models import load_model
from traube.tasks import Task
from traube.tasks._stored import complete_task, save_corpus, save_rows


def make_board(levels: int) -> pd.DataFrame:
    rows = [("words", f"level {i}", model, score) for i in range(levels) for model, score in (("a", 0.2), ("b", 0.4))]
    return pd.DataFrame(rows, columns=["task", "level", "model", "mean"]).assign(low=0.1, high=np.nan)


def test_a_bar_is_as_long_as_the_score_and_the_best_is_on_top() -> None:
    axis, *others = draw_bars(make_board(2)).axes
    assert [bar.get_width() for bar in axis.patches] == [20, 40] and len(others) == 1
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b"]


def test_a_heat_map_has_each_score_where_its_reducer_and_clusterer_meet() -> None:
    rows = pd.DataFrame(
        {"level": "topic", "method": ["none/kmeans", "umap/kmeans", "umap/hdbscan"], "mean": [0.1, 0.2, 0.3]}
    )
    (axis,) = draw_heatmaps(rows).axes
    shown = {text.get_position(): text.get_text() for text in axis.texts}
    assert shown == {(1, 0): "30.0", (0, 1): "10.0", (1, 1): "20.0"}


def test_what_is_left_out_of_a_picture_is_said() -> None:
    assert "are left out" not in show_bars(make_board(2))
    shown = show_bars(make_board(MOST_PANELS + 3))
    assert shown.endswith("3 more are left out.")
    assert base64.b64decode(shown.partition("base64,")[2].partition(")")[0]).startswith(b"\x89PNG")
    assert show_bars(make_board(2).assign(mean=np.nan)) == ""


def test_a_chart_of_one_bar_is_left_out_and_a_model_has_one_color_in_all_panels() -> None:
    board = make_board(2)
    assert show_bars(board[board["model"] == "a"]) == ""
    one, other = ([bar.get_facecolor() for bar in axis.patches] for axis in draw_bars(board).axes)
    assert one == other and len(set(one)) == 2


def test_a_map_places_each_text_where_umap_did(tiny_task: Task, tmp_path: Path, executor: Executor) -> None:
    method = parse_method("umap/minibatch_kmeans", {"umap": {"n_epochs": 5, "n_neighbors": 5}})
    evaluate(tiny_task, load_model("bow"), [method, "none/minibatch_kmeans"], folder=tmp_path, executor=executor)
    storage = open_storage(tmp_path)
    save_corpus(storage, tiny_task.name, tiny_task.corpus, tiny_task.corpus, "raw")
    save_rows(storage, tiny_task.card, tiny_task.rows)
    complete_task(storage, tiny_task.card)
    cells = storage.read_cells(tiny_task.name)
    (axis,) = draw_map(storage, cells).axes
    split = max(tiny_task.test_splits(), key=lambda split: split.size)
    assert sum(len(of_class.get_offsets()) for of_class in axis.collections) == split.size
    assert {of_class.get_label() for of_class in axis.collections} == {*split.labels}
    assert draw_map(storage, cells[cells["reducer"] == "none"]) is None
