"""Raw files, plain or gzipped, read with errors that name the file and the line."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from traube.core import inputs
from traube.core.errors import TraubeError, first_line, unknown
from traube.core.inputs import is_file, parse_json, read_bytes

FORMATS = "csv, tsv, jsonl (all three also .gz) or parquet"

BATCH = 1_000  # rows of a parquet file that are unpacked at once: a few bytes may stand for the same long text in each

csv.field_size_limit(2**31 - 1)  # a text may be longer than the 128 KiB that the module allows


def plain_or_gzipped(path: Path) -> Path:
    """The file, or the same with `.gz` if only that is there."""
    gzipped = path.with_name(f"{path.name}.gz")
    return gzipped if is_file(gzipped) and not is_file(path) else path


def read_text(path: Path) -> str:
    """The contents of a UTF-8 file, without a byte order mark."""
    text = read_any_text(path)
    if not text.strip():
        raise TraubeError(f"{path}: the file is empty")
    return text


def read_any_text(path: Path, most: int | None = None) -> str:
    """As `read_text`, of a file that may be empty, of at most `most` bytes."""
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x}"
        raise TraubeError(f"{path}:{line}: {byte} is not UTF-8; save the file as UTF-8") from None


def lines(path: Path) -> list[str]:
    """The lines of a text file. Only line feeds end a line: texts may hold the other separators that Unicode knows."""
    return read_text(path).removesuffix("\n").replace("\r\n", "\n").split("\n")


def csv_rows(
    path: Path, *, separator: str = ",", quote: str = '"', width: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file but blank ones, with the line at which each begins; as wide as the first, or `width` fields."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=separator, quotechar=quote, strict=True)
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
    """A table as it was read, before anything is made of it."""

    path: Path
    columns: dict[str, list[Any]]  # the values of each column; None where there is none
    places: list[str]  # the line at which each row begins, or its number where the file has no lines

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str, where: str = "") -> list[Any]:
        """Return the values of a column; `where` says in errors what asks for it, by default the file."""
        if name not in self.columns:
            there = f" (columns of {self.path.name}: {', '.join(self.columns)})" if where else ""
            raise TraubeError(f"{where or self.path}: {unknown('column', name, self.columns)}{there}")
        return self.columns[name]

    def texts(self, name: str, where: str = "") -> list[str | None]:
        """Return the values of a column as texts, None where there is none; as `column`."""
        return [as_text(value, place, name) for value, place in zip(self.column(name, where), self.places, strict=True)]


def format_of(path: Path) -> str:
    """csv, tsv, jsonl, parquet or txt, from the file's name."""
    suffixes = [s.lower().lstrip(".") for s in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == ["gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if kind not in ("csv", "tsv", "jsonl", "parquet", "txt"):
        raise TraubeError(f"{path}: unknown format; expected {FORMATS}; txt for `traube cluster`")
    return kind


def read_rows(path: Path, separator: str | None = None) -> Rows:
    """Read a table with named columns.

    Parameters
    ----------
    separator : what separates the fields; by default a tab in tsv, and in csv a comma, or a semicolon where the header
        has no comma, as German spreadsheets write it
    """
    kind = format_of(path)
    if kind == "txt":
        raise TraubeError(f"{path}: a text file has no columns; expected {FORMATS}")
    if kind == "parquet":
        return _read_parquet(path)

    if kind == "jsonl":
        return _read_json(path)
    if not separator and kind == "csv":
        first = lines(path)[0]
        separator = ";" if ";" in first and "," not in first else ","
    rows = csv_rows(path, separator=separator or "\t")
    line, header = next(rows)
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice:
        raise TraubeError(f"{path}:{line}: column '{twice}' occurs twice")
    table = list(rows)
    columns = {name: [fields[i] or None for _, fields in table] for i, name in enumerate(header)}
    return Rows(path, columns, [f"{path}:{number}" for number, _ in table])


def _read_json(path: Path) -> Rows:
    places, rows = [], []
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            fault = f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
            raise TraubeError(f"{path}:{number}: not JSON: {fault}") from None
        if not isinstance(row, dict):
            raise TraubeError(f"{path}:{number}: expected an object {{...}}, not {type(row).__name__}")
        places.append(f"{path}:{number}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return Rows(path, {name: [row.get(name) for row in rows] for name in names}, places)


def _read_parquet(path: Path) -> Rows:
    inputs.regular(path)
    try:
        with pq.ParquetFile(path) as file:
            batches, size = [], 0
            for batch in file.iter_batches(BATCH):
                # a dictionary's values are counted in each row, as they are when they are read
                arrays = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
                batches.append(pa.RecordBatch.from_arrays(arrays, batch.schema.names))
                size += batches[-1].nbytes
                if size > inputs.LARGEST:
                    most = inputs.in_words(inputs.LARGEST)
                    raise TraubeError(f"{path}: holds more than the {most} that are read of such a file")
            table = pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()
        twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
        if twice:
            raise TraubeError(f"{path}: column '{twice}' occurs twice")
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except TraubeError:
        raise
    except Exception as error:  # Arrow raises many kinds: what it cannot read, and what Python cannot hold
        raise TraubeError(f"{path}: not a readable parquet file ({first_line(error)})") from None
    return Rows(path, columns, [f"{path}: row {i}" for i in range(table.num_rows)])


def as_text(value: Any, place: str, column: str) -> str | None:
    """A value as text; None for null, NaN and the empty string. A whole number loses the `.0` that nulls give it."""
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
    """A value as a CSV file can hold it: lists and maps as JSON; all else is as it was."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
