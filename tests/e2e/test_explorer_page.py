"""A task's page in a real browser: its reader filters, points, selects and clicks.

With TRAUBE_SCREENSHOTS=<folder> the page is kept as pictures.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.e2e.conftest import NEEDS_BROWSER
from tests.made import store_task, with_replicates
from tests.waiting import PATIENCE
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import Recorder
from traube._pipeline.workbench import Workbench
from traube._reports.explorer.page import task_page
from traube._reports.tables import leaderboard
from traube.models import load_model
from traube.tasks.task import Task, TaskCard, index_texts, make_split

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]

OWN = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative_cosine"), seeds=(1, 2))
FULL = OWN.model_copy(update={"seeds": (3,)})
ATTACK = (
    '<img src=x onerror="document.title=1"></script><script>document.title=2</script>@{{gold}}{{safe}} '
    "&lt;i&gt; &amp;#60; %{{y}} number {}"
)

LASSO = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.03)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, topics: pd.DataFrame) -> Path:
    """Of 48 texts of three topics and six attacks, under two protocols; in one, two texts are noise."""
    folder = tmp_path_factory.mktemp("explorer")
    attacks = pd.DataFrame({"text": [ATTACK.format(i) for i in range(6)], "topic": "<b onclick=alert(1)>evil</b>"})
    corpus, records = index_texts(pd.concat([topics, attacks], ignore_index=True))
    halves = [
        make_split(rows, name, "topic", label="topic") for name, rows in (("all", records), ("half", records[::2]))
    ]
    task = Task(TaskCard(name="topics"), corpus, pd.concat(halves, ignore_index=True)).validate()
    bench = Workbench.at(folder)
    store_task(bench.storage, task)
    for name, protocol, models in (("own", OWN, ("bow", "tfidf")), ("full", FULL, ("bow",))):
        for seed, (score, model) in enumerate(zip((0.6, 0.5), map(load_model, models), strict=False)):
            bench.vectors(task, model)  # their cost is measured
            for cell in cells(task, model, protocol, protocol_name=name):
                Recorder(bench.storage).save_clusters(cell, found(task, noise=model.name == "tfidf"), 0.5)
                by_split = (score, score + 0.1 * (model.name == "bow"))
                Recorder(bench.storage).save_scores(cell, scores(*by_split, seed=seed))
    protocols = {"own": OWN, "full": FULL}
    table = leaderboard(bench.storage, {"far": "its weights are <i>not</i> here"}, protocols=protocols)
    path = folder / "topics.html"
    path.write_text(task_page(bench, protocols, "topics", table), encoding="utf-8")
    return path


def found(task: Task, noise: bool) -> pd.DataFrame:
    """Clusters that follow the topics, but for every fifth text; in one, the first two texts are noise."""
    table = task.splits[["split", "level", "item"]]
    topics = pd.factorize(task.splits["label"])[0]
    clusters = np.where(table["item"] % 5 == 4, (topics + 1) % 4, topics)
    return table.assign(cluster=np.where(noise & (table["item"] < 2), -1, clusters))


def scores(*by_split: float, seed: int) -> pd.DataFrame:
    rows = [(s, "topic", "v_measure/noise_as_cluster", v) for s, v in zip(("all", "half"), by_split, strict=True)]
    return with_replicates(pd.DataFrame(rows, columns=["split", "level", "metric", "value"]), 0.01, seed)


@pytest.fixture(scope="module")
def reader(page: Path, browser: Any) -> Iterator["Reader"]:
    browser.get(page.as_uri())
    WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script("return document.body.dataset.ready"))
    yield Reader(browser)
    assert browser.title == "topics - Traube"  # whatever was done, no text of the task ever ran
    assert browser.get_log("browser") == []  # nor was anything tried that the page forbids


class Reader:
    """Somebody at the page."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def choose(self, select: str, words: str) -> None:
        Select(self.browser.find_element("id", select)).select_by_visible_text(words)

    def text(self, element: str) -> str:
        return str(self.browser.find_element("id", element).text)

    def rows(self) -> list[str]:
        """Of the leaderboard, at one moment: the page replaces them."""
        found = self.browser.execute_script(
            "return [...document.querySelectorAll('#board tbody tr')].map(row => row.innerText)"
        )
        return [" ".join(row.split()) for row in found]

    def sees(self, holds: Callable[[list[str]], bool]) -> bool:
        """Return whether rows with a property appear: the page draws them when it finds the time."""
        WebDriverWait(self.browser, PATIENCE).until(lambda _: holds(self.rows()))
        return True

    def ask(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def marks(self, side: str, of: str = "color") -> list[str]:
        """Return the style of a map's marks, by text."""
        return list(self.ask(f'return document.getElementById("{side}-map").data[0].marker.{of}'))

    def at(self, side: str, point: int) -> ActionChains:
        """The mouse over a text's mark in a map."""
        self.ask(f'document.getElementById("{side}-title").scrollIntoView()')
        place = self.ask(
            f"""const box = document.querySelectorAll("#{side}-map .point")[{point}].getBoundingClientRect()
            return [box.x + box.width / 2, box.y + box.height / 2]"""
        )
        return self.mouse(place)

    def across(self, side: str, *corners: tuple[float, float]) -> None:
        """Drag the mouse over a map, by shares of its width and height."""
        self.ask(f'document.getElementById("{side}-title").scrollIntoView()')
        box = self.ask(f'return document.querySelector("#{side}-map .nsewdrag").getBoundingClientRect().toJSON()')
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
        actions = self.mouse(places[0])
        pointer = actions.w3c_actions.pointer_action
        pointer.pointer_down()
        for place in places[1:]:
            pointer.move_to_location(*map(round, place))
        pointer.pointer_up()
        actions.perform()

    def mouse(self, place: Sequence[float]) -> ActionChains:
        actions = ActionChains(self.browser, duration=20)
        actions.w3c_actions.pointer_action.move_to_location(*map(round, place))
        return actions

    def press(self, side: str, title: str) -> None:
        """A button above a map."""
        self.ask(f"""document.querySelector('#{side}-map [data-title="{title}"]').click()""")

    def range(self, side: str) -> list[float]:
        return list(self.ask(f'return document.getElementById("{side}-map").layout.xaxis.range'))

    def selected(self, side: str = "left") -> list[int]:
        return list(
            self.ask(
                f"""const marks = [...document.querySelectorAll("#{side}-map .point")]
                return marks.flatMap((mark, i) => mark.matches(".selecting .chosen") ? [i] : [])"""
            )
        )

    def selects(self, holds: Callable[[list[int]], bool]) -> bool:
        """Return whether the texts with a property become selected in both maps."""
        WebDriverWait(self.browser, PATIENCE).until(
            lambda _: all(holds(self.selected(side)) for side in ("left", "right"))
        )
        return self.selected("left") == self.selected("right")

    def tooltip(self) -> str:
        """Return the text that hovering shows."""
        lines = self.ask("return [...document.querySelectorAll('.hovertext .line')].map(line => line.textContent)")
        return " ".join(line.strip() for line in lines)


def test_the_leaderboard_follows_its_filters_and_sorts(reader: Reader) -> None:
    reader.choose("protocol", "own")
    assert reader.sees(lambda rows: len(rows) == 2)  # each model's best method
    reader.browser.find_element("id", "every").click()
    assert reader.sees(lambda rows: len(rows) == 4)
    reader.choose("model", "bow")
    assert reader.sees(lambda rows: len(rows) == 2 and all("bow" in row for row in rows))
    reader.choose("protocol", "full")
    assert reader.sees(lambda rows: len(rows) == 2) and "protocol full" in reader.text("ranks-note")
    reader.choose("model", "all")
    reader.choose("protocol", "own")
    assert reader.sees(lambda rows: len(rows) == 4)
    reader.browser.find_element("xpath", "//table[@id='board']//th[contains(., 'method')]").click()

    def by_method(rows: list[str]) -> bool:
        methods = [word for row in rows for word in row.split() if word.startswith("none/")]
        return methods == sorted(methods) and len(set(methods)) == 2

    assert reader.sees(by_method)


def test_what_has_no_score_has_a_reason(reader: Reader) -> None:
    reader.browser.find_element("css selector", "#absent-section summary").click()
    assert "its weights are <i>not</i> here" in reader.text("absent")


def test_pointing_at_a_mark_shows_its_text_as_it_is(reader: Reader) -> None:
    assert not reader.selected()
    reader.at("left", 50).perform()
    WebDriverWait(reader.browser, PATIENCE).until(lambda _: "onerror" in reader.tooltip())
    shown = "".join(reader.tooltip().split())  # it is wrapped
    # its own, or that of one which lies there: they differ by their number
    assert "".join(ATTACK.format("").split()) in shown and "<bonclick=alert(1)>evil</b>" in shown
    assert not reader.ask("return document.querySelectorAll('.hoverlayer :is(img, script, a, i, [onclick])').length")


def test_what_is_selected_in_one_map_is_selected_in_the_other_and_listed(reader: Reader) -> None:
    reader.at("right", 7).click().perform()
    assert reader.selects(lambda chosen: len(chosen) == 1)
    (chosen,) = reader.selected()  # it, or another that lies there
    data = "JSON.parse(document.getElementById('data').textContent)"
    assert reader.ask(f"return {data}.views[0].texts[{chosen}]") in reader.text("selected")
    reader.choose("class", "<b onclick=alert(1)>evil</b>")
    assert reader.selects(lambda chosen: chosen == list(range(48, 54))) and ATTACK.format(5) in reader.text("selected")
    reader.choose("left-color", "found")  # the map is drawn again
    assert reader.selects(lambda chosen: chosen == list(range(48, 54)))
    reader.choose("left-color", "gold")


@pytest.mark.parametrize(("title", "shape"), [("Box Select", [(0.02, 0.02), (0.98, 0.98)]), ("Lasso Select", LASSO)])
def test_a_box_or_lasso_selects_in_both_maps_and_a_click_beside_the_texts_selects_none(
    reader: Reader, title: str, shape: list[tuple[float, float]]
) -> None:
    reader.press("left", title)
    reader.across("left", *shape)
    assert reader.selects(lambda chosen: len(chosen) > 40)
    assert "and " in reader.text("selected") or "texts selected" in reader.text("selected")
    reader.across("left", (0.01, 0.99))
    assert reader.selects(lambda chosen: not chosen) and reader.text("selected") == ""
    reader.press("left", "Pan")


def test_a_map_is_moved_and_zoomed_and_goes_back(reader: Reader) -> None:
    before = reader.range("left")
    reader.across("left", (0.3, 0.3), (0.4, 0.4), (0.5, 0.5))
    WebDriverWait(reader.browser, PATIENCE).until(lambda _: reader.range("left") != before)
    reader.press("left", "Zoom in")
    low, high = reader.range("left")
    assert high - low < before[1] - before[0]
    reader.press("left", "Reset axes")
    WebDriverWait(reader.browser, PATIENCE).until(lambda _: reader.range("left") == before)
    reader.choose("left-color", "found")
    reader.press("left", "Zoom in")
    reader.press("left", "Reset axes")
    WebDriverWait(reader.browser, PATIENCE).until(lambda _: reader.range("left") == before)
    reader.choose("left-color", "gold")


def test_noise_is_shown_as_noise(reader: Reader) -> None:
    models = [option.text for option in Select(reader.browser.find_element("id", "right-model")).options]
    reader.choose("right-model", next(name for name in models if name.startswith("tfidf")))
    reader.choose("right-color", "found")
    assert [i for i, mark in enumerate(reader.marks("right", "symbol")) if mark == "x-thin"] == [0, 1]
    assert "2 noise" in reader.text("right-title")
    reader.choose("right-color", "gold")
    assert "x-thin" not in reader.marks("right", "symbol")


def test_a_click_on_a_confusion_shows_its_texts_and_marks_them_on_the_maps(reader: Reader) -> None:
    buttons = reader.browser.find_elements("css selector", "#confusion td:not(.own) button")
    worst = reader.browser.find_elements("css selector", "#worst button")
    counts = [int(button.text.split(": ")[-1].split()[0]) for button in worst]
    assert counts == sorted(counts, reverse=True) and len(worst) == min(12, len(buttons))
    worst[0].click()
    assert len(reader.browser.find_elements("css selector", "#confused li")) == counts[0] == len(reader.selected())
    total = sum(int(b.text) for b in reader.browser.find_elements("css selector", "#confusion td button"))
    assert total == 54


def test_the_cost_of_what_is_chosen_is_drawn_and_pointed_at(reader: Reader) -> None:
    drawn = reader.ask("return document.getElementById('cost-figure').data.map(of => [of.mode, of.x.length])")
    front, marks = drawn
    assert front[0] == "lines" and marks == ["markers", 4] and 1 <= front[1] <= 4
    reader.ask("document.getElementById('cost-figure').scrollIntoView()")
    box = reader.ask("return document.querySelector('#cost-figure .point').getBoundingClientRect().toJSON()")
    reader.mouse([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]).perform()
    WebDriverWait(reader.browser, PATIENCE).until(lambda _: "seconds" in reader.tooltip())
    assert "score" in reader.tooltip() and "with none/" in reader.tooltip()


def test_ranks_are_drawn_and_heat_maps_when_they_are_opened(reader: Reader) -> None:
    reader.choose("protocol", "own")
    assert reader.text("answer").startswith("Level topic, protocol own. bow with ")
    assert "Level topic, protocol own" in reader.text("ranks-note") and "tfidf" in reader.text("ranks-figure")
    assert reader.ask("return document.querySelectorAll('#heatmap-0 .hm').length") == 0
    reader.browser.find_element("css selector", "#heatmaps summary").click()
    cells = "return document.querySelectorAll('#heatmap-0 .heatmap-label').length"
    WebDriverWait(reader.browser, PATIENCE).until(
        lambda _: reader.ask(cells) == 2
    )  # of protocol full: one model, two methods


def test_a_history_of_single_points_is_left_out(reader: Reader) -> None:
    assert not reader.browser.find_element("id", "history-drawn").is_displayed()


def test_a_model_has_one_color_in_table_cost_and_maps(reader: Reader) -> None:
    swatch = "return document.querySelector('#board tbody tr path').getAttribute('fill')"
    reader.choose("protocol", "own")
    first = reader.rows()[0]
    assert "bow" in first
    of_cost = "return document.querySelector('#cost-legend li:nth-child(1) path').getAttribute('fill')"
    of_map = "return document.querySelector('#left-title path').getAttribute('fill')"
    assert reader.ask(swatch) == reader.ask(of_cost) == reader.ask(of_map)


def test_a_pair_of_models_is_seen_from_either_side(reader: Reader) -> None:
    reader.choose("a", "bow")
    reader.choose("b", "tfidf")
    drawn = 'return document.getElementById("splits-figure").data[0]'
    lead, bars = reader.ask(f"{drawn}.y"), reader.ask(f"{drawn}.error_y")
    said = reader.text("pair-said")
    reader.choose("a", "tfidf")
    reader.choose("b", "bow")
    assert reader.ask(f"{drawn}.y") == [-value for value in lead]
    assert reader.ask(f"{drawn}.error_y.array") == pytest.approx(bars["arrayminus"]) and min(bars["array"]) > 0
    assert len(lead) == 2 and ("leads by" in said) and said.split("(")[0] == reader.text("pair-said").split("(")[0]


def test_it_fits_a_phone_and_asks_the_network_for_nothing(reader: Reader, page: Path) -> None:
    folder = os.environ.get("TRAUBE_SCREENSHOTS")
    if folder:
        reader.browser.save_screenshot(str(Path(folder) / "explorer.png"))
    reader.browser.set_window_size(500, 900)
    fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    try:
        WebDriverWait(reader.browser, PATIENCE).until(lambda browser: browser.execute_script(fits))  # figures shrink
    finally:
        reader.browser.set_window_size(1500, 1000)
    requested = reader.ask("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in requested if not name.startswith("data:")] == []
    buttons = reader.ask("return [...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)")
    assert "Download plot" in buttons and not [title for title in buttons if "hare" in title]


def test_maps_name_their_groups_and_say_how_many_were_found_beside_gold(reader: Reader) -> None:
    named = reader.ask("return document.getElementById('left-map').layout.annotations.map(one => one.text)")
    whole = [name.replace("<br>", "").removeprefix("<b>").removesuffix("</b>") for name in named]  # in lines, not cut
    assert len(named) == 4 and "&lt;b onclick=alert(1)&gt;evil&lt;/b&gt;" in whole
    assert "4 clusters, 4 gold classes" in reader.text("left-title") and "placed by UMAP" in reader.text("left-title")
