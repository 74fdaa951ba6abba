"""Charts in metadata: a picture has some panels, and a map places each text where UMAP did."""

import base64
from pathlib import Path

import numpy as np

from resources.charts import MOST_PANELS, draw_map, show_bars
from tests.made import store_task
from tests.reports.test_charts import make_board
from traube._pipeline.evaluate import evaluate
from traube._pipeline.executors import Executor
from traube._storage import open_storage
from traube.components import parse_method
from traube.models import load_model
from traube.tasks import Task


def test_what_is_left_out_of_a_picture_is_said() -> None:
    assert "are left out" not in show_bars(make_board(2))
    shown = show_bars(make_board(MOST_PANELS + 3))
    assert shown.endswith("3 more are left out.")
    assert base64.b64decode(shown.partition("base64,")[2].partition(")")[0]).startswith(b"\x89PNG")
    assert show_bars(make_board(2).assign(mean=np.nan)) == ""
    assert show_bars(make_board(2).query("model == 'a'")) == ""  # a chart of one bar


def test_a_map_places_each_text_where_umap_did(tiny_task: Task, tmp_path: Path, executor: Executor) -> None:
    method = parse_method("umap/minibatch_kmeans", {"umap": {"n_epochs": 5, "n_neighbors": 5}})
    evaluate(tiny_task, load_model("bow"), [method, "none/minibatch_kmeans"], folder=tmp_path, executor=executor)
    storage = open_storage(tmp_path)
    store_task(storage, tiny_task)
    cells = storage.read_cells(tiny_task.name)
    (axis,) = draw_map(storage, cells).axes
    split = max(tiny_task.test_splits(), key=lambda split: split.size)
    assert sum(len(of_class.get_offsets()) for of_class in axis.collections) == split.size
    assert {of_class.get_label() for of_class in axis.collections} == {*split.labels}
    assert draw_map(storage, cells[cells["reducer"] == "none"]) is None
