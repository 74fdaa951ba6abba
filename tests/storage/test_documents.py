"""Documents are read as what they were stored as; what is none of Traube's is refused by name."""

from typing import Any, ClassVar

import pytest

from tests.errors import refused
from tests.storage.made import save_cell
from traube._core.errors import Corrupt
from traube._core.measure import Cost
from traube._storage import CellRow, Document, DocumentRow, Storage
from traube._storage.costs import EncodingCost, read_costs, save_cost


class Note(Document):
    """A document of two fields."""

    kind: ClassVar[str] = "note"
    text: str
    number: int = 0


def test_a_document_is_read_as_it_was_stored_and_keeps_its_cells(storage: Storage) -> None:
    cell = save_cell(storage, 1)
    for key in ("b", "a"):
        storage.save_document(Note(key=key, cells=(cell,), text="words", number=7), {"x": b"bytes"})
    first, second = storage.read_documents(Note)
    assert (first.key, second.key) == ("a", "b")
    assert (first.text, first.number, first.cells) == ("words", 7, (cell,))
    assert storage.get_path(first.files["x"]).read_bytes() == b"bytes"
    assert storage.get_document(Note, "b") == second and storage.get_document(Note, "c") is None
    assert storage.remove(storage.read_rows(CellRow)) == 0
    for document in (first, second):
        storage.remove_document(document)
    assert storage.read_documents(Note) == []
    assert storage.remove(storage.read_rows(CellRow)) == 1


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"text": "words"}, None),
        ({"text": "words", "key": "another", "files": {"x": "y"}, "of another version": 1}, None),
        (None, ("k", "text")),
        ({"text": "words", "number": "seven"}, ("k", "number")),
        ("words", ("k", "content")),
    ],
)
def test_content_of_another_form_is_refused_by_name(
    storage: Storage, content: Any, names: tuple[str, ...] | None
) -> None:
    storage.save(DocumentRow(kind="note", key="k", content=content))
    if names is None:
        assert storage.read_documents(Note) == [Note(key="k", text="words")]
    else:
        with refused(Corrupt, "note", *names):
            storage.read_documents(Note)


def test_costs_of_earlier_versions_are_read(storage: Storage) -> None:
    """They left out what nothing was paid for, and kept memory that was not measured as null."""
    content = {"texts": 9, "seconds": 1, "memory": None}
    storage.save(DocumentRow(kind="cost", key="words/f", content=content))
    assert repr(read_costs(storage)) == "{('words', 'f'): Cost(texts=9, seconds=1.0, memory=nan, money=nan)}"
    save_cost(storage, "words", "f", Cost(8, 1.0, 2.0))  # of fewer texts
    assert storage.get_document(EncodingCost, "words/f") is not None and read_costs(storage)["words", "f"].texts == 9
    save_cost(storage, "words", "f", Cost(9, 3.0, 2.0, 0.5))
    assert read_costs(storage) == {("words", "f"): Cost(9, 3.0, 2.0, 0.5)}
