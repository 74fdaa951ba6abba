"""The figures that follow the reader: bokeh draws them, and `explorer.js` fills them from the page's
data. No text of a task is in them.
"""

from typing import Any

ORANGE = "#d55e00"  # stands out for colour-blind eyes too
TOOLS = "pan,wheel_zoom,box_select,lasso_select,tap,reset"


def figures() -> tuple[str, dict[str, str]]:
    """All figures of a page, in one bokeh document so that selections are shared.

    Returns
    -------
    script : JavaScript that draws them, to be run after bokeh's own
    places : by name of a figure, the element in which it is drawn
    """
    from bokeh.embed import components

    made = {"cost": _cost(), **_maps(), "splits": _splits(), "history": _history()}
    script, places = components(made, wrap_script=False, wrap_plot_info=True)
    return script, {name: str(place) for name, place in places.items()}


def _figure(**settings: Any) -> Any:
    from bokeh.plotting import figure

    # the ranges are set with the data, by `frame` of `explorer.js`
    made = figure(sizing_mode="stretch_width", toolbar_location="above", x_range=(1, 10), y_range=(0, 100), **settings)
    made.toolbar.logo = None
    made.outline_line_color = None
    return made


def _source(name: str, *columns: str) -> Any:
    from bokeh.models import ColumnDataSource

    return ColumnDataSource({column: [] for column in columns}, name=name)


def _cost() -> Any:
    from bokeh.models import HoverTool

    entries = _source("cost", "seconds", "score", "name", "colour", "marker", "alpha")
    front = _source("front", "seconds", "score")
    made = _figure(
        name="cost-figure", height=380, x_axis_type="log", tools="pan,wheel_zoom,reset",
        x_axis_label="seconds for 1,000 texts, encoding and clustering", y_axis_label="score x100",
    )  # fmt: skip
    made.step("seconds", "score", source=front, mode="after", color=ORANGE, line_width=2)
    points = made.scatter(
        "seconds",
        "score",
        source=entries,
        marker="marker",
        color="colour",
        fill_alpha="alpha",
        line_alpha="alpha",
        size=10,
    )
    tips = [("", "@name"), ("score", "@score{0.00}"), ("seconds", "@seconds{0.000}")]
    made.add_tools(HoverTool(renderers=[points], tooltips=tips))
    return made


def _maps() -> dict[str, Any]:
    from bokeh.models import HoverTool

    sides = ("left", "right")
    columns = [f"{part}_{side}" for side in sides for part in ("x", "y", "colour", "marker", "alpha", "group")]
    points = _source("points", *columns, "text", "gold")
    made = {}
    for side in sides:
        map_ = _figure(height=440, tools=TOOLS, active_scroll="wheel_zoom", name=side)
        map_.axis.visible = map_.grid.visible = False
        shown = map_.scatter(
            f"x_{side}", f"y_{side}", source=points, marker=f"marker_{side}", color=f"colour_{side}", size=7,
            fill_alpha=f"alpha_{side}", line_alpha=f"alpha_{side}",
            nonselection_fill_alpha=0.06, nonselection_line_alpha=0.06, selection_line_color="black",
        )  # fmt: skip
        # bokeh puts values into the tooltip as text
        tip = f"<div style='max-width:24em;white-space:normal'><b>@gold</b> · @group_{side}<br>@text</div>"
        map_.add_tools(HoverTool(renderers=[shown], tooltips=tip))
        made[side] = map_
    return made


def _splits() -> Any:
    from bokeh.models import HoverTool, Span, Whisker

    rows = _source("splits", "size", "difference", "low", "high", "split", "classes", "colour")
    made = _figure(
        name="splits-figure", height=380, x_axis_type="log", tools="pan,wheel_zoom,reset",
        x_axis_label="texts of the split", y_axis_label="A minus B, points",
    )  # fmt: skip
    made.add_layout(Span(location=0, dimension="width", line_color="black", line_dash="dashed"))
    made.add_layout(Whisker(base="size", lower="low", upper="high", source=rows, line_color="grey"))
    points = made.scatter("size", "difference", source=rows, color="colour", size=9)
    tips = [("split", "@split"), ("A - B", "@difference{+0.00} (@low{+0.00} to @high{+0.00})")]
    tips += [("texts", "@size"), ("classes", "@classes")]
    made.add_tools(HoverTool(renderers=[points], tooltips=tips))
    return made


def _history() -> Any:
    from bokeh.models import HoverTool

    columns = ("time", "score", "model", "weights", "data", "code", "method", "colour", "marker")
    states = _source("states", *columns)
    lines = _source("lines", "times", "scores", "colour")
    made = _figure(
        name="history-figure", height=360, x_axis_type="datetime", tools="pan,wheel_zoom,reset",
        x_axis_label="scored", y_axis_label="score x100",
    )  # fmt: skip
    made.multi_line("times", "scores", source=lines, color="colour", line_width=1.5)
    points = made.scatter("time", "score", source=states, color="colour", marker="marker", size=9)
    tips = [("", "@model"), ("score", "@score{0.00}"), ("method", "@method")]
    tips += [("weights", "@weights"), ("data", "@data"), ("code", "@code")]
    made.add_tools(HoverTool(renderers=[points], tooltips=tips))
    return made
