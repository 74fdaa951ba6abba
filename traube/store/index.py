"""Many small files, read once: an index that is never the only copy.

It consists of parts, parquet files that are written once and never changed. A part holds the rows
of some hundred files and says what each file looked like when it was read (its stamp: time, size,
place). The rows of a file count as long as it still looks the same. Parts that are damaged or hold
mostly what no longer counts are removed; without any part, all is read anew.

What the rows mean is not known here: see `traube.store.cells` and `traube.store.scores`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from traube.foundation.errors import TraubeError
from traube.foundation.files import sealed
from traube.foundation.hashing import digest
from traube.foundation.seals import check_once, damaged

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Stamp = tuple[int, int, int]  # time, size, place
NAME = "name"  # the column that says which file a row is of
PART = 500  # files; so much is held in memory when a part is written
_looks: ContextVar[dict[Path, dict[str, Stamp]] | None] = ContextVar("looks", default=None)  # by folder and file
FEW = 100  # files that are read one by one at every reading, rather than written as a part


def stamps(folder: Path, suffix: str) -> dict[str, Stamp]:
    """The stamp of every file of a folder that ends with `suffix`, by its name without
    it; in order of names.
    """
    files = _look(folder, suffix)
    return {name.removesuffix(suffix): files[name] for name in sorted(files) if name.endswith(suffix)}


@contextmanager
def one_look() -> Iterator[None]:
    """Until it ends, stamps of a folder's files are taken once. For whoever asks a store many
    things at one moment; what is written meanwhile is not seen.
    """
    token = _looks.set({})
    try:
        yield
    finally:
        _looks.reset(token)


def _look(folder: Path, suffix: str) -> dict[str, Stamp]:
    looks = _looks.get()
    if looks is None:
        return _scan(folder, suffix)
    if folder not in looks:
        looks[folder] = _scan(folder, suffix="")
    return looks[folder]


def _scan(folder: Path, suffix: str) -> dict[str, Stamp]:
    files: dict[str, Stamp] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # removed meanwhile
                    files[entry.name] = _stamp(entry.stat())
    return files


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass(frozen=True)
class Part:
    """One file of an index.

    Attributes
    ----------
    stamps : of the files whose rows it holds, by name
    groups : what each row group holds, such as one metric's rows
    """

    path: Path
    file: "pq.ParquetFile"
    stamps: dict[str, Stamp]
    groups: list[str]

    @classmethod
    def open(cls, path: Path) -> "Part":
        import pyarrow.parquet as pq

        if not check_once(path):
            raise damaged(path, "it has no seal")
        file = pq.ParquetFile(path, page_checksum_verification=True)
        about = json.loads(file.schema_arrow.metadata[b"traube"])
        return cls(path, file, {name: (s[0], s[1], s[2]) for name, s in about["stamps"].items()}, about["groups"])

    def read(self, names: set[str], columns: Sequence[str], groups: Iterable[str] | None = None) -> pa.Table:
        """The rows of some files, of some groups or all."""
        wanted = None if groups is None else set(groups)
        numbers = [i for i, group in enumerate(self.groups) if wanted is None or group in wanted]
        table = self.file.read_row_groups(numbers, columns=[NAME, *columns])
        if names.issuperset(self.stamps):
            return table
        return table.filter(pc.is_in(table[NAME], pa.array(sorted(names), pa.string())))


@dataclass(frozen=True)
class Index:
    """The parts below a folder."""

    folder: Path

    @cached_property
    def parts(self) -> list[Part]:
        """Those that can be read; others are removed."""
        parts = []
        for path in sorted(self.folder.glob("*.parquet")):
            if path.name.startswith("."):
                continue
            try:
                parts.append(Part.open(path))
            except FileNotFoundError:  # removed meanwhile
                continue
            except Exception:  # whatever a damaged file raises
                _remove(path)
        return parts

    def read(
        self,
        present: Mapping[str, Stamp],
        columns: Sequence[str],
        groups: Iterable[str] | None = None,
        asked: Iterable[str] | None = None,
    ) -> tuple[list[pa.Table], set[str]]:
        """The rows that count.

        Parameters
        ----------
        present : what all files look like now, by name
        columns : besides the column `name`
        groups : by default all
        asked : names of files; by default all

        Returns
        -------
        tables, and the names of the files that are in them
        """
        wanted = set(present) if asked is None else set(asked)
        tables, covered = [], set[str]()
        for part in self.parts:
            counting = {name for name, stamp in part.stamps.items() if present.get(name) == stamp}
            names = (counting & wanted) - covered
            if 2 * len(counting) < len(part.stamps):
                _remove(part.path)
            elif names:
                try:
                    tables.append(part.read(names, columns, groups))
                except Exception:  # whatever a damaged file raises; its rows are read from where they come
                    _remove(part.path)
                    continue
                covered |= names
        return tables, covered

    def add(self, tables: Mapping[str, pa.Table], read: Mapping[str, Stamp]) -> None:
        """Write a part. Where the folder cannot be written, nothing is kept.

        Parameters
        ----------
        tables : rows with a column `name`, by group
        read : the stamps of all the files that the rows are of, from before they were read
        """
        path = self.folder / f"{digest([list(tables), dict(read)])}.parquet"
        about = json.dumps({"stamps": read, "groups": list(tables)})
        schema = next(iter(tables.values())).schema.with_metadata({"traube": about})
        with suppress(TraubeError), sealed(path) as temporary, _writer(temporary, schema) as writer:
            for table in tables.values():
                writer.write_table(table.cast(schema), row_group_size=max(1, len(table)))


def _writer(path: Path, schema: pa.Schema) -> "pq.ParquetWriter":
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema, write_page_checksum=True)


def _remove(path: Path) -> None:
    with suppress(OSError):  # another process was faster, or the folder is read-only
        path.unlink()
