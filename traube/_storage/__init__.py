"""The storage of results: immutable blobs are the truth, a database is the catalog of them.

Other rooms import what is listed here, and all modules.
"""

from traube._storage.documents import Document
from traube._storage.entries import Score, write_table
from traube._storage.leases import Lease
from traube._storage.rows import ArtifactRow, CellRow, CheckpointRow, CheckRow, DocumentRow, EmbeddingRow, TaskRow
from traube._storage.storage import Storage, open_storage

__all__ = [
    "ArtifactRow",
    "CellRow",
    "CheckRow",
    "CheckpointRow",
    "Document",
    "DocumentRow",
    "EmbeddingRow",
    "Lease",
    "Score",
    "Storage",
    "TaskRow",
    "open_storage",
    "write_table",
]
