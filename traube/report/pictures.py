"""Places of the same texts under several methods, beside each other: a page without a script, where
pointing at a text shows it.
"""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

SIDE, RADIUS = 420, 3.2  # pixels
SHOWN_CHARACTERS = 200  # of a text, when it is pointed at
TURN = 137.508  # degrees between two hues, so that neighbours in the list are unlike

_PAGE = Markup("""<!DOCTYPE html>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 1em }}
figure {{ display: inline-block; margin: 0.5em }}
circle:hover {{ stroke: black; stroke-width: 2px }}
</style>
<h1>{title}</h1>
{panels}
""")
_PANEL = Markup(
    '<figure><figcaption>{title}</figcaption><svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
    'width="{side}" height="{side}">{marks}</svg></figure>\n'
)
_MARK = Markup('<circle cx="{x}" cy="{y}" r="{r}" fill="{colour}"><title>{said}</title></circle>')


def page(
    title: str, panels: Sequence[tuple[str, NDArray[np.float32]]], labels: Sequence[str], texts: Sequence[str]
) -> str:
    """The page. All text is escaped.

    Parameters
    ----------
    panels : of each method, its name and places within 0 and 1, float32 [n, 2]
    labels, texts : [n]; a category has one colour in all panels
    """
    numbers = {label: i for i, label in enumerate(dict.fromkeys(sorted(labels)))}
    colours = [_colour(numbers[label]) for label in labels]
    said = [f"{label}: {_short(text)}" if label else _short(text) for label, text in zip(labels, texts, strict=True)]
    drawn = Markup().join(
        _PANEL.format(title=name, side=SIDE, marks=_marks(places, colours, said)) for name, places in panels
    )
    return str(_PAGE.format(title=title, panels=drawn))


def _marks(places: NDArray[np.float32], colours: Sequence[str], said: Sequence[str]) -> Markup:
    at = RADIUS + places * (SIDE - 2 * RADIUS)
    return Markup("\n").join(
        _MARK.format(x=f"{x:.1f}", y=f"{y:.1f}", r=RADIUS, colour=colour, said=words)
        for (x, y), colour, words in zip(at, colours, said, strict=True)
    )


def _colour(number: int) -> str:
    return f"hsl({number * TURN % 360:.0f} 65% {(40, 55, 70)[number % 3]}%)"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."
