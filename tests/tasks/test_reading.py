"""Raw files that a person has from other programs: sound ones are read, all else is one line."""

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook

from tests.errors import refused
from traube._core import inputs
from traube._core.errors import Corrupt, Malformed, TooLarge, Unknown
from traube.tasks import load_task
from traube.tasks.readers.table import read_column
from traube.tasks.reading import BATCH, MOST_COLUMNS, TableFormat, read_rows


def write(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_texts_that_a_parquet_file_holds_as_bytes_are_texts(tmp_path: Path) -> None:
    """They once became `b'...'`."""
    path = write(tmp_path / "a.parquet", text=pa.array(["Größe".encode(), b"soup", None], pa.binary()))
    assert read_column(read_rows(path), "text") == ["Größe", "soup", ""]


def test_a_parquet_file_of_many_rows_is_read_whole_and_in_order(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(2 * BATCH + 7)]
    path = write(tmp_path / "a.parquet", text=texts, when=[datetime(2024, 1, 1)] * len(texts), n=range(len(texts)))
    rows = read_rows(path)
    assert rows.columns["text"] == texts
    assert rows.columns["n"] == list(range(len(texts)))
    assert rows.places[-1] == f"{path}: row {len(texts) - 1}"


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text that stands in each of a million rows takes a few bytes of the file."""
    path = write(tmp_path / "a.parquet", text=pa.array(["x" * 10_000] * 20_000).dictionary_encode())
    assert path.stat().st_size < 2**20
    monkeypatch.setattr(inputs, "LARGEST", 2**23)
    with refused(TooLarge, "a.parquet", "8 MiB"):
        read_rows(path)


# tables that are small as files and large in memory


def write_sparse(path: Path, rows: int) -> Path:
    """Write objects that share one key, and have another each."""
    objects = [json.dumps({"text": "a", f"key {i}": i}) for i in range(rows)]
    path.write_text("\n".join(objects) if path.suffix == ".jsonl" else f"[{','.join(objects)}]")
    return path


def write_sheet(path: Path, *rows: str, above: str = "") -> Path:
    """Write a spreadsheet whose rows are XML, as another program may have written them."""
    Workbook().save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    data = f"{above}<sheetData>{''.join(rows)}</sheetData>"
    entries["xl/worksheets/sheet1.xml"] = f'<worksheet xmlns="{namespace}">{data}</worksheet>'.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def text_cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_objects_with_keys_of_their_own_are_a_table_up_to_a_limit(tmp_path: Path, name: str) -> None:
    rows = read_rows(write_sparse(tmp_path / name, 2_000))
    assert (len(rows), len(rows.columns)) == (2_000, 2_001)
    assert rows.columns["key 7"][6:9] == [None, 7, None]
    with refused(TooLarge, name, 8000, 8001):
        read_rows(write_sparse(tmp_path / name, 8_000))
    with refused(TooLarge, name, 20_001, 16_384):
        read_rows(write_sparse(tmp_path / name, 20_000))


ROW_WRITERS: dict[str, Callable[[Path, dict[str, str]], object]] = {
    "csv": lambda path, row: path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n"),
    "tsv": lambda path, row: path.write_text("{}\n{}\n".format("\t".join(row), "\t".join(row.values()))),
    "jsonl": lambda path, row: path.write_text(json.dumps(row)),
    "json": lambda path, row: path.write_text(json.dumps([row])),
    "parquet": lambda path, row: write(path, **{name: [value] for name, value in row.items()}),
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ROW_WRITERS)
def test_a_table_has_as_many_columns_as_a_spreadsheet(tmp_path: Path, suffix: str) -> None:
    path, row = tmp_path / f"a.{suffix}", {f"c{i}": "x" for i in range(MOST_COLUMNS)}
    ROW_WRITERS[suffix](path, row)
    assert read_rows(path).columns == {name: ["x"] for name in row}
    ROW_WRITERS[suffix](path, {**row, "more": "x"})
    with refused(TooLarge, f"{path}:1" if suffix in ("csv", "tsv") else path, 16_385, 16_384):
        read_rows(path)


def test_a_parquet_file_of_nothing_is_refused_before_it_is_a_hundred_million_rows(tmp_path: Path) -> None:
    """Empty cells take no room in the file, and a few bytes each in memory."""
    path = write(tmp_path / "a.parquet", text=pa.nulls(100_000_000))
    assert path.stat().st_size < 2**20
    with refused(TooLarge, "a.parquet", "4,096 MiB"):
        read_rows(path)
    assert read_rows(write(tmp_path / "a.parquet", text=pa.nulls(3))).columns == {"text": [None] * 3}


@pytest.mark.slow
def test_a_spreadsheet_may_have_gaps_but_no_row_beyond_the_last(tmp_path: Path) -> None:
    header = f'<row r="2">{text_cell("B2", "text")}{text_cell("D2", "label")}</row>'
    far = f'<row r="{{0}}">{text_cell("B{0}", "soup")}{text_cell("Z{0}", "of no column")}</row>'
    rows = read_rows(write_sheet(tmp_path / "a.xlsx", header, far.format(900)))
    assert rows.columns == {"text": ["soup"], "label": [None]}
    assert rows.places == [f"{tmp_path / 'a.xlsx'}: row 900"]
    with refused(TooLarge, "a.xlsx", 1_048_576):
        read_rows(write_sheet(tmp_path / "a.xlsx", header, far.format(2_000_000_000)))


def test_a_spreadsheet_of_nearly_empty_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traube.tasks.reading.EMPTY", 2**20)
    header = '<row r="1">' + "".join(f"<c><v>{i}</v></c>" for i in range(2_000)) + "</row>"
    rows = [f'<row r="{i}"><c r="A{i}"><v>{i}</v></c></row>' for i in range(2, 2_002)]
    with refused(TooLarge, "a.xlsx", 2000):
        read_rows(write_sheet(tmp_path / "a.xlsx", header, *rows))
    assert len(read_rows(write_sheet(tmp_path / "a.xlsx", header, *rows[:50]))) == 50


# spreadsheets as people keep them


def write_book(path: Path, **sheets: list[list[Any]]) -> Path:
    book = Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_is_what_its_cells_hold_whatever_it_says_of_its_size(tmp_path: Path) -> None:
    """Some programs write `<dimension ref="A1"/>` above a whole table."""
    rows = (f'<row r="1">{text_cell("A1", "text")}</row>', f'<row r="2">{text_cell("A2", "soup")}</row>')
    path = write_sheet(tmp_path / "a.xlsx", *rows, above='<dimension ref="A1"/>')
    assert read_rows(path).columns == {"text": ["soup"]}


def test_titles_gaps_and_dates_of_a_spreadsheet_are_read(tmp_path: Path) -> None:
    rows = [["Survey"], [], ["when", None, "text", "n"], [datetime(2024, 1, 31), None, "soup", 1]]
    rows += [[datetime(2024, 2, 1, 10, 30), None, "bread", 2], [None] * 4, [date(2024, 2, 2), None, "tea", 3]]
    read = read_rows(write_book(tmp_path / "a.xlsx", s=rows))
    assert read.texts("when") == ["2024-01-31", "2024-02-01 10:30:00", "2024-02-02"]
    assert (read.columns["text"], read.columns["n"]) == (["soup", "bread", "tea"], [1, 2, 3])
    assert read.notes == ("header at row 3",) and read.places[-1].endswith("a.xlsx: row 7")


@pytest.mark.parametrize(
    ("wanted", "text"), [(None, "a"), ("data", "b"), ("2", "b"), (1, "a"), ("3", "c"), ("2024", "c"), (2024, "c")]
)
def test_a_sheet_is_named_or_numbered(tmp_path: Path, wanted: str | int | None, text: str) -> None:
    sheets = {name: [["text"], [cell]] for name, cell in {"about": "a", "data": "b", "2024": "c"}.items()}
    path = write_book(tmp_path / "a.xlsx", **sheets)
    read = read_rows(path, TableFormat(sheet=wanted))
    assert read.columns == {"text": [text]}
    assert read.notes[0].endswith("(of about, data and 2024: --sheet says which)")
    with refused(Unknown, "a.xlsx", 2024, "about", "data"):
        read_rows(path, TableFormat(sheet="4"))


def test_a_file_of_excel_until_2003_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here writes such files, so that the parser's own cells stand for one."""
    xlrd = pytest.importorskip("xlrd")

    def cell(value: object, kind: int = xlrd.XL_CELL_TEXT) -> Any:
        return xlrd.sheet.Cell(kind, value)

    rows = [[cell("text"), cell("when")], [cell("soup"), cell(45322.0, xlrd.XL_CELL_DATE)], [cell("tea")]]
    sheet = SimpleNamespace(name="s", get_rows=lambda: rows)
    book = SimpleNamespace(sheets=lambda: [sheet], datemode=0)
    monkeypatch.setattr(xlrd, "open_workbook", lambda **_: book)
    (tmp_path / "a.xls").write_bytes(b"")
    read = read_rows(tmp_path / "a.xls")
    assert (read.texts("text"), read.texts("when")) == (["soup", "tea"], ["2024-01-31", None])


# JSON, whatever the file is called

RECORDS = [{"text": "soup", "n": 1}, {"text": "tea", "n": 2}]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson", "a.json.gz"])
@pytest.mark.parametrize(
    "content",
    [
        "\n".join(map(json.dumps, RECORDS)),
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json.dumps({"version": 1, "data": RECORDS}, indent=2),
        json.dumps({"text": ["soup", "tea"], "n": [1, 2]}, indent=2),
        json.dumps({"text": {"0": "soup", "1": "tea"}, "n": {"0": 1, "1": 2}}, indent=2),  # as pandas writes it
        json.dumps(dict(enumerate(RECORDS)), indent=2),
    ],
    ids=["lines", "list", "pretty", "wrapped", "columns", "pandas", "numbered"],
)
def test_json_is_read_by_its_content(tmp_path: Path, name: str, content: str) -> None:
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert read_rows(tmp_path / name).columns == {"text": ["soup", "tea"], "n": [1, 2]}


@pytest.mark.parametrize(
    "value",
    [
        {"text": "soup"},
        {"a": [1, 2], "b": [1]},
        {"train": RECORDS, "test": RECORDS},
        {"columns": ["a", "b"], "index": [0, 1], "data": [["x", "y"], ["z", "w"]]},
        {"0": {"0": "a"}, "1": {"0": "b"}},
    ],
)
def test_an_object_that_may_be_several_tables_is_refused(tmp_path: Path, value: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(value))
    with refused(Malformed, "a.json"):
        read_rows(tmp_path / "a.json")


def test_a_line_that_is_an_object_of_lists_is_a_row(tmp_path: Path) -> None:
    """As MTEB's data sets are: a row of sentences and labels each."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"sentences": ["a", "b"], "labels": ["x", "y"]}))
    assert read_rows(tmp_path / "a.jsonl").columns == {"sentences": [["a", "b"]], "labels": [["x", "y"]]}


@pytest.mark.parametrize("suffix", ["zip", "bz2", "xz", "zst", "7z"])
def test_how_to_unpack_is_left_to_the_user(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.csv.{suffix}").write_bytes(b"")
    with refused(Malformed, suffix, "a.csv"):
        read_rows(tmp_path / f"a.csv.{suffix}")


def test_an_error_stays_readable_whatever_the_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"{i}{'x' * 100_000}" for i in range(40)) + "\n" + "," * 39)
    with refused(Unknown, "nothing") as error:
        read_rows(tmp_path / "a.csv").column("nothing")
    assert str(error.value).startswith(f"{tmp_path / 'a.csv'}: unknown column 'nothing': there are: ")
    assert str(error.value).endswith(" and 10 more") and len(str(error.value)) < 5_000


@pytest.mark.slow
def test_a_whole_archive_is_read_so_that_its_checksum_is_checked(raw_folder: Path) -> None:
    """Damage behind the last post is found as well: gzip's checksum stands at the very end."""
    path = raw_folder / "20newsgroups" / "20news-bydate.tar.gz"
    path.parent.mkdir()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for part in ("train", "test"):
            for i in range(60):
                data = f"From: a@b.c\n\npost {i}\n".encode()
                entry = tarfile.TarInfo(f"20news-bydate-{part}/sci.{i % 3}/{i:05d}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    whole = gzip.compress(file.getvalue())
    path.write_bytes(whole)
    load_task("newsgroups")
    path.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
    with refused(Malformed, "20news-bydate.tar.gz"):
        load_task("newsgroups")
    path.write_bytes(gzip.compress(file.getvalue() + b"\0" * 2**28, 1))
    with refused(TooLarge, "20news-bydate.tar.gz"):
        load_task("newsgroups")


TABLE = "text,topic\na cat,cats\na dog,dogs\n"


@pytest.fixture
def table(cards: Path) -> Path:
    (cards / "pets.yaml").write_text("file: pets.csv\ntext: text\nlabels: topic\n")
    (cards / "pets.csv").write_text(TABLE)
    return cards / "pets.csv"


def test_a_file_is_compared_with_the_checksum_beside_it(table: Path) -> None:
    """`sha256sum pets.csv > pets.csv.sha256` is all that it takes."""
    beside = table.with_name("pets.csv.sha256")
    beside.write_text(f"{hashlib.sha256(TABLE.encode()).hexdigest()}  pets.csv\n")
    assert load_task("pets").texts == ["a cat", "a dog"]
    table.write_text(TABLE.replace("cats", "rats"))
    with refused(Corrupt, "pets.csv", "SHA-256"):
        load_task("pets")
    beside.write_text("")
    with refused(Corrupt, "SHA-256"):
        load_task("pets")
    beside.unlink()
    assert load_task("pets").texts == ["a cat", "a dog"]
