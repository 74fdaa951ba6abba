"""Figures as a page carries them: whatever people wrote is text, and what does not exist is no number."""

import numpy as np
import pandas as pd

from tests.made import page_data, tips_of
from traube._reports.figures import by_label, grouped_bars, heatmap, lines, text_map, tip
from traube._reports.rendering import figures_page

EVIL = "<script>alert(1)</script>"


def test_what_people_wrote_is_shown_as_text() -> None:
    groups = by_label([EVIL, "b", EVIL])
    page = figures_page(EVIL, [text_map(EVIL, np.eye(3, 2), [tip(EVIL, EVIL)] * 3, groups)], [EVIL])
    assert EVIL not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 4  # title, heading, caption and note
    assert set(tips_of(page)) == {
        "<b>&lt;script&gt;alert(1)&lt;/script&gt;</b><br>&lt;script&gt;alert(1)&lt;/script&gt;"
    }
    assert page_data(page)[0]["traces"][0]["name"] == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_each_text_is_a_point_of_its_group_and_the_quiet_ones_lie_behind() -> None:
    plot = text_map("", np.arange(6).reshape(3, 2), ["a", "b", "c"], {"x": np.array([0]), "y": np.array([1, 2])}, "y")
    behind, front = plot.traces
    assert (behind["hovertext"], behind["x"], behind["y"]) == (["b", "c"], [2, 4], [3, 5])
    assert front["hovertext"] == ["a"] and front["marker"]["size"] > behind["marker"]["size"]


def test_points_in_space_are_drawn_in_space() -> None:
    plot = text_map("", np.eye(3), ["a", "b", "c"], by_label(["x", "x", "y"]))
    assert [trace["type"] for trace in plot.traces] == ["scatter3d", "scatter3d"] and "z" in plot.traces[0]
    assert page_data(figures_page("", [plot]))[0]["traces"][0]["type"] == "scatter3d"


def test_lines_have_a_figure_each_panel_and_one_color_everywhere() -> None:
    rows = [(task, name, x, 0.5, 0.1) for task in "st" for name in ("one", "two") for x in (1, 2)]
    plots = lines(pd.DataFrame(rows, columns=["task", "name", "x", "mean", "std"]), "task", "name", "x", "ARI")
    assert [plot.title for plot in plots] == ["s", "t"]
    band, line = plots[0].traces[:2]
    assert line["y"] == [0.5, 0.5] and band["y"] == [0.6, 0.6, 0.4, 0.4] and band["x"] == [1, 2, 2, 1]
    assert line["line"]["color"] == band["fillcolor"] == plots[1].traces[1]["line"]["color"]


def test_a_number_that_does_not_exist_is_left_out() -> None:
    rows = pd.DataFrame({"method": ["k", "k", "h"], "model": ["a", "b", "a"], "mean": [0.5, np.nan, 0.25]})
    plot = heatmap("", rows)
    assert plot is not None and plot.traces[0]["z"] == [[50.0], [25.0]]  # b has no score at all
    assert heatmap("", rows[1:2]) is None and heatmap("", rows[:1]) is None  # one cell compares nothing
    bars = grouped_bars("", pd.DataFrame({"g": ["x"], "b": ["y"], "mean": [1.0], "sem": [np.nan]}), "g", "b", "ARI")
    assert bars.traces[0]["error_y"]["array"] == [0.0]
