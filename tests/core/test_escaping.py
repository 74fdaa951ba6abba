"""Texts from others command neither the terminal nor the spreadsheet."""

import csv
import io
import math
import re
import unicodedata

import pandas as pd
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from traube._core import paths
from traube._core.errors import TraubeError
from traube._core.escaping import escape_controls, format_csv

ROOMS = ("traube", "resources", "assets", "sensors", "cli")
ANY_TEXT = st.text(st.characters(), max_size=12)
LIKE_FORMULAS = st.text("=+-@＝＋－＠﹢⁼ \t\r\n\xa0\u3000\u200b\ufeff\x00'ab1é葡", max_size=6)
AS_IT_IS = "Weiße Träubchen \N{GRAPES}, 葡萄, \u05e2\u05e0\u05d1\u05d9\u05dd \u200f, \N{FAMILY}\u200d\n\tand C:\\x1b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),  # clears the screen, names the window
        ("\x9b31mred", r"\x9b31mred"),  # the same command in one character
        ("100 %\rgone", r"100 %\rgone"),  # writes over what stood there
        ("abc\x08\x7f\x00", r"abc\x08\x7f\x00"),
        ("\u202etxt.exe\u2066", r"\u202etxt.exe\u2066"),  # is read from right to left
        ("half \ud83d of a character", r"half \ud83d of a character"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def test_ordinary_text_of_any_script_is_shown_as_it_is_and_errors_are_escaped() -> None:
    assert escape_controls(AS_IT_IS) == AS_IT_IS
    assert str(TraubeError("card \x1b[2J.yaml is wrong")) == r"card \x1b[2J.yaml is wrong"


@given(ANY_TEXT)
def test_always_what_is_shown_holds_no_command_and_can_be_encoded(text: str) -> None:
    shown = escape_controls(text)
    shown.encode()
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")]
    assert escape_controls(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "=cmd|' /C calc'!A0", '=HYPERLINK("http://x")',
        "＝1+1", "＋1", "－1", "＠SUM(A1)", "﹦1", "⁺1",
        " =1", "\xa0=1", "\u3000＝1", "\ufeff=1", "\u200b+1", "\u2060 \t@x", "\x00=1", "\x0b-1", "\ufe0f=1",
    ],
)  # fmt: skip
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text: str) -> None:
    written = format_csv(pd.DataFrame({"text": [text], text: ["x"], "mixed": [text]}))
    header, row = csv.reader(io.StringIO(written, newline=""))
    assert header == ["text", f"'{text}", "mixed"]
    assert row == [f"'{text}", "x", f"'{text}"]


def test_a_carriage_return_begins_no_row_of_its_own() -> None:
    assert format_csv(pd.DataFrame({"text": ["a\r=1+1"], "n": [-1]})) == '"text","n"\n"a\r=1+1",-1\n'


def test_numbers_stay_numbers_and_ordinary_texts_stay_as_they_are() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a=b", "1-2", "me@home", "'quoted'", ""],
            "east": ["葡萄＝果", "１－２", "（＋）", "—dash", "\ufefftext"],
            "blank": [" indented", "  1.", "\u200bhidden", "   ", "\xa0"],
            "score": [-0.5, math.nan, 1e-9, math.inf, -math.inf],
            "count": [-1, 0, 1, 2, 3],
            "mixed": [-1, -0.5, None, "x", True],
            "gaps": pd.Series([-1, None, 2, 3, None], dtype=object),
            "seen": [True, False, True, False, True],
        }
    )
    frame["kind"] = frame["text"].astype("category")
    assert format_csv(frame) == frame.to_csv(index=False)


@given(st.lists(st.tuples(ANY_TEXT | LIKE_FORMULAS, st.floats()), min_size=1, max_size=5))
def test_always_a_table_is_read_back_as_it_was_but_for_the_apostrophes(rows: list[tuple[str, float]]) -> None:
    rows = [(text.encode(errors="ignore").decode(), number) for text, number in rows]
    frame = pd.DataFrame(rows, columns=["text", "number"])
    read = list(csv.DictReader(io.StringIO(format_csv(frame), newline="")))
    for (text, number), row in zip(rows, read, strict=True):
        assert row["text"] in (text, f"'{text}")
        assert not row["text"].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert not unicodedata.normalize("NFKC", row["text"]).strip().startswith(("=", "+", "-", "@"))
        assert math.isnan(number) or float(row["number"]) == number


@given(st.from_regex(r"[\s\u200b\ufeff]*[\w'\"(#*/&;:.,!?][^\r]*", fullmatch=True))
def test_always_a_text_that_begins_otherwise_stays_as_it_is(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    frame = pd.DataFrame({"text": [text]})
    is_plain = not text.startswith(("\t", "\r", "\n")) and "\r" not in text
    is_plain &= not set("=+-@") & set(unicodedata.normalize("NFKC", text.strip()[:2]))  # such as a raised plus
    assert not is_plain or format_csv(frame) == frame.to_csv(index=False)


def test_the_table_given_is_not_changed_and_columns_of_one_name_are_kept() -> None:
    frame = pd.DataFrame([["=1", "=2"]], columns=["a", "a"])
    assert format_csv(frame) == "a,a\n'=1,'=2\n"
    assert frame.iloc[0].tolist() == ["=1", "=2"]


@pytest.mark.parametrize(
    "name", ["_reports/templates/cluster_report.js", "papers/giccs/templates/annotation_form.html"]
)
def test_what_a_page_saves_is_escaped_by_the_same_rule(name: str) -> None:
    template = paths.PROJECT / "traube" / name
    found = re.search(r"/(\^\[\\t.*?)/u\b", template.read_text(encoding="utf-8"))
    assert found is not None
    rule = regex.compile(found[1])  # which knows \\p{C}, as browsers do
    texts = [
        f"{before}{chr(code)}1" for code in {*range(0xD800), *range(0xE000, 0x11000)} for before in ("", " \ufeff")
    ]
    written = csv.reader(io.StringIO(format_csv(pd.DataFrame({"text": texts})), newline=""))
    escaped = [text for text, (cell,) in zip(texts, list(written)[1:], strict=True) if cell != text]
    assert escaped == [text for text in texts if rule.match(text)]
    assert len(escaped) > 40


def test_no_csv_is_written_in_another_way() -> None:
    sources = [file for room in ROOMS for file in (paths.PROJECT / room).rglob("*.py")]
    assert [file.name for file in sources if ".to_csv(" in file.read_text(encoding="utf-8")] == ["escaping.py"]
