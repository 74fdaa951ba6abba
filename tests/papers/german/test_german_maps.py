"""Splits that a model wins, and the map of a split."""

import numpy as np
import pandas as pd

from tests.made import tips_of
from traube._reports.figures import text_map, tip
from traube._reports.rendering import figures_page
from traube.papers.german.figures import OTHERS
from traube.papers.german.tables import wins


def test_each_pair_says_who_wins_which_splits() -> None:
    rows = [
        ("t", "own", "none/kmeans", model, f"s{i}", "fine", value, 100 * (i + 1), 5 * (i + 1))
        for model, values in {"bow": (0.1, 0.5, 0.3), "minilm": (0.2, 0.4, 0.3)}.items()
        for i, value in enumerate(values)
    ]
    columns = ["task", "protocol", "method", "model", "split", "level", "value", "size", "classes"]
    (row,) = wins(pd.DataFrame(rows, columns=columns)).to_dict("records")
    assert (row["a"], row["b"], row["splits"]) == ("bow", "minilm", 3)
    assert (row["a_wins"], row["b_wins"]) == (1, 1)  # they are alike on the third
    assert (row["size_where_a_wins"], row["size_where_b_wins"]) == (200, 100)
    assert (row["classes_where_a_wins"], row["classes_where_b_wins"]) == (10, 5)


def test_a_map_escapes_what_it_shows() -> None:
    points = np.array([[0, 0], [1, 1]], dtype=np.float32)
    labels, texts = ["Wissenschaft", "Web"], ["<script>alert(1)</script>", "x"]
    groups = {"Web": np.array([1]), OTHERS: np.array([0])}
    plot = text_map("<b>m", points, list(map(tip, labels, texts)), groups, OTHERS)
    html = figures_page("a map", [plot])
    assert "<script>alert(1)" not in html and "&lt;b&gt;m" in html
    assert tips_of(html) == ["<b>Web</b><br>x", "<b>Wissenschaft</b><br>&lt;script&gt;alert(1)&lt;/script&gt;"][::-1]
