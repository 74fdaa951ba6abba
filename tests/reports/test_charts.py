"""Charts as images: what they show is what the tables say."""

import numpy as np
import pandas as pd

from traube._reports.charts import draw_bars, draw_heatmaps


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


def test_a_model_has_one_color_in_all_panels() -> None:
    one, other = ([bar.get_facecolor() for bar in axis.patches] for axis in draw_bars(make_board(2)).axes)
    assert one == other and len(set(one)) == 2
