"""The map of groups: all texts are there as texts, whatever they hold."""

import numpy as np
import pytest

from tests.made import tips_of
from traube.grouping import group_map as module
from traube.grouping.group_map import group_map


def test_each_text_is_shown_in_its_group_and_nothing_of_it_is_run() -> None:
    texts = ["<script>alert(1)</script>", "a <b>ship</b>", "bread & dough"]
    page = group_map(texts, np.eye(3, dtype=np.float32), np.array([0, 0, -1]), {0: "</script>"}, "2 groups by <i>")
    assert len(tips_of(page)) == 3 and not any("<script" in text or "<b>ship" in text for text in tips_of(page))
    assert "in no group" in page and "by &lt;i&gt;: 3 texts" in page
    assert "<script>alert(1)" not in page


def test_of_many_texts_some_are_shown_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    page = group_map([f"t{i}" for i in range(40)], np.eye(40, 5, dtype=np.float32), np.arange(40) % 2, {}, "two")
    assert len(tips_of(page)) == 10 and "two: 10 of 40 texts" in page


def test_a_single_text_is_a_point() -> None:
    assert len(tips_of(group_map(["one"], np.ones((1, 4), np.float32), np.zeros(1, np.int64), {0: "a"}, "one"))) == 1
