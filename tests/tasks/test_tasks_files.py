"""Files that people have, read as they are; and the tasks that are made of them without a card."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from openpyxl import Workbook

from tests.errors import refused
from traube._core import paths
from traube._core.errors import Invalid, Unknown
from traube.tasks import get_source, load_task
from traube.tasks.columns import guess_label_column, guess_text_column
from traube.tasks.files import find_task, make_task_of, names_file
from traube.tasks.reading import Rows, TableFormat, detect_encoding, read_rows

GERMAN = ["Größe und Maß", "Über die Straße", "Ein ganz normaler Satz"]
ROWS = [{"body": text, "area": f"a{i % 2}"} for i, text in enumerate(GERMAN)]


def table(separator: str) -> str:
    return "\n".join(separator.join(line) for line in [["body", "area"], *([*row.values()] for row in ROWS)])


def excel() -> bytes:
    book, buffer = Workbook(), io.BytesIO()
    for row in [[None, None], ["body", "area", None], *([*row.values()] for row in ROWS), [None, None]]:
        book.worksheets[0].append(row)
    book.save(buffer)
    return buffer.getvalue()


def parquet() -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(ROWS).to_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "notes"),
    [
        ("a.csv", table(",").encode(), []),
        ("a.csv", table(";").encode("cp1252"), ["encoding cp1252", "semicolons"]),
        ("a.csv", table("\t").encode("latin-1"), ["encoding cp1252", "tabs"]),
        ("a.csv", table("|").encode("utf-8-sig"), ["pipes"]),
        ("a.csv", table(";").encode("utf-16"), ["encoding utf-16", "semicolons"]),
        ("a.tsv", table("\t").encode(), []),
        ("a.jsonl", "\n".join(map(json.dumps, ROWS)).encode(), []),
        ("a.json", json.dumps(ROWS).encode(), []),
        ("a.xlsx", excel(), []),
        ("a.parquet", parquet(), []),
    ],
)
def test_whatever_wrote_the_table_it_is_the_same(tmp_path: Path, name: str, content: bytes, notes: list[str]) -> None:
    (tmp_path / name).write_bytes(content)
    rows = read_rows(tmp_path / name)
    assert rows.texts("body") == GERMAN and rows.texts("area") == ["a0", "a1", "a0"]
    assert list(rows.notes) == notes


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "L’été dernier, nous étions à l’hôtel près de la forêt."),
        ("cp1250", "Wczoraj późno wróciłem do domu, bo pociąg był opóźniony."),
        ("cp1251", "Вчера поздно вернулся домой, потому что поезд опоздал."),
        ("cp932", "日本語のテキストです。これはテストです。"),
    ],
)
def test_the_encodings_of_other_languages_are_reported(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(text.encode(encoding))
    assert detect_encoding(path) == encoding
    assert read_rows(path).texts("text") == [text]


def test_a_comma_inside_of_quotes_separates_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"body, in full";area\n"one, two";x\n')
    assert read_rows(tmp_path / "a.csv").columns == {"body, in full": ["one, two"], "area": ["x"]}


def test_texts_may_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('["one text", "another text"]')
    assert read_rows(tmp_path / "a.json").texts("text") == ["one text", "another text"]


def rows(**columns: list[Any]) -> Rows:
    return Rows(Path("a.csv"), columns, ["a.csv:1"] * len(next(iter(columns.values()))))


SENTENCES = ["a sentence of five words", "one more sentence of it", "the third of these sentences"]


@pytest.mark.parametrize(
    ("found", "text", "label"),
    [
        (rows(id=[1, 2, 3], text=SENTENCES, label=["a", "b", "a"]), "text", "label"),
        (rows(Title=["a", "b", "c"], Body=SENTENCES, Topic=["a", "b", "b"]), "Body", "Topic"),
        (rows(Inhalt=SENTENCES, Bereich=["a", "a", "b"]), "Inhalt", "Bereich"),
        (rows(complaint=SENTENCES, n=["a", "b", "a"]), "complaint", None),  # the only column that reads like texts
        (rows(anything=["a", "b", "c"]), "anything", None),  # the only column
        (rows(text=SENTENCES, label=["x", "x", "x"]), "text", None),  # one group is none
        (rows(text=SENTENCES * 10, topic=[f"t{i}" for i in range(30)]), "text", None),  # names of texts
    ],
)
def test_columns_are_guessed_where_they_are_obvious(found: Rows, text: str, label: str | None) -> None:
    assert guess_text_column(found) == text
    assert guess_label_column(found, text) == label


WORDS = ["bread", "soup", "tea", "ship", "sail", "sea", "star", "moon", "sun", "rye", "oven", "crew"]
TWEETS = [f"the {one} and the {other} are fine" for one, other in zip(WORDS, WORDS[3:], strict=False)]
BLURBS = [" ".join(f"{word}{end}" for word in WORDS) for end in "abcdefghi"]
REVIEWS = [
    "面包很好吃",
    "面包太硬了",
    "面团发酵得很好",
    "船在海上航行",
    "船长掌舵",
    "水手们在海上",
    "海浪很大",
    "烤箱里的面包",
    "茶",
]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (rows(document=[f"doc_{i:03}" for i in range(9)], tweet=TWEETS), "tweet"),  # ids
        (rows(title=["Ms", "Mr", "Ms"] * 3, name=[f"N{i}" for i in range(9)], feedback=TWEETS), "feedback"),
        (rows(日期=[f"Mon {i} Jan 2026" for i in range(9)], 评论=REVIEWS), "评论"),  # a script without spaces
        (rows(comment=["n/a", "ok", "ok"] * 3, answer=TWEETS), "answer"),  # values that come again
        (
            rows(
                description=["Food and drinks", "Ships at sea", "Stars"] * 30,
                said=[f"{t}, {i}" for i in range(10) for t in TWEETS],
            ),
            "said",
        ),
        (rows(content=[f"https://example.org/{w}/{w}s" for w in WORDS[:9]], post=TWEETS), "post"),  # addresses
        (
            rows(text=WORDS[:9], url=[f"img/{i}.jpg" for i in range(9)]),
            "text",
        ),  # a word each, and none reads like texts
        (
            rows(Titel=[f"{a} and {b}" for a, b in zip(WORDS, WORDS[3:], strict=False)], Klappentext=BLURBS),
            "Klappentext",
        ),
        (rows(title=TWEETS, remark=list(reversed(TWEETS))), "title"),  # as rich as the other
        (rows(body=TWEETS, notes=[" ".join(WORDS[i:] + WORDS[:i]) for i in range(9)]), "body"),  # texts with a name
    ],
)
def test_what_a_column_holds_goes_before_what_it_is_called(found: Rows, text: str) -> None:
    assert guess_text_column(found) == text


@pytest.mark.parametrize("found", [rows(a=["x", "y"], b=["z", "z"]), rows(old=SENTENCES, new=SENTENCES)])
def test_where_columns_are_not_obvious_the_error_names_the_option(found: Rows) -> None:
    with refused(Invalid, "a.csv", "--text"):
        guess_text_column(found)


@pytest.mark.parametrize("name", ["tickets.csv", "./tickets", "a.CSV.gz", "b.xlsx"])
def test_a_file_is_distinguished_from_a_task(name: str) -> None:
    assert names_file(name)
    assert not names_file("tickets") and not names_file("pydocs_s2s")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str = table(","), name: str = "My Tickets, März.csv") -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


def test_a_file_is_a_task_and_its_content_its_data_version(write: Callable[..., Path]) -> None:
    made = make_task_of(file := write())
    assert (made.name, made.text, made.labels) == ("my_tickets_marz", "body", ("area",))
    first = load_task(made.name)
    assert first.texts == GERMAN and first.is_labeled
    write(table(",") + "\nEin neuer Satz,a1")
    assert make_task_of(file).name == find_task(file) == made.name
    assert load_task(made.name).data_version != first.data_version


def test_findings_about_a_file_are_printed_in_a_line_and_stand_on_its_card(tmp_path: Path) -> None:
    texts = [f"Der Zug nach München fällt heute leider aus, weil {i} Weichen gefroren sind" for i in range(9)]
    file = tmp_path / "zug.csv"
    file.write_bytes("\n".join(["Inhalt;Thema", *(f"{t};{i % 2}" for i, t in enumerate(texts))]).encode("cp1252"))
    made = make_task_of(file)
    assert made.about == (
        "zug.csv: texts in 'Inhalt', labels in 'Thema' (German, encoding cp1252, semicolons); task zug, "
        f"card {paths.generated_cards() / 'zug.yaml'}"
    )
    card = get_source("zug").card
    assert (card.family, card.language) == ("own", "de")


def test_columns_that_are_named_stay_named(write: Callable[..., Path]) -> None:
    file = write("body,area,team\none,a,x\ntwo,b,y\n")
    assert make_task_of(file, labels=["team"]).labels == ("team",)
    assert make_task_of(file).labels == ("team",)
    assert make_task_of(file, "area", ["team"]).text == "area"
    with refused(Unknown, "tem", "team", "--labels"):
        make_task_of(file, labels=["tem"])


def test_a_format_that_is_said_stays_said_and_an_encoding_until_the_file_is_utf_8(write: Callable[..., Path]) -> None:
    file = write("one;1:a\ntwo;2:b\nthree;3:a\n")
    said = TableFormat(separator=":", header=False)
    assert make_task_of(file, "column_1", ["column_2"], said).text == "column_1"
    made = make_task_of(file)  # without options
    assert load_task(made.name).texts == ["one;1", "two;2", "three;3"]
    assert get_source(made.name).settings.separator == ":"
    file.write_bytes("Größe:a\nMaß:b\nweiß:a\n".encode("cp437"))
    make_task_of(file, form=TableFormat(encoding="cp437"))
    make_task_of(file)
    assert load_task(made.name).texts == ["Größe", "Maß", "weiß"]
    file.write_text("Größe:a\nMaß:b\n", encoding="utf-8")
    make_task_of(file)
    assert load_task(made.name).texts == ["Größe", "Maß"]


def test_a_copied_card_goes_before_the_one_that_was_written(write: Callable[..., Path], cards: Path) -> None:
    made = make_task_of(file := write())
    (cards / "tickets.yaml").write_text(made.card.read_text())
    assert find_task(file) == "tickets"
    again = make_task_of(file)
    assert (again.name, again.card) == ("tickets", cards / "tickets.yaml")
    (cards / "tickets.yaml").rename(cards / f"{made.name}.yaml")
    assert make_task_of(file).card == cards / f"{made.name}.yaml"


def test_files_of_one_name_are_different_tasks(write: Callable[..., Path]) -> None:
    one, other = write(name="one/data.csv"), write(name="other/data.csv")
    assert [make_task_of(file).name for file in (one, other, one)] == ["data", "data_2", "data"]
    assert make_task_of(write(name="leaderboard.csv")).name == "leaderboard_2"  # a name of the asset graph


def test_a_text_file_is_a_task_without_labels(write: Callable[..., Path]) -> None:
    made = make_task_of(write("one text\n\nanother text\n", "notes.txt"))
    assert load_task(made.name).texts == ["one text", "another text"]
    assert not load_task(made.name).is_labeled
