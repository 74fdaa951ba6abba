"""Files that people have, plain or gzipped, read with errors that name the file and the line."""

import io
import json
import logging
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, time
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BeforeValidator, Field, field_validator

from traube._core import inputs
from traube._core.config import Strict
from traube._core.errors import (
    LISTED,
    Conflict,
    Malformed,
    NotInstalled,
    TooFew,
    TooLarge,
    TraubeError,
    Unknown,
    first_line,
    install_hint,
    join_words,
    unknown,
)
from traube._core.inputs import is_file, parse_json, read_bytes
from traube.tasks._sniffing import (
    Dialect,
    RowError,
    detect_dialect,
    find_header,
    find_separator,
    lacks_header,
    rank_encodings,
)

KINDS = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "txt": "txt"}
TEXT_FORMATS = tuple(KINDS)
BINARY_FORMATS = ("xlsx", "xls", "parquet")
PACKED = ("zip", "bz2", "xz", "zst", "7z")
FORMATS = f"{', '.join(TEXT_FORMATS)} (these also .gz), {', '.join(BINARY_FORMATS[:-1])} or {BINARY_FORMATS[-1]}"
UTF_8 = "utf-8"

BATCH = 1_000  # rows of a parquet file that are unpacked at once: a few bytes may stand for the same long text in each
MOST_COLUMNS, MOST_ROWS_OF_EXCEL = 2**14, 2**20  # Excel's own limits
CELL, ROW = 8, 128  # bytes of memory that an empty cell takes, and the place of a row
EMPTY = 2**28  # bytes that the empty cells of any table may take
LFS = "version https://git-lfs.github.com/spec/"
NAMED = 5  # rows that are left out, of which a warning names the lines
logger = logging.getLogger(__name__)


_NAMED = {
    "tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "none": "", "double": '"', "single": "'",
}  # fmt: skip


def _spell(value: Any) -> Any:
    """Return a character that is given by its name."""
    return _NAMED.get(value, value) if isinstance(value, str) else value


class TableFormat(Strict):
    """Settings of a table's file that somebody states; the others are found in the file."""

    separator: Annotated[str | None, BeforeValidator(_spell)] = Field(
        None,
        min_length=1,
        max_length=1,
        description="between the fields of a table; tab, comma, semicolon, pipe and space may be named",
    )
    quote: Annotated[str | None, BeforeValidator(_spell)] = Field(
        None, max_length=1, description="around fields that hold separators; `none` if quotes are characters"
    )
    header: bool | None = Field(None, description="whether the first row names the columns")
    encoding: str | None = Field(None, description="of a text file, by Python's names")
    sheet: str | int | None = Field(None, description="of a spreadsheet: its name, or its number from 1 on")

    @property
    def describes_table(self) -> bool:
        """True if something is said that lines of text do not have."""
        return any(value is not None for value in (self.separator, self.quote, self.header))

    @field_validator("separator", "quote")
    @classmethod
    def _separates(cls, value: str | None) -> str | None:
        if value and (value in "\r\n\0\\" or value.isalnum()):
            raise ValueError(f"{value!r} is part of texts")
        return value


def find_file(path: Path) -> Path:
    """Return the file, or the same with `.gz` if only that exists."""
    gzipped = path.with_name(f"{path.name}.gz")
    return gzipped if is_file(gzipped) and not is_file(path) else path


def read_text(path: Path, encoding: str = UTF_8) -> str:
    """Return the contents of a text file that is not empty, without a byte order mark."""
    text = read_any_text(path, encoding=encoding)
    if not text.strip():
        raise TooFew(f"{path}: the file is empty")
    return text


def read_any_text(path: Path, most: int | None = None, encoding: str = UTF_8) -> str:
    """Return the contents of a file that may be empty, as `read_text` does; at most `most` bytes."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8-sig" if encoding == UTF_8 else encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x}"
        name = "UTF-8" if encoding == UTF_8 else encoding
        raise Malformed(f"{path}:{line}: {byte} is not {name}; save the file as UTF-8") from None
    except (LookupError, ValueError):
        raise Unknown(f"{path}: unknown encoding '{encoding}'; Python's names are meant, like cp1252") from None


def detect_encoding(path: Path) -> str:
    """Return the encoding of a text file: UTF-8, UTF-16 with a byte order mark, or the likeliest.

    Raises
    ------
    TraubeError
        If it is none, as of a binary file.
    """
    return _detect_encodings(path)[0]


def _detect_encodings(path: Path) -> list[str]:
    """Return the encoding of a text file, and those that are about as likely."""
    data = read_bytes(path)
    try:
        data.decode(UTF_8)
        return [UTF_8]
    except UnicodeDecodeError as error:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return ["utf-16"]
        if encodings := rank_encodings(data):
            return encodings
        line = data.count(b"\n", 0, error.start) + 1
        raise Malformed(f"{path}:{line}: no text in UTF-8 or another usual encoding; save it as UTF-8") from None


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, which line feeds end; where there is none, carriage returns do.

    Texts may hold the other separators that Unicode knows.
    """
    return _split_lines(read_text(path))


def _split_lines(text: str) -> list[str]:
    text = text.replace("\r\n", "\n")
    text = text if "\n" in text else text.replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def read_csv(
    path: Path, *, separator: str = ",", quote: str = '"', width: int | None = None, encoding: str = UTF_8
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file except blank ones, with the line at which each begins.

    Each row is as wide as the first, or has `width` fields.
    """
    for line, row in _read_fields(path, read_text(path, encoding), Dialect(separator, quote)):
        width = width or len(row)
        if len(row) != width:
            raise Malformed(f"{path}:{line}: {len(row)} fields instead of {width}")
        yield line, row


def _read_fields(path: Path, text: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    try:
        yield from dialect.read(text)
    except RowError as error:
        raise Malformed(f"{path}:{error.line}: {error}, in the row that begins here") from None


@dataclass(frozen=True)
class Rows:
    """A table as it was read, before any conversion."""

    path: Path
    columns: dict[str, list[Any]]  # the values of each column; None where there is none
    places: list[str]  # the line at which each row begins, or its number where the file has no lines
    notes: tuple[str, ...] = ()  # for people: how the file was read, where that is unusual
    encoding: str = UTF_8

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str, where: str = "") -> list[Any]:
        """Return the values of a column; `where` says in errors what asks for it, by default the file."""
        if name not in self.columns:
            more = ", ..." if len(self.columns) > LISTED else ""
            there = f" (columns of {self.path.name}: {', '.join([*self.columns][:LISTED])}{more})" if where else ""
            raise Unknown(f"{where or self.path}: {unknown('column', name, self.columns)}{there}")
        return self.columns[name]

    def require_rows(self) -> None:
        """Refuse a table without rows."""
        if not self.places:
            raise TooFew(f"{self.path}: there are no rows")

    def leave_out(self, faulty: Sequence[bool], fault: str) -> "Rows":
        """Return the table without some rows, and warn of them.

        Raises
        ------
        TraubeError
            If they are more than half of the rows.
        """
        out = [place for place, is_faulty in zip(self.places, faulty, strict=True) if is_faulty]
        if not out:
            return self
        places = ", ".join([_shorten(place, self.path) for place in out[:NAMED]] + ["..."] * (len(out) > NAMED))
        problem = f"{self.path}: {len(out):,} of {len(self):,} rows are {fault} ({places})"
        if 2 * len(out) > len(self):
            raise Malformed(f"{problem}: fill them in, or name other columns")
        logger.warning("%s: left out", problem)
        kept = [not is_faulty for is_faulty in faulty]
        columns = {name: list(compress(values, kept)) for name, values in self.columns.items()}
        return replace(self, columns=columns, places=list(compress(self.places, kept)))

    def texts(self, name: str, where: str = "") -> list[str | None]:
        """Return the values of a column as texts, None where there is none; as `column`."""
        return [as_text(value, place, name) for value, place in zip(self.column(name, where), self.places, strict=True)]


def format_of(path: Path) -> str:
    """Return the format that a file's name says: csv, tsv, jsonl, json, txt, xlsx, xls or parquet."""
    *_, before, last = ["", "", *(suffix.lower().lstrip(".") for suffix in path.suffixes)]
    if last in PACKED:
        raise Malformed(f"{path}: is packed; unpack it first, or pack the table as .gz")
    kind = KINDS.get(before if last == "gz" else last) or (last if last in BINARY_FORMATS else None)
    if kind is None:
        raise Malformed(f"{path}: unknown format; expected {FORMATS}")
    return kind


def read_rows(path: Path, form: TableFormat | None = None) -> Rows:
    """Read a table with named columns; the lines of a .txt, but blank ones, are the column `text` of one.

    Parameters
    ----------
    path : Path
        A file of one of `FORMATS`; of a spreadsheet, its first sheet that holds a table.
    form : TableFormat, optional
        What is known of how it is written. The rest is found by evidence over all rows.
    """
    form = form or TableFormat()
    inputs.check_file(path)
    kind = format_of(path)
    _refuse_useless(path, kind, form)
    if kind == "parquet":
        return _read_parquet(path)
    if kind in BINARY_FORMATS:
        return _read_excel(path, kind, form)
    encoding, *others = [form.encoding] if form.encoding else _detect_encodings(path)
    text = read_text(path, encoding)
    if text.startswith(LFS):
        raise Malformed(f"{path}: is a pointer of Git LFS, not the file itself: git lfs pull")
    separator = find_separator(text) if kind == "txt" else None
    if separator is not None or (kind == "txt" and form.describes_table):
        form = form.model_copy(update={"separator": form.separator or separator})
        kind = "csv"
    match kind:
        case "csv" | "tsv":
            rows = _read_table(path, text, kind, form)
        case "txt":
            lines = _number_lines(path, text)
            rows = Rows(path, {"text": list(lines.values())}, list(lines))
        case _:
            rows = _read_json(path, text, kind)
    likely = f" or {join_words(others)}, as likely: --encoding says which" if others else ""
    notes = [] if encoding == UTF_8 else [f"encoding {encoding}{likely}"]
    return replace(rows, notes=(*notes, *rows.notes), encoding=encoding)


def _refuse_useless(path: Path, kind: str, form: TableFormat) -> None:
    """Refuse what is said of a file in whose format it means nothing."""
    text, table = ("encoding",), ("separator", "quote", "header")
    of = {"parquet": (), "xlsx": ("header", "sheet"), "xls": ("header", "sheet"), "json": text, "jsonl": text}
    allowed = of.get(kind, (*text, *table))
    given = {name: getattr(form, name) for name in TableFormat.model_fields}
    useless = [name for name, value in given.items() if value is not None and name not in allowed]
    if useless:
        raise Conflict(f"{path}: a .{kind} file has no {join_words(useless)}: leave that out")


def _number_lines(path: Path, text: str) -> dict[str, str]:
    """Return the lines that are not blank, by their places."""
    return {f"{path}:{number}": line for number, line in enumerate(_split_lines(text), start=1) if line.strip()}


def _check_width(columns: int, place: str) -> None:
    if columns > MOST_COLUMNS:
        raise TooLarge(f"{place}: {columns:,} columns; a table has at most {MOST_COLUMNS:,}")


def _tell_apart(names: Sequence[str], place: str) -> tuple[list[str], list[str]]:
    """Return the names of columns, each once: a second one of a name is `name.1`, as in pandas; and notes of that.

    Raises
    ------
    TraubeError
        If there are more columns than spreadsheets have.
    """
    _check_width(len(names), place)
    given, taken, columns = {*names}, set[str](), list[str]()
    for name in names:
        numbered = (f"{name}.{i}" for i in range(1, len(names)))
        is_new = name == "" or name not in taken
        columns.append(name if is_new else next(one for one in numbered if one not in given and one not in taken))
        taken.add(columns[-1])
    again = [column for name, column in zip(names, columns, strict=True) if name != column]
    return columns, [f"columns of one name: the second is '{again[0]}'"] if again else []


def _refuse_sparse(path: Path, rows: int, columns: int) -> None:
    """Refuse a table whose empty cells would take many times the memory that the file's size lets expect."""
    if CELL * rows * columns > max(EMPTY, inputs.UNPACKED * inputs.check_file(path).st_size):
        size = f"{rows:,} rows and {columns:,} columns"
        raise TooLarge(f"{path}: {size}, nearly all of whose cells are empty: leave out columns that few rows have")


def _read_table(path: Path, text: str, kind: str, form: TableFormat) -> Rows:
    """Return the table of a CSV file, which may begin with Excel's line `sep=;`."""
    usual = "\t" if kind == "tsv" else ","
    stated = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    above, text = (1, text[stated.end() :]) if stated else (0, text)
    dialect = detect_dialect(text, usual, form.separator or (stated[1] if stated else None), form.quote)
    places: list[str] = []
    rows: list[list[Any]] = []
    for line, row in _read_fields(path, text, dialect):
        places.append(f"{path}:{line + above}")
        rows.append(row)
        _check_width(len(row), places[-1])
        if len(row) != len(rows[0]):
            fields = f"{len(row)} field{'' if len(row) == 1 else 's'} instead of {len(rows[0])}"
            how = dialect.describe("")
            raise Malformed(
                f"{places[-1]}: {fields} ({', '.join(how)}); if it is written otherwise: --separator, --quote"
            )
    has_separator = bool(rows) and len(rows[0]) > 1
    notes = dialect.describe(usual if has_separator else dialect.separator)
    return _name_columns(path, places, rows, form, notes)


def _name_columns(path: Path, places: list[str], rows: list[list[Any]], form: TableFormat, notes: list[str]) -> Rows:
    """Return the table of rows, one of which is the header unless there is none; columns that it leaves blank are none."""
    if not rows:
        raise TooFew(f"{path}: there are no rows")
    if form.header is False or (form.header is None and lacks_header(rows)):
        names = {i: f"column_{i + 1}" for i in range(max(map(len, rows)))}
        notes = [*notes, f"no header: columns {', '.join([*names.values()][:2])}, ..."]
        _check_width(len(names), places[0])
    else:
        header = find_header(rows)
        named = {i: str(value) for i, value in enumerate(rows[header]) if value is not None}
        apart, renamed = _tell_apart([*named.values()], places[header])
        names = dict(zip(named, apart, strict=True))
        notes = [*notes, *([f"header at {_shorten(places[header], path)}"] if header else []), *renamed]
        places, rows = places[header + 1 :], rows[header + 1 :]
    _refuse_sparse(path, len(rows), len(names))
    columns = {name: [row[i] if i < len(row) and row[i] != "" else None for row in rows] for i, name in names.items()}
    return Rows(path, columns, places, tuple(notes))


def _shorten(place: str, path: Path) -> str:
    """Return the line or row of a place, without its file."""
    place = place.removeprefix(str(path)).strip(": ")
    return f"line {place}" if place.isdecimal() else place


def _parse_json(text: str, place: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        fault = f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
        raise Malformed(f"{place}: not JSON: {fault}") from None


def _read_json(path: Path, text: str, kind: str) -> Rows:
    """Return the table of objects, a line each, or of one list or object, whatever the file is called."""
    lines = _number_lines(path, text)
    has_lines = _holds_object(next(iter(lines.values()))) and (len(lines) > 1 or kind == "jsonl")
    if not has_lines:
        with suppress(TraubeError) if kind == "jsonl" else nullcontext():  # else the error names the line
            return _from_document(path, _parse_json(text, str(path)))
    return _from_objects(path, ((place, _parse_json(line, place)) for place, line in lines.items()))


def _holds_object(line: str) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


def _from_document(path: Path, value: Any) -> Rows:
    rows = _find_rows(value) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        expected = "expected a list [...] of objects or texts, lines of objects, or an object of columns"
        raise Malformed(f"{path}: {expected}, not {type(value).__name__}")
    objects = ({"text": row} if isinstance(row, str) else row for row in rows)
    return _from_objects(path, ((f"{path}: element {i}", row) for i, row in enumerate(objects)))


def _find_rows(value: dict[str, Any]) -> list[Any] | None:
    """Return the rows in an object: its only list of objects, its columns, or objects by number, as pandas writes them."""
    members = [*value.values()]
    tables = [one for one in members if isinstance(one, list) and one and all(isinstance(row, dict) for row in one)]
    if len(tables) == 1:
        return tables[0]
    if members and all(isinstance(one, dict) and one.keys() == members[0].keys() for one in members):
        is_by_row, is_by_column = (all(map(str.isdecimal, names)) for names in (value, members[0]))
        if is_by_row != is_by_column:
            return members if is_by_row else [{name: value[name][key] for name in value} for key in members[0]]
    if members and all(isinstance(one, list) and len(one) == len(members[0]) for one in members):
        rows = [dict(zip(value, row, strict=True)) for row in zip(*members, strict=True)]
        return None if any(isinstance(cell, list | dict) for row in rows for cell in row.values()) else rows
    return None


def _from_objects(path: Path, objects: Iterable[tuple[str, Any]]) -> Rows:
    places, rows = [], []
    for place, row in objects:
        if not isinstance(row, dict):
            raise Malformed(f"{place}: expected an object {{...}}, not {type(row).__name__}")
        places.append(place)
        rows.append(dict(_flatten(row)))
    names = list(dict.fromkeys(name for row in rows for name in row))
    _check_width(len(names), str(path))
    _refuse_sparse(path, len(rows), len(names))
    return Rows(path, {name: [row.get(name) for row in rows] for name in names}, places)


def _flatten(row: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of an object, those of objects in it as `outer.inner`."""
    for name, value in row.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _read_excel(path: Path, kind: str, form: TableFormat) -> Rows:
    """Return a sheet of a spreadsheet, by what its cells hold, whatever it says of its size."""
    try:
        sheets = (_open_xlsx if kind == "xlsx" else _open_xls)(path)
        names = [name for name, _ in sheets]
        if form.sheet is not None:
            sheets = [sheets[_find_sheet(path, names, form.sheet)]]
        read = ((sheet, *_read_sheet(path, cells)) for sheet, cells in sheets)
        first = next(read)
        # the first that holds a table
        sheet, places, filled = first if len(first[2]) > 1 else next((one for one in read if len(one[2]) > 1), first)
    except TraubeError:
        raise
    except ImportError as error:
        raise NotInstalled(f"{path}: Excel files need {error.name}: {install_hint('excel', 'setup')}") from None
    except Exception as error:  # the parsers pass on errors of their own
        raise Malformed(f"{path}: not a readable .{kind} file ({first_line(error)})") from None
    if not filled:
        raise TooFew(f"{path}: sheet '{sheet}' is empty{_list_sheets(names)}")
    notes = [f"sheet '{sheet}'{_list_sheets(names)}"] if len(names) > 1 else []
    return _name_columns(path, places, filled, form, notes)


def _read_sheet(path: Path, rows: Iterable[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Return the places and the values of the rows of a sheet that are not empty."""
    places, filled, cells = [], [], 0
    for number, values in enumerate(rows, start=1):
        if number > MOST_ROWS_OF_EXCEL:  # a file may say any number of a row, and the rows before it are all given
            raise TooLarge(f"{path}: more than {MOST_ROWS_OF_EXCEL:,} rows")
        cells += len(values)
        _refuse_sparse(path, number, cells // number)
        if any(value not in (None, "") for value in values):
            places.append(f"{path}: row {number}")
            filled.append([_as_date(value) for value in values])
    return places, filled


def _list_sheets(names: Sequence[str]) -> str:
    return f" (of {join_words(names[:LISTED])}: --sheet says which)" if len(names) > 1 else ""


def _open_xlsx(path: Path) -> list[tuple[str, Iterable[Sequence[Any]]]]:
    """Return the names and the rows of the sheets; these are read when they are needed."""
    from openpyxl import load_workbook

    with zipfile.ZipFile(path) as archive:
        inputs.refuse_bomb(path, sum(entry.file_size for entry in archive.infolist()))
    sheets = load_workbook(path, read_only=True, data_only=True).worksheets
    for sheet in sheets:
        sheet.reset_dimensions()
    return [(sheet.title, sheet.values) for sheet in sheets]


def _open_xls(path: Path) -> list[tuple[str, Iterable[Sequence[Any]]]]:
    """Return the same of a file of Excel until 2003."""
    import xlrd  # type: ignore[import-untyped]

    book = xlrd.open_workbook(file_contents=read_bytes(path), logfile=io.StringIO(), ragged_rows=True)

    def read(sheet: Any) -> Iterator[list[Any]]:
        for row in sheet.get_rows():
            is_date = [cell.ctype == xlrd.XL_CELL_DATE for cell in row]
            yield [
                xlrd.xldate_as_datetime(cell.value, book.datemode) if date else cell.value
                for cell, date in zip(row, is_date, strict=True)
            ]

    return [(sheet.name, read(sheet)) for sheet in book.sheets()]


def _find_sheet(path: Path, names: Sequence[str], wanted: str | int) -> int:
    """Return the index of the sheet with a name, or with a number from 1 on."""
    if str(wanted) in names:
        return names.index(str(wanted))
    if str(wanted).isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    raise Unknown(f"{path}: {unknown('sheet', str(wanted), names)}")


def _as_date(value: Any) -> Any:
    """Return the day of a time that is midnight, as spreadsheets keep dates; all else is as it was."""
    return value.date() if isinstance(value, datetime) and value.time() == time() else value


def _read_parquet(path: Path) -> Rows:
    try:
        with pq.ParquetFile(path) as file:
            names, notes = _tell_apart(file.schema_arrow.names, str(path))
            batches, size = [], 0
            for batch in file.iter_batches(BATCH):
                # a dictionary's values are counted in each row, as they are when they are read
                arrays = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
                batches.append(pa.RecordBatch.from_arrays(arrays, names))
                size += batches[-1].nbytes + batch.num_rows * (CELL * batch.num_columns + ROW)
                if size > inputs.LARGEST:
                    raise inputs.too_large(path, inputs.LARGEST)
            table = (pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()).rename_columns(
                names
            )
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except TraubeError:
        raise
    except Exception as error:  # Arrow raises many kinds: for unreadable files, and for values that Python cannot hold
        raise Malformed(f"{path}: not a readable parquet file ({first_line(error)})") from None
    return Rows(path, columns, [f"{path}: row {i}" for i in range(table.num_rows)], tuple(notes))


def as_text(value: Any, place: str, column: str) -> str | None:
    """Return a value as text; None for null, NaN and the empty string.

    A whole number loses the `.0` that nulls give it.
    """
    if value is None or value == "" or value != value:
        return None
    if isinstance(value, bytes):  # as some programs write text to parquet
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"{place}: column '{column}' holds bytes that are not UTF-8 text") from None
    if isinstance(value, list | dict):
        raise Malformed(f"{place}: column '{column}' holds a {type(value).__name__}, not a single value")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).encode("utf-8", "replace").decode()  # JSON can hold half a surrogate pair, which no file can


def as_score(text: str, place: str) -> float:
    """Return a score as a number."""
    try:
        return float(text)
    except ValueError:
        raise Malformed(f"{place}: '{text[:30]}' is no score") from None


def as_cell(value: Any) -> Any:
    """Return a value as a CSV file can hold it: lists and maps as JSON; all else is as it was."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
