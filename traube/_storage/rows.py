"""Rows of the catalog, a class for each table that is made of entries."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class CatalogRow:
    """A row. A subclass has the columns that somebody gives; the storage fills these where they are not given."""

    table: ClassVar[str]
    created: str = ""  # UTC, in ISO 8601
    files: Mapping[str, str] = field(default_factory=dict)  # blobs by name
    revision: int = 0
    blob: str = ""  # of the entry

    @classmethod
    def list_required(cls) -> list[str]:
        """Return the columns without which no row can be read."""
        return [each.name for each in fields(cls) if each.default is each.default_factory is MISSING]

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> Self:
        """Return the row of values by column."""
        return cls(**{each.name: values[each.name] for each in fields(cls) if values.get(each.name) is not None})

    def to_columns(self) -> dict[str, Any]:
        """Return the values by column that an entry holds, where there are any."""
        added = {"created": self.created or None, "files": self.files or None, "revision": None, "blob": None}
        return {name: value for name, value in {**vars(self), **added}.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class TaskRow(CatalogRow):
    """A version of a task's data; its files are tables."""

    table: ClassVar[str] = "task"
    name: str
    data_version: str
    type: str
    state: str  # ingested, checked or blocked
    versions: Mapping[str, Any]
    card: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class CheckRow(CatalogRow):
    """The outcome of a check of a version of a task's table."""

    table: ClassVar[str] = "check"
    task: str
    data_version: str
    name: str  # <table>/<check>
    passed: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointRow(CatalogRow):
    """A checkpoint; its files are those of the folder."""

    table: ClassVar[str] = "model"
    name: str
    content: str  # hash of the files
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CellRow(CatalogRow):
    """The record of a cell."""

    table: ClassVar[str] = "cell"
    cell_id: str
    task: str
    family: str = ""
    model: str
    fingerprint: str
    precision: str = ""
    reducer: str
    clusterer: str
    protocol: str
    split_set: str
    data_version: str
    code_version: str = ""
    scoring_version: str = ""
    device: str = ""  # where the model's vectors were computed
    run_id: str = ""  # the run that requested the cell
    status: str  # one of STATUSES
    reason: str = ""  # why there are no scores
    params: Mapping[str, Any]  # of the method
    numerics: Mapping[str, Mapping[str, str]]  # code and libraries, with versions, by stage
    library_versions: Mapping[str, str]
    seconds: float = 0.0  # the clusterings' time, without the reductions that cells share
    memory: float | None = None  # megabytes
    total_seconds: float | None = None  # with the reductions
    seed: int | None = None
    clusters: int | None = None  # the card's number
    texts: int | None = None


@dataclass(frozen=True, kw_only=True)
class ArtifactRow(CatalogRow):
    """Something computed that is found by kind and key, such as a matrix."""

    table: ClassVar[str] = "artifact"
    kind: str
    key: str
    bytes: int = 0
    texts: int | None = None
    seconds: float | None = None  # what it took, where that was measured
    memory: float | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingRow(CatalogRow):
    """A block of a model's embeddings."""

    table: ClassVar[str] = "embedding"
    fingerprint: str
    numerics: str
    block: str
    texts: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class DocumentRow(CatalogRow):
    """A document, as `Document` writes and reads it."""

    table: ClassVar[str] = "document"
    kind: str
    key: str
    content: Any = None
    cells: Sequence[str] = ()


ROW_CLASSES = {row_class.table: row_class for row_class in CatalogRow.__subclasses__()}
