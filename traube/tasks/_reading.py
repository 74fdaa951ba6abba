"""Raw files, plain or gzipped, read with errors that name the file and the line."""

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from traube._core import inputs
from traube._core.errors import LISTED, TraubeError, first_line, install_hint, unknown
from traube._core.inputs import is_file, parse_json, read_bytes

TEXT_FORMATS = ("csv", "tsv", "jsonl", "json", "txt")
FORMATS = f"{', '.join(TEXT_FORMATS)} (these also .gz), xlsx or parquet"
UTF_8 = "utf-8"
# What spreadsheets and editors write besides, the most usual first: where several explain a file equally well, the first
# is meant. Of all that Python knows, many more would fit any few letters.
ENCODINGS = [
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256", "cp932", "euc_jp", "gb18030", "big5",
    "euc_kr",
]  # fmt: skip
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}

BATCH = 1_000  # rows of a parquet file that are unpacked at once: a few bytes may stand for the same long text in each
MOST_COLUMNS, MOST_ROWS_OF_EXCEL = 2**14, 2**20  # Excel's own limits
CELL, ROW = 8, 128  # bytes of memory that an empty cell takes, and the place of a row
EMPTY = 2**28  # bytes that the empty cells of any table may take

csv.field_size_limit(2**31 - 1)  # a text may be longer than the 128 KiB that the module allows


def find_file(path: Path) -> Path:
    """Return the file, or the same with `.gz` if only that exists."""
    gzipped = path.with_name(f"{path.name}.gz")
    return gzipped if is_file(gzipped) and not is_file(path) else path


def read_text(path: Path, encoding: str = UTF_8) -> str:
    """Return the contents of a text file that is not empty, without a byte order mark."""
    text = read_any_text(path, encoding=encoding)
    if not text.strip():
        raise TraubeError(f"{path}: the file is empty")
    return text


def read_any_text(path: Path, most: int | None = None, encoding: str = UTF_8) -> str:
    """Return the contents of a file that may be empty, as `read_text` does; at most `most` bytes."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8-sig" if encoding == UTF_8 else encoding).removeprefix("\ufeff")
    except LookupError:
        raise TraubeError(f"{path}: unknown encoding '{encoding}'; Python's names are meant, like cp1252") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x}"
        name = "UTF-8" if encoding == UTF_8 else encoding
        raise TraubeError(f"{path}:{line}: {byte} is not {name}; save the file as UTF-8") from None


def detect_encoding(path: Path) -> str:
    """Return the encoding of a text file: UTF-8, UTF-16 with a byte order mark, or the likeliest of `ENCODINGS`.

    Raises
    ------
    TraubeError
        If it is none of them, as a binary file.
    """
    data = read_bytes(path)
    try:
        data.decode(UTF_8)
        return UTF_8
    except UnicodeDecodeError as error:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        from charset_normalizer import from_bytes

        found = list(from_bytes(data, cp_isolation=ENCODINGS))
        if not found or b"\0" in data:
            line = data.count(b"\n", 0, error.start) + 1
            raise TraubeError(f"{path}:{line}: no text in UTF-8 or another usual encoding; save it as UTF-8") from None
        equal = [one for one in found if (one.chaos, one.coherence) == (found[0].chaos, found[0].coherence)]
        return min({name for one in equal for name in one.could_be_from_charset} & {*ENCODINGS}, key=ENCODINGS.index)


def detect_separator(path: Path, encoding: str = UTF_8) -> str:
    """Return the separator of a CSV file's fields: the one most frequent in its header, outside of quotes."""
    header, _, _ = read_text(path, encoding).partition("\n")
    unquoted = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=unquoted.count)


def read_lines(path: Path, encoding: str = UTF_8) -> list[str]:
    """Return the lines of a text file.

    Only line feeds end a line: texts may hold the other separators that Unicode knows.
    """
    return read_text(path, encoding).removesuffix("\n").replace("\r\n", "\n").split("\n")


def read_csv(
    path: Path, *, separator: str = ",", quote: str = '"', width: int | None = None, encoding: str = UTF_8
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file except blank ones, with the line at which each begins.

    Each row is as wide as the first, or has `width` fields.
    """
    reader = csv.reader(
        io.StringIO(read_text(path, encoding), newline=""), delimiter=separator, quotechar=quote, strict=True
    )
    begin = 1
    try:
        for row in reader:
            width = width or len(row)
            if row and len(row) != width:
                raise TraubeError(f"{path}:{begin}: {len(row)} fields instead of {width}")
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise TraubeError(f"{path}:{begin}: {error}, in the row that begins here") from None


@dataclass(frozen=True)
class Rows:
    """A table as it was read, before any conversion."""

    path: Path
    columns: dict[str, list[Any]]  # the values of each column; None where there is none
    places: list[str]  # the line at which each row begins, or its number where the file has no lines

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str, where: str = "") -> list[Any]:
        """Return the values of a column; `where` says in errors what asks for it, by default the file."""
        if name not in self.columns:
            more = ", ..." if len(self.columns) > LISTED else ""
            there = f" (columns of {self.path.name}: {', '.join([*self.columns][:LISTED])}{more})" if where else ""
            raise TraubeError(f"{where or self.path}: {unknown('column', name, self.columns)}{there}")
        return self.columns[name]

    def require_rows(self) -> None:
        """Refuse a table without rows."""
        if not self.places:
            raise TraubeError(f"{self.path}: there are no rows")

    def texts(self, name: str, where: str = "") -> list[str | None]:
        """Return the values of a column as texts, None where there is none; as `column`."""
        return [as_text(value, place, name) for value, place in zip(self.column(name, where), self.places, strict=True)]


def format_of(path: Path) -> str:
    """Return the format that a file's name says, one of `FORMATS`."""
    suffixes = [s.lower().lstrip(".") for s in path.suffixes]
    packed = suffixes[-1:] == ["gz"]
    kind = suffixes[-2] if packed and len(suffixes) > 1 else "".join(suffixes[-1:])
    if kind == "xls":
        raise TraubeError(f"{path}: the format of Excel until 2003; save the file as .xlsx")
    if kind not in (TEXT_FORMATS if packed else (*TEXT_FORMATS, "xlsx", "parquet")):
        raise TraubeError(f"{path}: unknown format; expected {FORMATS}")
    return kind


def read_rows(path: Path, separator: str | None = None, encoding: str = UTF_8) -> Rows:
    """Read a table with named columns; the lines of a .txt, but blank ones, are the column `text` of one.

    Parameters
    ----------
    path : Path
        A file of one of `FORMATS`; of an .xlsx, its first sheet.
    separator : str, optional
        Separator of the fields of a CSV file; by default `detect_separator` says it, and in a .tsv it is a tab.
    encoding : str, default="utf-8"
        Of a text file; `detect_encoding` says it of one that is not in UTF-8.
    """
    inputs.check_file(path)
    match format_of(path):
        case "parquet":
            return _read_parquet(path)
        case "xlsx":
            return _read_excel(path)
        case "txt" | "jsonl" as kind:
            numbered = enumerate(read_lines(path, encoding), start=1)
            found = {f"{path}:{number}": line for number, line in numbered if line.strip()}
            if kind == "txt":
                return Rows(path, {"text": list(found.values())}, list(found))
            return _from_json(path, ((place, _parse_json(line, place)) for place, line in found.items()))
        case "json":
            values = _parse_json(read_text(path, encoding), str(path))
            if not isinstance(values, list):
                raise TraubeError(f"{path}: expected a list [...] of objects or texts, not {type(values).__name__}")
            rows = ({"text": value} if isinstance(value, str) else value for value in values)
            return _from_json(path, ((f"{path}: element {i}", row) for i, row in enumerate(rows)))
        case kind:
            usual = "\t" if kind == "tsv" else detect_separator(path, encoding)
            (line, header), *fields = read_csv(path, separator=separator or usual, encoding=encoding)
            return _from_fields(path, header, [(f"{path}:{n}", row) for n, row in fields], f"{path}:{line}")


def _check_columns(names: Sequence[str], place: str) -> None:
    """Refuse a header with more columns than spreadsheets have, or with one name twice."""
    if len(names) > MOST_COLUMNS:
        raise TraubeError(f"{place}: {len(names):,} columns; a table has at most {MOST_COLUMNS:,}")
    if twice := next((name for name, times in Counter(names).items() if name and times > 1), None):
        raise TraubeError(f"{place}: column '{twice}' occurs twice")


def _refuse_sparse(path: Path, rows: int, columns: int) -> None:
    """Refuse a table whose empty cells would take many times the memory that the file's size lets expect."""
    if CELL * rows * columns > max(EMPTY, inputs.UNPACKED * inputs.check_file(path).st_size):
        size = f"{rows:,} rows and {columns:,} columns"
        raise TraubeError(f"{path}: {size}, nearly all of whose cells are empty: leave out columns that few rows have")


def _from_fields(path: Path, header: list[str], rows: list[tuple[str, list[Any]]], place: str) -> Rows:
    """Return the table of a header and of rows with their places; `place` is the header's."""
    _check_columns(header, place)
    columns: dict[str, list[Any]] = {}
    for i, name in enumerate(header):
        columns[name] = [None if fields[i] == "" else fields[i] for _, fields in rows]
    return Rows(path, columns, [place for place, _ in rows])


def _parse_json(text: str, place: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        fault = f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
        raise TraubeError(f"{place}: not JSON: {fault}") from None


def _from_json(path: Path, found: Iterator[tuple[str, Any]]) -> Rows:
    places, rows = [], []
    for place, row in found:
        if not isinstance(row, dict):
            raise TraubeError(f"{place}: expected an object {{...}}, not {type(row).__name__}")
        places.append(place)
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    _check_columns(names, str(path))
    _refuse_sparse(path, len(rows), len(names))
    return Rows(path, {name: [row.get(name) for row in rows] for name in names}, places)


def _read_excel(path: Path) -> Rows:
    """Return the first sheet of a spreadsheet; its first row that is not empty names the columns."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise TraubeError(f"{path}: Excel files need openpyxl: {install_hint('excel', 'setup')}") from None

    try:
        with zipfile.ZipFile(path) as archive:
            inputs.refuse_bomb(path, sum(entry.file_size for entry in archive.infolist()))
        book = load_workbook(path, read_only=True, data_only=True)
        filled = _filled_rows(path, book.worksheets[0].values)
        book.close()
    except TraubeError:
        raise
    except Exception as error:  # openpyxl passes on its parsers' errors
        raise TraubeError(f"{path}: not a readable .xlsx file ({first_line(error)})") from None
    if not filled:
        raise TraubeError(f"{path}: the first sheet is empty")
    (place, header), *rows = filled
    return _from_fields(path, [str(name) for name in header], rows, place)


def _filled_rows(path: Path, sheet: Iterator[Sequence[Any]]) -> list[tuple[str, list[Any]]]:
    """Return the rows of a sheet that are not empty, and their places, cut to the columns that the first one names."""
    filled: list[tuple[str, list[Any]]] = []
    named: list[int] = []
    for number, values in enumerate(sheet, start=1):
        if number > MOST_ROWS_OF_EXCEL:  # a file may say any number of a row, and the rows before it are all given
            raise TraubeError(f"{path}: more than {MOST_ROWS_OF_EXCEL:,} rows")
        if all(value is None for value in values):
            continue
        named = named or [i for i, value in enumerate(values) if value is not None]
        filled.append((f"{path}: row {number}", [values[i] if i < len(values) else None for i in named]))
        if len(filled) % BATCH == 0:
            _refuse_sparse(path, len(filled), len(named))
    return filled


def _read_parquet(path: Path) -> Rows:
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(file.schema_arrow.names, str(path))
            batches, size = [], 0
            for batch in file.iter_batches(BATCH):
                # a dictionary's values are counted in each row, as they are when they are read
                arrays = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
                batches.append(pa.RecordBatch.from_arrays(arrays, batch.schema.names))
                size += batches[-1].nbytes + batch.num_rows * (CELL * batch.num_columns + ROW)
                if size > inputs.LARGEST:
                    raise inputs.too_large(path, inputs.LARGEST)
            table = pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except TraubeError:
        raise
    except Exception as error:  # Arrow raises many kinds: for unreadable files, and for values that Python cannot hold
        raise TraubeError(f"{path}: not a readable parquet file ({first_line(error)})") from None
    return Rows(path, columns, [f"{path}: row {i}" for i in range(table.num_rows)])


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
            raise TraubeError(f"{place}: column '{column}' holds bytes that are not UTF-8 text") from None
    if isinstance(value, list | dict):
        raise TraubeError(f"{place}: column '{column}' holds a {type(value).__name__}, not a single value")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).encode("utf-8", "replace").decode()  # JSON can hold half a surrogate pair, which no file can


def as_score(text: str, place: str) -> float:
    """Return a score as a number."""
    try:
        return float(text)
    except ValueError:
        raise TraubeError(f"{place}: '{text[:30]}' is no score") from None


def as_cell(value: Any) -> Any:
    """Return a value as a CSV file can hold it: lists and maps as JSON; all else is as it was."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
