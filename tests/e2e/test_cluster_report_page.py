"""The report of a clustering in a real browser: its reader chooses a group, searches and reads.

With TRAUBE_SCREENSHOTS=<folder> the page is kept as a picture.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.e2e.conftest import CHROMIUM, DRIVER, NEEDS_BROWSER
from tests.waiting import PATIENCE
from traube._reports.cluster_report import MapLayer, cluster_report
from traube._reports.placing import place_texts

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]

ATTACK = '</script><script>document.title="run"</script><img src=x onerror="document.title=\'run\'"> &lt;i&gt; ${1} `'
NAMES = ("ships <b>at</b> sea", "bread & dough", "orbits")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that draws WebGL without a GPU, and says what it requested a network for."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    drawn = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
    profile = f"--user-data-dir={tmp_path_factory.mktemp('profile')}"
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1600,1000", *drawn, profile):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Any:
    """The page of 60 texts in three groups, two of which are one in a coarser layer."""
    fine = np.arange(60) % 3
    texts = [f"{ATTACK} text {i} of {NAMES[group]}" for i, group in enumerate(fine)]
    vectors = np.eye(3, 8)[fine] + np.random.default_rng(0).normal(0, 0.1, (60, 8))
    layers = [
        MapLayer(np.minimum(fine, 1), {0: "the sea", 1: "all else"}),
        MapLayer(fine, dict(enumerate(NAMES)), {0: ["ship", "crew"]}, {0: [0, 3]}, {0: 0.7}),
    ]
    columns = pd.DataFrame({ATTACK: [ATTACK, "plain"] * 30, "formula": "=1+1"})
    path = tmp_path_factory.mktemp("report") / "notes.html"
    path.write_text(
        cluster_report(texts, place_texts(vectors), layers, title="60 texts", columns=columns), encoding="utf-8"
    )
    browser.get(path.as_uri())
    WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    return browser


def find(reader: Any, selector: str) -> Any:
    return reader.find_element("css selector", selector)


def test_names_of_the_chosen_layer_are_on_the_map_and_no_request_leaves(reader: Any) -> None:
    labels = reader.execute_script("return datamap.labelLayer.props.data.map(one => one.label.replace(/\\n/g, ' '))")
    assert set(labels) == {*NAMES}
    colors = """const picture = document.createElement("canvas").getContext("2d", {willReadFrequently: true})
    const map = document.querySelector("#deck-container canvas"); datamap.deckgl.redraw("test")
    picture.canvas.width = map.width; picture.canvas.height = map.height; picture.drawImage(map, 0, 0)
    return new Set(new Uint32Array(picture.getImageData(0, 0, map.width, map.height).data.buffer)).size"""
    WebDriverWait(reader, PATIENCE).until(lambda b: b.execute_script(colors) > 20)
    events = [json.loads(entry["message"])["message"] for entry in reader.get_log("performance")]
    requested = [
        event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
    ]
    assert requested and not [url for url in requested if url.startswith(("http", "ws"))]
    if folder := os.environ.get("TRAUBE_SCREENSHOTS"):
        reader.save_screenshot(str(Path(folder) / "cluster_report.png"))


def test_nothing_that_people_wrote_is_run(reader: Any) -> None:
    find(reader, "#texts-tab").click()
    assert "</script><script>" in find(reader, "#table tbody").text
    find(reader, "#groups-tab").click()
    assert reader.title == "60 texts"
    assert not reader.find_elements("css selector", "#panel img, #panel b, .content-wrapper b > i")


def test_the_list_opens_with_the_chosen_layer_and_takes_another(reader: Any) -> None:
    def listed() -> list[str]:
        return [group.text.split("\n")[0] for group in reader.find_elements("css selector", "#groups .group")]

    assert set(listed()) == set(NAMES)
    three, two = "#groups .layers [aria-pressed='true']", "#groups .layers [aria-pressed='false']"
    assert (find(reader, three).text, find(reader, two).text) == ("3", "2")
    find(reader, two).click()
    assert listed() == ["all else", "the sea"] and find(reader, three).text == "2"


def test_a_group_opens_and_selects_its_texts_on_the_map_and_in_the_table(reader: Any) -> None:
    find(reader, "#reset").click()
    find(reader, "#groups .open[aria-label$='sea']").click()
    inner = find(reader, "#groups ul ul .group")
    assert inner.text.split("\n")[0] == NAMES[0]
    find(reader, "#groups ul ul .open").click()
    assert "ship, crew" in find(reader, "#groups .about .about, #groups ul ul .about").text
    inner.click()
    assert find(reader, "#count").get_attribute("textContent") == "20 of 60"
    assert reader.execute_script("return datamap.selected.filter(one => one === 1).length") == 20
    find(reader, "#texts-tab").click()
    assert "1 to 20 of 20" in find(reader, "#texts").text


def test_search_finds_texts_anywhere_and_escape_shows_all_again(reader: Any) -> None:
    find(reader, "body").send_keys(Keys.ESCAPE)
    find(reader, "body").send_keys("/")
    reader.switch_to.active_element.send_keys("ORBITS")
    WebDriverWait(reader, PATIENCE).until(lambda b: find(b, "#count").get_attribute("textContent") == "20 of 60")
    find(reader, "#text-search").send_keys(Keys.ESCAPE)
    assert find(reader, "#count").get_attribute("textContent") == "60"


def wait_until_still(reader: Any) -> None:
    """Wait until the map, which flies from a group to all texts, shows all of them."""
    in_view = """const view = datamap.deckgl.getViewports()[0], { x, y } = datamap.pointData
    const is_in_view = ([cx, cy]) => cx > 0 && cy > 0 && cx < view.width && cy < view.height
    return Array.from(x).every((_, i) => is_in_view(view.project([x[i], y[i]])))"""
    WebDriverWait(reader, PATIENCE).until(lambda b: b.execute_script(in_view))


def test_downloads_hold_what_is_selected(reader: Any) -> None:
    wait_until_still(reader)
    kept = """const blobs = []; const url = URL.createObjectURL, click = HTMLAnchorElement.prototype.click
    URL.createObjectURL = blob => (blobs.push(blob), url(blob))
    HTMLAnchorElement.prototype.click = function () { window.picture = this.href }
    for (const kind of ["csv", "svg", "png"]) document.querySelector(`[data-save="${kind}"]`).click()
    URL.createObjectURL = url; HTMLAnchorElement.prototype.click = click
    Promise.all(blobs.map(blob => blob.text())).then(arguments[0])"""
    csv, svg = reader.execute_async_script(kept)
    assert csv.startswith("text,layer_0,group,") and csv.count("'=1+1") == 60
    assert svg.count("<circle") == 60 and ">the sea<" in svg
    assert reader.execute_script("return window.picture").startswith("data:image/png;base64,")


def test_light_and_dark(reader: Any) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = reader.execute_script(paper)
    find(reader, "#theme").click()
    assert reader.execute_script(paper) != before
    find(reader, "#theme").click()
    assert reader.execute_script(paper) == before
    assert [entry for entry in reader.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_name_that_a_group_shares_with_the_group_around_it_is_on_the_map_once(browser: Any, tmp_path: Path) -> None:
    """The label of the coarser one stays, which is seen from farther away."""
    fine = np.repeat([0, 1], 10)
    layers = [MapLayer(np.zeros(20, dtype=np.int64), {0: "ships, sea"}), MapLayer(fine, {0: "sea, ships", 1: "orbits"})]
    path = tmp_path / "once.html"
    texts = [f"text {i}" for i in range(20)]
    path.write_text(cluster_report(texts, place_texts(np.eye(2)[fine]), layers, title="20 texts"), encoding="utf-8")
    browser.get(path.as_uri())
    WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    shown = "return datamap.labelLayer.props.data.map(one => one.label)"
    assert {*browser.execute_script(shown)} == {"sea, ships", "orbits"}
    browser.execute_script("document.querySelector('.layers button').click()")
    assert browser.execute_script(shown) == ["ships, sea"]
    nearer = """const one = datamap.labelData.find(one => one.label == "orbits"); const { zoom } = datamap.deckgl.getViewports()[0]
    datamap.deckgl.setProps({ initialViewState: { longitude: one.x, latitude: one.y, zoom: zoom + 1.5 } })"""
    browser.execute_script(nearer)
    WebDriverWait(browser, PATIENCE).until(lambda b: "orbits" in b.execute_script(shown))
    assert "sea, ships" not in browser.execute_script(shown)


def test_each_group_of_the_listed_layer_that_has_room_has_a_label(browser: Any, tmp_path: Path) -> None:
    """Twelve clouds apart have one each, however wide; of twelve on one place as many as have room beside each other."""
    clouds = np.repeat(np.arange(12), 20)
    layers = [
        MapLayer(clouds // 6, {0: "left", 1: "right"}),
        MapLayer(clouds, {i: f"cloud {i}, with a name of several words" for i in range(12)}),
    ]
    spread = np.random.default_rng(0).normal(0, 0.3, (240, 2))
    apart = np.stack([clouds % 4, clouds // 4], axis=1) * 8 + spread
    shown = "return datamap.labelLayer.props.data.map(one => one.label.replace(/\\n/g, ' '))"
    counts = []
    for name, points in (("apart", apart), ("together", spread)):
        path = tmp_path / f"{name}.html"
        texts = [f"text {i}" for i in range(240)]
        path.write_text(cluster_report(texts, points.astype(np.float32), layers, title=name), encoding="utf-8")
        browser.get(path.as_uri())
        WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script("return document.body.dataset.ready"))
        WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script(shown))
        counts.append(len(browser.execute_script(shown)))
        browser.execute_script("document.querySelector('.layers button').click()")
        assert set(browser.execute_script(shown)) == {"left", "right"}
    assert counts[0] == 12 > counts[1] >= 2
