"""Documents: what is stored under a kind and a key, a class for each kind."""

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from traube._core.errors import Corrupt
from traube._storage.rows import DocumentRow


class Document(BaseModel):
    """A document; a subclass for each kind, whose own fields are its content."""

    model_config = ConfigDict(frozen=True)
    kind: ClassVar[str]  # under which its rows stand
    key: str
    cells: tuple[str, ...] = ()  # ids of cells that are never removed while the document is there
    files: Mapping[str, str] = {}  # its blobs by name, once it is stored

    def to_row(self) -> DocumentRow:
        """Return the row of the table `document`, without what the storage adds."""
        content = self.model_dump(mode="json", exclude=set(Document.model_fields))
        return DocumentRow(kind=self.kind, key=self.key, content=content, cells=self.cells)

    @classmethod
    def from_row(cls, row: DocumentRow) -> Self:
        """Return the document of a row.

        Raises
        ------
        Corrupt
            If the content is not of this kind: blobs may be somebody else's, or of another version.
        """
        row_fields = {"key": row.key, "cells": row.cells, "files": row.files}
        try:
            return cls.model_validate({**(row.content or {}), **row_fields})
        except (ValidationError, TypeError) as error:
            faults = (
                error.errors() if isinstance(error, ValidationError) else [{"loc": ("content",), "msg": str(error)}]
            )
            where = ".".join(map(str, faults[0]["loc"]))
            raise Corrupt(f"{cls.kind} '{row.key}': {where}: {faults[0]['msg']}") from None
