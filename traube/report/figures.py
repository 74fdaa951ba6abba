"""Figures as SVG: small, still readable in a paper, and without scripts. All text is escaped."""

from collections.abc import Iterable

import pandas as pd
from markupsafe import Markup

SHOWN = 30  # models of a heat map, the best; a page has room for no more
CELL_WIDTH, ROW_HEIGHT, LETTER = 62, 24, 7  # pixels
VIRIDIS = (
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
)


def heatmap(rows: pd.DataFrame) -> Markup:
    """Mean score by method and model, x100, for one task, level and protocol; nothing
    if there is no score.

    Parameters
    ----------
    rows : of the leaderboard, columns method, model and mean
    """
    grid = rows.pivot_table(index="method", columns="model", values="mean") * 100
    if grid.empty:
        return Markup()
    best = grid.max().sort_values(ascending=False).index[:SHOWN]
    grid = grid.loc[grid.max(axis=1).sort_values(ascending=False).index, best]
    left, top = LETTER * max(map(len, grid.index)) + 10, LETTER * max(map(len, grid.columns)) * 0.7 + 20
    low, high = grid.min().min(), grid.max().max()
    marks = [
        *(label(left - 6, top + ROW_HEIGHT * (y + 0.65), name, "end") for y, name in enumerate(grid.index)),
        *(_slanted(left + CELL_WIDTH * (x + 0.5), top - 6, name) for x, name in enumerate(grid.columns)),
    ]
    for y, values in enumerate(grid.to_numpy()):
        for x, value in enumerate(values):
            if pd.notna(value):
                share = (value - low) / (high - low) if high > low else 0.0
                marks += _cell(left + CELL_WIDTH * x, top + ROW_HEIGHT * y, value, share)
    width = left + CELL_WIDTH * grid.shape[1] + LETTER * len(grid.columns[-1]) * 0.7
    return svg(width, top + ROW_HEIGHT * grid.shape[0], marks)


def svg(width: float, height: float, marks: Iterable[Markup]) -> Markup:
    """Return marks as one figure, as wide as it says or as the page is."""
    about = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" font-family="sans-serif" font-size="12">'
    )
    sizes = (f"{size:.0f}" for size in (width, height, width))
    return about.format(*sizes) + Markup("\n").join(marks) + Markup("</svg>")


def label(x: float, y: float, text: str, anchor: str, colour: str = "black") -> Markup:
    """Return a text whose start, middle or end lies at a place."""
    return Markup('<text x="{}" y="{}" text-anchor="{}" fill="{}">{}</text>').format(
        f"{x:.0f}", f"{y:.0f}", anchor, colour, text
    )


def _slanted(x: float, y: float, text: str) -> Markup:
    return Markup('<text transform="translate({} {}) rotate(-40)">{}</text>').format(f"{x:.0f}", f"{y:.0f}", text)


def _cell(x: float, y: float, value: float, share: float) -> list[Markup]:
    """A square in the colour of its share of the range, 0 to 1, and the number on it."""
    place, rest = divmod(share * (len(VIRIDIS) - 1), 1)
    below, above = VIRIDIS[int(place)], VIRIDIS[min(int(place) + 1, len(VIRIDIS) - 1)]
    red, green, blue = (round(a + rest * (b - a)) for a, b in zip(below, above, strict=True))
    square = Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="rgb({},{},{})"/>').format(
        *(f"{x:.0f}", f"{y:.0f}", CELL_WIDTH, ROW_HEIGHT, red, green, blue)
    )
    number = label(
        x + CELL_WIDTH / 2, y + 0.65 * ROW_HEIGHT, f"{value:.1f}", "middle", "black" if share > 0.5 else "white"
    )
    return [square, number]
