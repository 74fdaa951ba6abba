"""The report of a clustering: a labeled map, groups and texts in a file that needs no network."""

import base64
import gzip
import json
import re
import subprocess
import sys
from colorsys import rgb_to_hls
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.made import page_data
from traube._core.errors import Incompatible, TooFew
from traube._reports import cluster_report as module
from traube._reports.cluster_report import MapLayer, cluster_report
from traube._reports.placing import color_groups, place_texts

TEXTS = ["<script>alert(1)</script>", 'a "ship" & <b>crew</b>', "bread and dough", "a loaf"]
POINTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
SEA = MapLayer(np.array([0, 0, 1, -1]), {0: "sea", 1: "sea"}, {0: ["ship", "crew"]}, {0: [1]}, {0: 0.5})


def unpacked(page: str, name: str) -> Any:
    """Return what datamapplot's code reads under a name."""
    found = re.search(rf'const {name} = "([^"]*)"', page)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


LATE = """
import sys
from types import SimpleNamespace
from traube._reports.cluster_report import import_datamapplot
drawing = import_datamapplot().interactive_rendering
print(*(name for name in ("datashader", "dask", "datamapplot.edge_bundling") if name in sys.modules))
sys.modules["datamapplot.edge_bundling"] = SimpleNamespace(bundle_edges=lambda data, **settings: (data, settings))
print(drawing.bundle_edges(1, color="red"))
"""


@pytest.mark.slow
def test_edges_which_a_map_has_not_are_bundled_by_datamapplot_when_somebody_asks_and_imported_then() -> None:
    """To import what bundles them takes twice the time of all the rest of datamapplot."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "(1, {'color': 'red'})"]


def groups_of(page: str) -> Any:
    """Return the layers as the panel lists them."""
    return page_data(page)["layers"]


def test_texts_are_data_whatever_they_hold_and_a_page_asks_for_no_network() -> None:
    page = cluster_report(TEXTS, POINTS, [SEA], title="<i>four</i> texts")
    assert unpacked(page, "hoverDataEncoded")["hover_text"] == TEXTS
    assert "<script>alert" not in page and "<i>four" not in page and "&lt;i&gt;four&lt;/i&gt; texts" in page
    assert "default-src 'none'" in page and "connect-src" not in page
    assert not re.search(r'(?:src|href)\s*=\s*"https?:', page)


def test_groups_are_listed_with_size_words_typical_texts_and_stability_and_each_has_a_name_of_its_own() -> None:
    (layer,) = groups_of(cluster_report(TEXTS, POINTS, [SEA], title="four"))
    assert layer == [
        {"group": 0, "name": "sea", "size": 2, "words": ["ship", "crew"], "typical": [1], "stability": 0.5},
        {"group": 1, "name": "sea (1)", "size": 1, "words": [], "typical": [], "stability": None},
    ]


def test_typical_texts_that_read_alike_are_listed_once() -> None:
    texts = ["A ship", "a  ship", "a crew", "bread"]
    layer = MapLayer(np.array([0, 0, 0, 1]), {0: "sea", 1: "bread"}, typical={0: [1, 0, 2]})
    sea, _ = groups_of(cluster_report(texts, POINTS, [layer], title="four"))[0]
    assert sea["typical"] == [1, 2]


def test_groups_in_like_directions_have_like_colors_and_a_group_has_one_in_every_layer() -> None:
    points = np.array([[9, 0], [9, 1], [-9, 0], [-9, -1]], dtype=np.float32)
    coarse, fine = color_groups(points, np.array([0, 0, 1, 1])), color_groups(points, np.array([0, 1, 2, 3]))
    hue = {color: rgb_to_hls(*(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0] for color in fine.values()}
    assert len(set(fine.values())) == 4 and abs(hue[fine[2]] - hue[fine[3]]) < 0.05
    assert set(coarse) == {0, 1} and color_groups(points, np.full(4, -1)) == {}


def test_every_layer_names_its_groups_on_the_map_and_the_list_opens_with_the_chosen_one() -> None:
    coarse = MapLayer(np.array([0, 0, 0, 0]), {0: "everything"})
    page = cluster_report(TEXTS, POINTS, [coarse, SEA], title="four")
    assert {label["label"] for label in unpacked(page, "labelDataEncoded")} == {"everything", "sea", "sea (1)"}
    assert len(groups_of(page)) == 2
    assert unpacked(page, "hoverDataEncoded")["layer1"] == [0, 0, 1, -1]
    assert page_data(page)["chosen"] == 1  # the finest
    assert page_data(cluster_report(TEXTS, POINTS, [coarse, SEA], title="four", chosen=0))["chosen"] == 0


def test_a_group_within_another_may_share_its_name_and_one_elsewhere_is_numbered() -> None:
    coarse = MapLayer(np.array([0, 0, 1, 1]), {0: "sea, ship", 1: "bread"})
    fine = MapLayer(np.array([0, 1, 2, 3]), {0: "ship, sea", 1: "crew", 2: "dough", 3: "sea, ship"})
    layers = groups_of(cluster_report(TEXTS, POINTS, [coarse, fine], title="four"))
    assert [group["name"] for group in layers[1]] == ["ship, sea", "crew", "dough", "sea, ship (3)"]


def test_the_map_is_colored_by_columns_of_few_values_and_filtered_by_time() -> None:
    count = 60
    columns = pd.DataFrame(
        {
            "team": ["red</script>", "blue"] * (count // 2),
            "day": pd.date_range("2026-01-01", periods=count).astype(str),
            "id": [f"ticket {i}" for i in range(count)],
        }
    )
    layer = MapLayer(np.arange(count) % 2, {0: "even", 1: "odd"})
    texts = [f"text {i}" for i in range(count)]
    page = cluster_report(texts, np.random.default_rng(0).normal(size=(count, 2)), [layer], title="t", columns=columns)
    assert '"description": "team"' in page and '"red' in page and "red</script>" not in page
    assert unpacked(page, "histogramBinDataEncoded")  # the days
    assert unpacked(page, "hoverDataEncoded")["column2"] == columns["id"].tolist()  # which the table shows all the same


@pytest.mark.slow
def test_long_texts_are_cut_so_that_a_report_stays_small() -> None:
    words = np.random.default_rng(0).choice([f"word{i}" for i in range(5_000)], size=(3_000, 300))
    texts = [" ".join(line) for line in words]
    layer = MapLayer(np.zeros(3_000, dtype=np.int64), {0: "all"})
    page = cluster_report(texts, np.random.default_rng(0).normal(size=(3_000, 2)), [layer], title="many")
    assert len(page.encode()) < 4_000_000
    assert unpacked(page, "hoverDataEncoded")["hover_text"][0] == f"{texts[0][:1_000]} ..."


@pytest.mark.parametrize("texts", [["the same"] * 4, ["one", "two", "three", "four"]])
def test_a_few_texts_have_a_map_too(texts: list[str]) -> None:
    layer = MapLayer(np.zeros(4, dtype=np.int64), {0: "all"})
    page = cluster_report(texts, place_texts(np.array([[float(len(text)), 1] for text in texts])), [layer], title="few")
    (label,) = unpacked(page, "labelDataEncoded")
    assert label["label"] == "all" and np.isfinite([label["x"], label["y"]]).all()


def test_fewer_texts_have_none_and_labels_that_do_not_fit_are_refused() -> None:
    layer = MapLayer(np.zeros(1, dtype=np.int64), {0: "all"})
    with refused(TooFew, 4, 1):
        cluster_report(["one"], np.ones((1, 2), np.float32), [layer], title="few")
    with refused(TooFew):
        cluster_report(TEXTS * 2, np.ones((8, 2), np.float32), [SEA], title="few")


def test_texts_that_are_all_in_no_group_are_a_map_without_names() -> None:
    page = cluster_report(TEXTS, POINTS, [MapLayer(np.full(4, -1), {})], title="noise")
    assert groups_of(page) == [[]]


def test_nothing_is_written_into_the_users_folders(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    cluster_report(TEXTS, POINTS, [SEA], title="four")
    assert list(tmp_path.iterdir()) == []


def test_of_many_texts_umap_places_some_and_neighbors_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traube._reports.placing.FITTED", 40)
    vectors = np.repeat(np.eye(2, 8, dtype=np.float32), 50, axis=0) + np.random.default_rng(0).normal(0, 0.01, (100, 8))
    placed = place_texts(vectors)
    apart = np.linalg.norm(placed[:50].mean(axis=0) - placed[50:].mean(axis=0))
    assert np.linalg.norm(placed[:50] - placed[:50].mean(axis=0), axis=1).max() < apart


@pytest.mark.parametrize(
    "what", ["<head>", 'id="loading-image"', "// Offline mode enabled", "Utility Functions", "https:"]
)
def test_a_page_of_datamapplot_that_is_written_otherwise_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would ask for a network, or draw nothing."""
    pages = []
    monkeypatch.setattr(module, "_make_offline", lambda page: pages.append(page) or page)
    cluster_report(TEXTS, POINTS, [SEA], title="texts")
    monkeypatch.undo()
    assert "Content-Security-Policy" in module._make_offline(pages[0])
    with refused(Incompatible, "datamapplot"):
        module._make_offline(pages[0].replace(what, "otherwise"))
