"""The report of a clustering: a labeled map by datamapplot, its groups, and its texts, in one file that needs no network."""

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib import import_module, resources
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import Incompatible, TooFew
from traube._core.short_repr import ShortRepr
from traube._reports.placing import color_groups
from traube._reports.rendering import packed, render

ALONE = "in no group"
FEWEST = 4  # texts that datamapplot can draw
CHARACTERS, SHORTEST, LONGEST = 3_000_000, 200, 2_000  # of all texts in a report, and of each
CATEGORIES, COLORED = 20, 5  # values of a column, and columns, that the map is colored and filtered by
BINS = 30
DATES = 0.95  # share of a column's values that are dates, where it holds dates
SCRIPTS = ("deck.gl", "apache-arrow", "d3")  # the last for the axes of `_scales`
FONTS = "system-ui, sans-serif"

# What datamapplot puts into its page as HTML or JavaScript: these stand for the characters that would end a text there
_HARMLESS = str.maketrans({"<": "‹", ">": "›", "&": "＆", '"': "”", "'": "’", "`": "‘", "\\": "＼", "{": "(", "}": ")"})
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'"
)
_HEAD = f"""<head>
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">"""
# What of datamapplot's page is replaced: links to style sheets on a CDN, its scripts, a picture of 96 kB; and where its
# own code begins, which has to wait until the scripts are unpacked
_REPLACED = (
    ("links to style sheets", re.compile(r'<link\s+(?:rel="[^"]*"\s+)?href="https?:[^>]*>'), ""),
    ("its picture", re.compile(r'<img\s+id="loading-image"[^>]*>'), ""),
    ("its scripts", re.compile(r"<script>\s*// Offline mode enabled.*?</script>", re.DOTALL), ""),
    (
        "its code",
        re.compile(r'(<script type="module">)(?=\s*// =+\s*// Utility Functions)'),
        r"\1await scriptsReady;",
    ),
    ("<head>", re.compile("<head>"), _HEAD),
    ("<html>", re.compile("<html>"), '<html lang="en">'),
)


@dataclass(frozen=True, repr=False)
class MapLayer(ShortRepr):
    """Groups of all texts at one level of detail.

    Attributes
    ----------
    labels : ndarray of int of shape (n_texts,)
        The group of each text; -1 is none.
    names : mapping of int to str
        Names of groups.
    words : mapping of int to sequence of str
        Key words of groups.
    typical : mapping of int to sequence of int
        Positions of each group's typical texts.
    stability : mapping of int to float
        Stability of groups, where it was measured.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.plotting import MapLayer
    >>> MapLayer(np.array([0, 0, 1]), {0: "bread", 1: "ships"}).names[1]
    'ships'
    """

    labels: NDArray[np.int64]
    names: Mapping[int, str]
    words: Mapping[int, Sequence[str]] = field(default_factory=dict)
    typical: Mapping[int, Sequence[int]] = field(default_factory=dict)
    stability: Mapping[int, float] = field(default_factory=dict)


def cluster_report(
    texts: Sequence[str],
    points: NDArray[np.float32],
    layers: Sequence[MapLayer],
    *,
    title: str,
    notes: Sequence[str] = (),
    columns: pd.DataFrame | None = None,
    panel: bool = True,
    chosen: int | None = None,
) -> str:
    """Return a page with a labeled map of texts, the list of their groups, and a table of what is selected.

    Parameters
    ----------
    texts : sequence of str
        The texts. Long ones are cut, so that a report of 3,000 texts stays below 4 MB.
    points : ndarray of shape (n_texts, 2)
        Where they are on the map (`place_texts`).
    layers : sequence of MapLayer
        At least one, from the coarsest to the finest; zooming in shows the names of finer groups.
    title : str
        The page's title.
    notes : sequence of str, optional
        Sentences below the title.
    columns : DataFrame of shape (n_texts, n_columns), optional
        What else is known of each text: shown in the table; the map is colored and filtered by columns of few values or
        of numbers, and filtered by the first that holds times (else numbers).
    panel : bool, default=True
        Whether groups and texts are listed beside the map.
    chosen : int, optional
        The position of the layer that the list opens with, and that the table names. By default the finest.

    Returns
    -------
    str
        HTML; nothing in it asks for a network.

    Raises
    ------
    TraubeError
        If there are fewer than four texts, there are no layers, or these are not as long as the texts.
    """
    _check(texts, layers)
    columns = pd.DataFrame(index=range(len(texts))) if columns is None else columns.reset_index(drop=True)
    most = min(LONGEST, max(SHORTEST, CHARACTERS // len(texts)))
    names, scales = _name_groups(layers), _scales(columns)
    data = {
        "layers": [_groups(*pair, texts) for pair in zip(layers, names, strict=True)],
        "columns": [str(name) for name in columns],
        "alone": ALONE,
        "cut": most if any(len(text) > most for text in texts) else None,
        "chosen": len(layers) - 1 if chosen is None else chosen,
    }
    files = resources.files("traube._reports") / "map_scripts"
    scripts = [packed((files / f"{name}.js.gz").read_bytes()) for name in SCRIPTS if name != "d3" or scales]
    rows = {f"layer{i}": layer.labels.tolist() for i, layer in enumerate(layers)}
    rows |= {f"column{i}": [_cell(value) for value in columns.iloc[:, i]] for i in range(columns.shape[1])}
    page = _draw(
        points,
        layers,
        names,
        hover_text=[text if len(text) <= most else f"{text[:most]} ..." for text in texts],
        extra_point_data=pd.DataFrame(rows),
        title=escape(title),
        custom_html=render("cluster_report.html", panel=panel, title=title, notes=notes, data=data, scripts=scripts),
        **scales,
    )
    return _make_offline(page)


def _check(texts: Sequence[str], layers: Sequence[MapLayer]) -> None:
    if len(texts) < FEWEST:
        raise TooFew(
            f"a map needs at least {FEWEST} texts, and there {'is' if len(texts) == 1 else 'are'} {len(texts)}"
        )
    if not layers or any(len(layer.labels) != len(texts) for layer in layers):
        raise TooFew("a report needs at least one layer, with a label for each text")


def _make_offline(page: str) -> str:
    """Put Traube's scripts and policy into datamapplot's page, in place of what a network would bring."""
    for what, pattern, ours in _REPLACED:
        page, count = pattern.subn(ours, page)
        if not count:
            raise Incompatible(
                f"datamapplot {version('datamapplot')} writes another page than Traube can make offline ({what} not found): "
                "install an earlier version"
            )
    return page


def _draw(
    points: NDArray[np.float32], layers: Sequence[MapLayer], names: Sequence[Mapping[int, str]], **settings: Any
) -> str:
    """Return datamapplot's page; `names` are those of each layer's groups."""
    named, colors = [], dict[str, str]()
    for layer, group_names in zip(layers, names, strict=True):
        if group_names:
            named.append(np.array([group_names.get(group, ALONE) for group in layer.labels.tolist()]))
        colors |= {group_names[group]: color for group, color in color_groups(points, layer.labels).items()}
    with _own_files() as folder, warnings.catch_warnings():
        datamapplot = import_datamapplot()
        warnings.simplefilter("ignore", UserWarning)  # of fewer colors than it has room for

        return str(
            datamapplot.create_interactive_plot(
                points,
                *reversed(named),
                label_color_map=colors,
                noise_label=ALONE,
                label_wrap_width=18,
                enable_search=True,
                selection_handler=datamapplot.selection_handlers.SelectionHandlerBase(),
                font_family=FONTS,
                title_font_size=15,
                text_min_pixel_size=12,
                text_max_pixel_size=26,
                min_fontsize=13,
                max_fontsize=24,
                point_radius_min_pixels=1.5,
                offline_mode=True,
                offline_mode_js_data_file=folder / "datamapplot_js_encoded.json",
                offline_mode_font_data_file=folder / "datamapplot_fonts_encoded.json",
                **settings,
            )
        )


# What a map of points uses nothing of: edges, whose datashader and dask take twice the time of all the rest, and medoids,
# which are compiled when they are imported
_UNUSED = {"datamapplot.edge_bundling": "bundle_edges", "datamapplot.medoids": "medoid"}


def import_datamapplot() -> ModuleType:
    """Import datamapplot, and what the map does not use of it only when it is called."""
    if "datamapplot" not in sys.modules:
        for module, name in _UNUSED.items():
            late = ModuleType(module)
            setattr(late, name, partial(_call_late, module, name))
            sys.modules[module] = late
        try:
            import_module("datamapplot")
        finally:
            for module in _UNUSED:
                del sys.modules[module]  # whoever imports it by name gets datamapplot's own
    return sys.modules["datamapplot"]


def _call_late(module: str, name: str, *arguments: Any, **settings: Any) -> Any:
    return getattr(import_module(module), name)(*arguments, **settings)


@contextmanager
def _own_files() -> Iterator[Path]:
    """Keep datamapplot from the user's folders: it would write there, and fetch what it misses, which our pages hold."""
    names = ("XDG_DATA_HOME", "XDG_CONFIG_HOME")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        data_folder = Path(folder, "datamapplot")
        data_folder.mkdir()
        for kind in ("js", "css", "fonts"):
            (data_folder / f"datamapplot_{kind}_encoded.json").write_text("{}")
        os.environ |= dict.fromkeys(names, folder)
        try:
            yield data_folder
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def _name_groups(layers: Sequence[MapLayer]) -> list[dict[int, str]]:
    """Name the groups of each layer. Only a group and those within it share a name, which the map draws once."""
    named: list[dict[int, str]] = []
    # the texts of the coarsest group of each name
    holders = {_sort_words(ALONE): np.zeros(len(layers[0].labels), dtype=bool)}
    for layer in layers:
        layer_names: dict[int, str] = {}
        taken = set[str]()
        for c in np.unique(layer.labels[layer.labels >= 0]).tolist():
            members = layer.labels == c
            name = " ".join(layer.names.get(c, "").split()) or f"group {c}"
            words = _sort_words(name)
            while words in taken or (words in holders and holders[words][members].mean() <= 0.5):
                name = f"{name} ({c})"
                words = _sort_words(name)
            layer_names[c] = name
            taken.add(words)
            holders.setdefault(words, members)
        named.append(layer_names)
    return named


def _sort_words(name: str) -> str:
    """Return the words of a name in one order: key words in another are the same name to a reader."""
    return " ".join(sorted(name.replace(",", " ").split()))


def _groups(layer: MapLayer, names: Mapping[int, str], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the groups of a layer as the page reads them, the largest first."""
    sizes = np.bincount(layer.labels[layer.labels >= 0])
    return [
        {
            "group": c,
            "name": names[c],
            "size": int(sizes[c]),
            "words": list(layer.words.get(c, [])),
            "typical": _distinct(layer.typical.get(c, []), texts),
            "stability": round(layer.stability[c], 2) if c in layer.stability else None,
        }
        for c in sorted(names, key=lambda c: (-sizes[c], c))
    ]


def _distinct(positions: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Leave out the positions of texts that read like one before."""
    read = {" ".join(texts[i].split()).casefold(): int(i) for i in reversed(positions)}
    return sorted(read.values(), key=list(positions).index)


def _cell(value: Any) -> Any:
    """Return a value as JSON takes it."""
    if value is None or value is pd.NaT or value != value:
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


def _scales(columns: pd.DataFrame) -> dict[str, Any]:
    """Return what the map can be colored and filtered by, in datamapplot's words."""
    colors: list[dict[str, str]] = []
    colored: list[NDArray[Any]] = []
    ranges: list[pd.Series] = []
    for number, (name, values) in enumerate(columns.items()):
        kind, typed = _typed(values)
        about = {"field": f"column{number}", "description": str(name).translate(_HARMLESS)}
        if kind == "words":
            colors.append(about | {"kind": "categorical", "cmap": "tab20"})
            colored.append(typed.fillna("-").astype(str).str.translate(_HARMLESS).to_numpy(dtype=object))
        elif kind == "numbers":
            ranges.append(typed)
            colors.append(about | {"kind": "continuous", "cmap": "viridis"})
            colored.append(typed.fillna(typed.median()).to_numpy(dtype=float))
        elif kind == "times":
            ranges.insert(0, typed)
    settings: dict[str, Any] = {}
    if colors:
        settings |= {"colormap_metadata": colors[:COLORED], "colormap_rawdata": colored[:COLORED]}
    if ranges:
        chosen = ranges[0].reset_index(drop=True)
        settings["histogram_data"] = chosen.fillna(chosen.median())
        settings["histogram_n_bins"] = BINS
        settings["histogram_settings"] = {"histogram_title": str(chosen.name).translate(_HARMLESS)}
    return settings


def _typed(values: pd.Series) -> tuple[str, pd.Series]:
    """Say what a column holds, `words` (a few), `numbers`, `times` or nothing of these, and return it so."""
    filled = values[values.notna() & (values != "")]
    if filled.empty:
        return "", values
    as_numbers = pd.to_numeric(values, errors="coerce")
    is_number = as_numbers[filled.index].notna().all()
    if 1 < filled.astype(str).nunique() <= CATEGORIES:
        return "words", values.where(values.index.isin(filled.index))
    if is_number:
        return "numbers", as_numbers
    times = pd.to_datetime(values, errors="coerce", format="mixed", utc=True).dt.tz_localize(None)
    if times[filled.index].notna().mean() >= DATES:
        return "times", times
    return "", values
