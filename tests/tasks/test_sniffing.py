"""Files as other programs write them: encodings, dialects and headers are found, and what is ambiguous is named."""

import csv
import io
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.errors import refused
from traube._core.errors import Conflict, Malformed, TooFew, TooLarge, TraubeError, Unknown
from traube.tasks._sniffing import Dialect, detect_dialect, find_header, find_words, lacks_header, rank_encodings
from traube.tasks.reading import TableFormat, detect_encoding, read_rows

# encodings

WESTERN, CENTRAL = ["cp1252", "mac_roman", "cp850"], ["cp1250", "iso8859_2"]
SAMPLES = {
    "de": ("Für die Größe gibt es keine Lösung.\nMüller möchte das Öl zurückgeben.\n", WESTERN),
    "fr": ("La livraison a été retardée.\nOù est le garçon, et que fait-il là-bas ?\n", WESTERN),
    "es": ("El niño comió mañana en el jardín.\n¿Dónde está la estación?\n", WESTERN),
    "it": ("La qualità è ottima, però la consegna è in ritardo.\nPerché non funziona più?\n", WESTERN),
    "pt": ("Não consigo entrar na aplicação.\nA entrega foi rápida e a informação está correta.\n", WESTERN),
    "sv": ("Leveransen är försenad, det är tråkigt.\nHär är en fråga om köpet.\n", WESTERN),
    "da": ("Leveringen er forsinket, og det er ærgerligt.\nDer er et spørgsmål, vi får ikke svar.\n", WESTERN),
    "en": ("I can’t log in since the update.\nIt’s stuck on the “loading” page.\n", ["cp1252", "mac_roman"]),
    "en_2": ("the crew don’t see the harbor, and it’s £5\n", ["cp1252", "mac_roman"]),
    "tr": ("Siparişim çok geç geldi ama ürün güzel.\nKargo paketi yırtık, içindeki bardak kırılmıştı.\n", ["cp1254"]),
    "pl": ("Obsługa była świetna, ale długo czekaliśmy\nZażółć gęślą jaźń\n", CENTRAL),
    "cs": ("Příliš žluťoučký kůň úpěl ďábelské ódy.\nZboží přišlo pozdě a bylo poškozené.\n", CENTRAL),
    "ru": ("Приложение не работает\nОтличный сервис\n", ["cp1251", "koi8_r", "iso8859_5", "cp866", "mac_cyrillic"]),
    "el": ("Η εφαρμογή δεν λειτουργεί.\nΗ παράδοση καθυστέρησε μια εβδομάδα.\n", ["cp1253", "iso8859_7"]),
    "he": ("האפליקציה לא עובדת\nהמשלוח הגיע באיחור\n", ["cp1255", "iso8859_8"]),
    "ar": ("التطبيق لا يعمل منذ أمس\nتأخر التسليم لمدة أسبوع\n", ["cp1256", "iso8859_6"]),
    "th": ("อาหารอร่อยมาก บริการดี\nบริการช้ามาก ไม่ประทับใจ\n", ["cp874"]),
    "ja": ("日本語のテキストです。\n配送が遅れました。とても残念です。\n", ["cp932", "euc_jp"]),
    "zh": ("面包很好吃，服务也不错。\n快递太慢了，等了一个星期。\n", ["gb18030"]),
    "zh_tw": ("麵包很好吃，服務也不錯。\n快遞太慢了，等了一個星期。\n", ["big5"]),
    "ko": ("앱이 작동하지 않습니다.\n배송이 너무 늦었어요. 정말 실망했습니다.\n", ["euc_kr"]),
}
WRITTEN = [(name, encoding) for name, (_, encodings) in SAMPLES.items() for encoding in encodings]


@pytest.mark.parametrize("times", [1, 50])
@pytest.mark.parametrize(("language", "encoding"), WRITTEN)
def test_a_text_comes_out_as_it_was_written(tmp_path: Path, language: str, encoding: str, times: int) -> None:
    text = SAMPLES[language][0] * times
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert read_rows(tmp_path / "a.txt").columns["text"] == text.splitlines()


@pytest.mark.parametrize("encoding", WESTERN)
@pytest.mark.parametrize("word", ["Größe", "café", "naïve", "señor", "tråkigt", "garçon", "È", "à", "Öl"])
def test_latin_letters_never_become_those_of_another_script(word: str, encoding: str) -> None:
    """A few letters could be of many encodings; but a word has one script."""
    data = f"The word {word} stands here, and {word} again.".encode(encoding)
    for found in rank_encodings(data):
        others = [c for c in data.decode(found) if c.isalpha() and find_words(f"{c}x") != [f"{c}x".casefold()]]
        assert not others, (found, data.decode(found))


def test_of_two_encodings_that_are_as_likely_the_note_names_both(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("It’s a naïve question about “quotes”.\n".encode("cp1252") + b"We can\x92t tell.")
    (tmp_path / "b.txt").write_bytes("Приложение не работает".encode("mac_cyrillic"))
    (note,) = read_rows(tmp_path / "b.txt").notes
    assert note == "encoding mac-cyrillic or cp1251, as likely: --encoding says which"
    assert read_rows(tmp_path / "b.txt", TableFormat(encoding="cp1251")).notes == ("encoding cp1251",)
    assert detect_encoding(tmp_path / "a.txt") == "cp1252"


def test_an_encoding_is_found_by_all_lines_and_not_by_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"plain words\n" * 100_000 + "Die Größe für später\n".encode("mac_roman") * 3)
    assert read_rows(tmp_path / "a.txt").columns["text"][-1] == "Die Größe für später"


@pytest.mark.parametrize(
    ("encoding", "kind"),
    [("nothing", Unknown), ("base64", Unknown), ("punycode", Malformed), ("a\0b", Unknown), ("undefined", Unknown)],
)
def test_an_encoding_that_is_none_is_one_line(tmp_path: Path, encoding: str, kind: type[TraubeError]) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with refused(kind, tmp_path / "a.txt", encoding.replace("\0", r"\x00")):
        read_rows(tmp_path / "a.txt", TableFormat(encoding=encoding))


def test_a_text_file_of_an_old_mac_has_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Größe\rMaß\r".encode())
    assert read_rows(tmp_path / "a.txt").columns["text"] == ["Größe", "Maß"]
    (tmp_path / "a.txt").write_bytes(b"one\rstill one\ntwo\n")
    assert read_rows(tmp_path / "a.txt").columns["text"] == ["one\rstill one", "two"]


# dialects

WRITERS: list[dict[str, Any]] = [
    {"quoting": csv.QUOTE_MINIMAL},
    {"quoting": csv.QUOTE_ALL},
    {"quoting": csv.QUOTE_ALL, "doublequote": False, "escapechar": "\\"},
]
CELLS = st.text(st.sampled_from("abcd ,;|\t'\"\n.é漢"), max_size=12).filter(lambda cell: cell.strip() == cell)
TABLES = st.lists(
    st.tuples(st.integers(0, 999).map(str), CELLS, st.sampled_from(["food", "sea, and ships"])), min_size=3
)


@settings(max_examples=150, deadline=None)
@example(  # read with apostrophes for quotes, it has three columns too, and tears a cell in quotes
    rows=[("0", "", "food"), ("0", "", "food"), ("0", ",',\"'\n;", "sea, and ships")],
    separator=",",
    writer={"quoting": csv.QUOTE_MINIMAL},
)
@given(rows=TABLES, separator=st.sampled_from(",;\t|"), writer=st.sampled_from(WRITERS))
def test_a_table_comes_back_whatever_the_dialect_it_was_written_in(
    rows: list[tuple[str, ...]], separator: str, writer: dict[str, Any]
) -> None:
    text = write([("id", "words of it", "label"), *rows], separator=separator, **writer)
    widths = {len(row) for _, row in Dialect(separator, "").read(text)}
    # else quotes may as well be characters, of texts or at the ends of rows
    assume(len(widths) > 1 or not {*'"\n'} & {*"".join(row[1] for row in rows)})
    # a cell of two apostrophes, or one that is quoted
    assume(not any(row[1][:1] == row[1][-1:] == "'" for row in rows))
    dialect = detect_dialect(text)
    assert [tuple(row) for _, row in dialect.read(text)][1:] == rows, dialect


def write(rows: Any, *, separator: str, **options: Any) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=separator, **options).writerows(rows)
    return file.getvalue()


SPEECH = ['he can\'t, "really"', "it's here; and there", "no | yes", 'they said: "we\'re late, sorry"', "a\nb", "fine"]


@pytest.mark.parametrize(("separator", "quote", "writer"), [*product(",;\t|", "\"'", WRITERS)])
@pytest.mark.parametrize("columns", [1, 2])
def test_texts_with_all_marks_come_back(separator: str, quote: str, writer: dict[str, Any], columns: int) -> None:
    rows = [row[-columns:] for row in [("label", "text"), *((f"l{i % 2}", text) for i, text in enumerate(SPEECH))]]
    text = write(rows, separator=separator, quotechar=quote, **writer)
    dialect = detect_dialect(text)
    assert [tuple(row) for _, row in dialect.read(text)] == rows, dialect


def read(tmp_path: Path, text: str, name: str = "a.csv", **form: Any) -> dict[str, list[Any]]:
    (tmp_path / name).write_text(text, newline="")
    return read_rows(tmp_path / name, TableFormat(**form)).columns


def test_the_line_of_excel_that_names_the_separator_is_no_row(tmp_path: Path) -> None:
    table = "sep=;\r\ntext;label\r\none, two;x\r\nthree;y\r\n"
    assert read(tmp_path, table) == {"text": ["one, two", "three"], "label": ["x", "y"]}
    with refused(Malformed, "a.csv:4", 1, 2):
        read(tmp_path, "sep=;\ntext;label\na;b\nc\n")


STRAY = (
    'label{0}message\nham{0}see you\nham{0}"call me\nspam{0}win a phone\nspam{0}a prize\nham{0}land{1}\nham{0}dinner\n'
)


@pytest.mark.parametrize("end", ["", '"'])
@pytest.mark.parametrize(("name", "separator"), [("a.tsv", "\t"), ("a.csv", ","), ("a.csv", ";")])
def test_a_stray_quote_is_a_character_where_each_line_is_a_row(
    tmp_path: Path, name: str, separator: str, end: str
) -> None:
    """With a quote at the end of a later line, three rows once became one text."""
    found = read(tmp_path, STRAY.format(separator, end), name)["message"]
    assert found == ["see you", '"call me', "win a phone", "a prize", f"land{end}", "dinner"]


def test_quotes_that_explain_a_file_are_none_of_its_texts(tmp_path: Path) -> None:
    table = 'label\tmessage\nham\t"call me\nwhen you land"\nspam\t"win\ta phone"\nham\t"fine"\n'
    assert read(tmp_path, table, "a.tsv")["message"] == ["call me\nwhen you land", "win\ta phone", "fine"]


def test_a_column_alone_has_no_separator(tmp_path: Path) -> None:
    texts = ["Hello, world; or not", "fine", "a | b"]
    assert read(tmp_path, "\n".join(["text", *texts])) == {"text": texts}


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ({"separator": ":"}, "a:b\nx,y:z\n", {"a": ["x,y"], "b": ["z"]}),
        ({"separator": "tab"}, "a,b\tc\n1,2\t3\n", {"a,b": ["1,2"], "c": ["3"]}),
        ({"quote": "none"}, 'a,b\n"x","y"\n', {"a": ['"x"'], "b": ['"y"']}),
        ({"quote": "$"}, "a,b\n$x,y$,z\n", {"a": ["x,y"], "b": ["z"]}),
        ({"header": False}, "x,y\n1,2\n", {"column_1": ["x", "1"], "column_2": ["y", "2"]}),
    ],
)
def test_what_is_said_goes_before_what_is_found(
    tmp_path: Path, form: dict[str, Any], text: str, expected: dict[str, list[str]]
) -> None:
    assert read(tmp_path, text, **form) == expected


@pytest.mark.parametrize("value", ["\n", "::", "", "a", "\\"])
def test_a_separator_that_is_part_of_texts_is_refused(value: str) -> None:
    with refused(ValidationError, "separator"):
        TableFormat(separator=value)
    assert TableFormat(separator="~").separator == "~"


def test_a_large_table_is_tried_in_time(tmp_path: Path) -> None:
    """Of 200,000 fields and of 10,000 long rows: no step takes the square of them."""
    with refused(TooLarge, 200_000):
        read(tmp_path, ",".join(f"c{i}" for i in range(200_000)) + "\n" + "," * 199_999)
    rows = [f'{i};it\'s "long", {"word " * 30}' for i in range(10_000)]
    assert len(read(tmp_path, "\n".join(["id;text", *rows]))["text"]) == 10_000
    assert len(find_words("x://" * 100_000)) == 0 and len(find_words("word" * 100_000)) == 1


# headers

TEXT = "a sentence of more than five words"


@pytest.mark.parametrize(
    ("first", "others", "lacks"),
    [
        (["ham", TEXT], [["spam", TEXT], ["ham", "no"], ["spam", "yes"], ["ham", "x"]], True),  # a value comes again
        (["1", TEXT], [["2", TEXT], ["3", "no"], ["4", "yes"]], True),  # a number in a column of numbers
        (["id", TEXT], [["2", TEXT], ["3", "no"], ["4", "yes"]], False),  # a question of a survey, say
        (["1", "text"], [["2", TEXT], ["3", "no"], ["4", "yes"]], False),
        (["text"], [[TEXT], ["b"], ["c"]], False),
        (["id", "2019", "2020"], [["a", "3", "4"], ["b", "3", "4"], ["c", "5", "6"]], False),
        (["1", "how do you like our new product?"], [["2", "no"], ["3", "yes"], ["4", "no"]], False),
    ],
)
def test_a_header_is_missing_only_beyond_doubt(first: list[str], others: list[list[str]], lacks: bool) -> None:
    assert lacks_header([first, *others]) is lacks


def test_a_table_without_a_header_is_read_whole_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f'{i % 3},"{TEXT}, and {i}"\n' for i in range(9)))
    rows = read_rows(tmp_path / "a.csv")
    assert [*rows.columns] == ["column_1", "column_2"] and len(rows) == 9
    assert "column_1" in rows.notes[0]
    assert len(read_rows(tmp_path / "a.csv", TableFormat(header=True))) == 8


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["id", "text", "label"], ["1", "a", "x"], ["2", "b", "x"]], 0),
        ([["Survey", "", ""], ["id", "text", "label"], ["1", "a", "x"], ["2", "b", "x"]], 1),
        ([["Survey", "", ""], ["", "", ""], ["id", "text", "label"], *([i, "a", "x"] for i in "123")], 2),
        ([["Survey"], ["of 2024"], ["text", "label"], ["a", "x"], ["b", "x"], ["c", "y"]], 2),
        ([["", "text"], ["0", "a"], ["1", "b"]], 0),  # the index that pandas writes has no name
        ([["text", ""], ["a", "x"], ["b", "x"], ["c", "x"]], 0),  # a column of values that has no name
        ([["text"], ["a"], ["b"]], 0),
        ([[f"c{i}" for i in range(9)], ["a"], ["b"]], 0),
    ],
)
def test_titles_above_a_header_are_no_rows(rows: list[list[str]], header: int) -> None:
    assert find_header(rows) == header


@pytest.mark.parametrize("header", ["text", '"text"', None])
@pytest.mark.parametrize("separator", ",;|")
@pytest.mark.parametrize("rows", [3, 40])
def test_one_column_in_quotes_is_one_column(header: str | None, separator: str, rows: int) -> None:
    texts = [f"tea number {i}{separator} hot{separator} and sweet" for i in range(rows)]
    text = "\n".join([*([header] if header else []), *(f'"{one}"' for one in texts)])
    read = [row for _, row in detect_dialect(text).read(text)]
    assert read[-rows:] == [[one] for one in texts]


@pytest.mark.parametrize(("separator", "quote"), [*product(",;|", "\"'")])
def test_spaces_between_a_separator_and_a_quote_are_no_part_of_a_field(separator: str, quote: str) -> None:
    fields = [["question", "answer"], ["Can I park?", f"Yes{separator} all day."], ["Open?", f"No{separator} never."]]
    text = "\n".join(f"{separator} ".join(f"{quote}{one}{quote}" for one in row) for row in fields)
    assert [row for _, row in detect_dialect(text).read(text)] == fields
    plain = f"a{separator}b\n 1{separator} 2\n 3{separator} 4\n"  # those of plain fields are
    assert [row for _, row in detect_dialect(plain).read(plain)][1] == [" 1", " 2"]


@pytest.mark.parametrize("begin", [0, 1, 17])
def test_a_first_row_from_which_a_column_counts_on_is_no_header(tmp_path: Path, begin: int) -> None:
    found = read(tmp_path, "".join(f'{i},"rue no {i}, in Paris"\n' for i in range(begin, begin + 9)))
    assert len(found["column_1"]) == 9
    years = "country,2019,2020\nFrance,2020,2021\nSpain,2020,2022\nItaly,2020,2023\nMalta,2020,2024\n"
    assert [*read(tmp_path, years)] == ["country", "2019", "2020"]  # numbers, but no counting


@pytest.mark.parametrize("separator", ["\t", "|"])
def test_a_table_that_is_called_a_text_is_a_table(tmp_path: Path, separator: str) -> None:
    lines = ["id|comment", *(f"{i}|nice hat, number {i}" for i in range(9))]
    assert [*read(tmp_path, "\n".join(lines).replace("|", separator), "a.txt")] == ["id", "comment"]


def test_a_text_with_some_separators_is_a_table_only_on_request(tmp_path: Path) -> None:
    lines = "one | two\nthree\nfour | five\nsix\nseven\n"  # not as often in each line
    assert len(read(tmp_path, lines, "a.txt")["text"]) == 5
    found = read(tmp_path, "nice hat;Bonn\nold coat;Bonn\n", "a.txt", separator=";", header=False)
    assert [*found] == ["column_1", "column_2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.csv", {"sheet": 1}), ("a.json", {"separator": ";"}), ("a.jsonl", {"quote": "'"}), ("a.txt", {"sheet": "x"})],
)
def test_what_means_nothing_in_a_format_is_refused(tmp_path: Path, name: str, said: dict[str, Any]) -> None:
    (tmp_path / name).write_text('[{"text": "a"}]')
    with refused(Conflict, name, *said):
        read_rows(tmp_path / name, TableFormat(**said))


def test_separators_may_be_named() -> None:
    names = {"tab": "\t", "semicolon": ";", "comma": ",", "pipe": "|", "space": " "}
    assert {name: TableFormat(separator=name).separator for name in names} == names


def test_columns_of_one_name_are_numbered_as_in_pandas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,score,score,comment,score.1\n1,2,3,nice hat,4\n2,2,3,nice coat,4\n")
    rows = read_rows(tmp_path / "a.csv")
    assert [*rows.columns] == ["id", "score", "score.2", "comment", "score.1"]
    assert rows.columns["score.2"] == ["3", "3"] and any("score.2" in note for note in rows.notes)


def test_objects_in_objects_are_columns(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"id": 1, "content": {"text": "nice fit", "by": {"name": "a"}}}]')
    assert [*read_rows(tmp_path / "a.json").columns] == ["id", "content.text", "content.by.name"]


def test_the_first_sheet_with_rows_is_read(tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.create_sheet("data").append(["text"])
    book["data"].append(["nice hat"])
    book.save(tmp_path / "a.xlsx")
    rows = read_rows(tmp_path / "a.xlsx")
    assert rows.columns == {"text": ["nice hat"]} and "sheet 'data'" in rows.notes[0]
    with refused(TooFew, "Sheet"):
        read_rows(tmp_path / "a.xlsx", TableFormat(sheet=1))
