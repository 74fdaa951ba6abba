"""Blob stores and databases that somebody else can write to: what of them is a path, a name or a card."""

import io
import json
import os
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from tests.errors import refused
from tests.storage.made import make_record, read_contents, save_cell, save_task
from traube._core.errors import Corrupt
from traube._storage import CellRow, DocumentRow, Storage
from traube._storage.backup import copy_results
from traube._storage.blobs import FolderBlobs, hash_content
from traube._storage.catalog import CELL, _encode, check_entry
from traube._storage.entries import _SCORE_SCHEMA, Entry, _write_parquet
from traube.tasks.stored import get_card

TASK = {"name": "fruit", "data_version": "d1", "type": "clustering", "state": "checked", "versions": {}, "card": {}}
TASK |= {"files": {}, "revision": 9, "created": "2026-01-01"}


def pack(about: Any, packed: int = zipfile.ZIP_STORED) -> bytes:
    """Return an entry as somebody else may write it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("entry.json"), json.dumps(about), packed)
    return content.getvalue()


def make_entry(table: str = "task", details: Any = None, **changed: Any) -> dict[str, Any]:
    return {"table": table, "row": {**TASK, **changed}, "details": {} if details is None else details}


HOSTILE: dict[str, Any] = {
    "no table": make_entry("sqlite_master"),
    "no object": [1],
    "no row": {"table": "task", "row": "x", "details": {}},
    "name up": make_entry(name="../../evil"),
    "name absolute": make_entry(name="/etc/evil"),
    "name hidden": make_entry(name=".bashrc"),
    "name with an escape": make_entry(name="a\x1b[31m"),
    "name a list": make_entry(name=["fruit"]),
    "version up": make_entry(data_version="../d"),
    "no key": make_entry(data_version=None),
    "revision a text": make_entry(revision="9"),
    "revision too large": make_entry(revision=2**70),
    "file up": make_entry(files={"corpus": "../../../../etc/passwd"}),
    "file a number": make_entry(files={"corpus": 1}),
    "files a list": make_entry(files=["x"]),
    "splits a text": make_entry(details={"splits": "x"}),
    "split without a position": make_entry(details={"splits": [{"split_set": "default"}]}),
    "checkpoint up": {"table": "model", "row": {"name": "../../evil", "content": "c", "files": {}}, "details": {}},
    "half a character": make_entry(state="\ud800"),
    "half a character in a card": make_entry(card={"name": "\ud800"}),
    "no card": make_entry(card=None),
    "versions a text": make_entry(versions="x"),
    "cell without a clusterer": {
        "table": "cell",
        "row": {**make_record("c").to_columns(), "clusterer": None},
        "details": {},
    },
    "cell with numerics as a text": {
        "table": "cell",
        "row": {**make_record("c").to_columns(), "numerics": "x"},
        "details": {},
    },
    "cell of a task up": {
        "table": "cell",
        "row": {**make_record("c").to_columns(), "task": "a/../../b"},
        "details": {},
    },
}


@pytest.mark.parametrize("about", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_entry_that_is_none_of_ours_is_named_and_not_entered(tmp_path: Path, about: Any) -> None:
    foreign, own = Storage(tmp_path / "foreign"), Storage(tmp_path / "own")
    save_task(foreign)
    save_cell(foreign, 1)
    sound = read_contents(foreign)
    blob = foreign.blobs.put(pack(about))
    _, (line,) = copy_results(foreign, own)
    assert blob in line
    assert "\n" not in line
    assert read_contents(own) == sound
    (line,) = foreign.rebuild()
    assert blob in line
    assert read_contents(foreign) == sound


def make_score(**changed: Any) -> dict[str, Any]:
    score = {"level": "fine", "metric": "ami", "n": 2, "mean": 0.5, "values": bytes(16), "positions": None}
    return {**score, "replicates": bytes(2 * 4 * 20), "same_as": None, **changed}


SAME = {"values": None, "positions": None, "replicates": None}
SCORES: dict[str, tuple[bool, list[dict[str, Any]]]] = {
    "sound": (True, [make_score(), make_score(metric="nmi", same_as="ami", **SAME), make_score(level="coarse")]),
    "with positions": (True, [make_score(positions=bytes(8))]),
    "none": (True, [make_score(n=0, values=b"", replicates=None)]),
    "no level": (False, [make_score(level=None)]),
    "twice": (False, [make_score(), make_score()]),
    "like none": (False, [make_score(metric="nmi", same_as="zz", **SAME)]),
    "like one that is like another": (
        False,
        [make_score(), make_score(metric="b", same_as="ami", **SAME), make_score(metric="c", same_as="b", **SAME)],
    ),
    "short values": (False, [make_score(values=bytes(3))]),
    "no values": (False, [make_score(values=None)]),
    "more than it says": (False, [make_score(n=1)]),
    "short positions": (False, [make_score(positions=bytes(3))]),
    "short replicates": (False, [make_score(replicates=bytes(3))]),
    "replicates of half a number": (False, [make_score(replicates=bytes(2 * 4 + 2))]),
    "less than none": (False, [make_score(n=-1)]),
}


@pytest.mark.parametrize(("is_sound", "scores"), SCORES.values(), ids=SCORES.keys())
def test_scores_have_the_lengths_that_they_say(is_sound: bool, scores: list[dict[str, Any]]) -> None:
    entry = Entry("cell", make_record("c").to_columns(), scores=scores)
    with nullcontext() if is_sound else refused(Corrupt):
        check_entry(entry)


def test_a_table_of_millions_of_scores_is_refused_unread(tmp_path: Path) -> None:
    """It takes some kilobytes, and gigabytes once it is unpacked."""
    storage = Storage(tmp_path / "data")
    columns = {field.name: pa.nulls(200_000, field.type) for field in _SCORE_SCHEMA}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "entry.json", json.dumps({"table": "cell", "row": make_record("c").to_columns(), "details": {}})
        )
        archive.writestr("scores.parquet", _write_parquet(pa.table(columns, schema=_SCORE_SCHEMA)))
    blob = storage.blobs.put(packed.getvalue())
    (line,) = storage.rebuild()
    assert blob in line


def test_an_entry_that_waited_is_checked_like_any_other(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    for about in HOSTILE.values():
        storage._pending.put(pack(about))
    storage._pending.put(Entry("task", {**TASK, "name": "waited"}).pack())
    storage.flush()
    assert storage.list_tasks() == ["waited"]
    assert not list(storage._pending.list())


def test_an_entry_like_ours_is_entered(tmp_path: Path) -> None:
    """The twin of all of those above, and one that is packed, which entries never are."""
    foreign = Storage(tmp_path / "foreign")
    foreign.blobs.put(pack(make_entry(name="fruit_2")))
    packed = foreign.blobs.put(pack(make_entry(name="fruit_3"), zipfile.ZIP_DEFLATED))
    (line,) = foreign.rebuild()
    assert packed in line
    assert foreign.list_tasks() == ["fruit_2"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "socket"])
def test_a_blob_is_a_plain_file(tmp_path: Path, kind: str) -> None:
    blobs, content = FolderBlobs(tmp_path / "blobs"), b"x"
    name = blobs.put(content)
    assert blobs.get(name) == content
    path = blobs.get_path(name)
    path.unlink()
    if kind == "link":
        (tmp_path / "x").write_bytes(content)
        path.symlink_to(tmp_path / "x")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mknod(path, 0o140600)
    with refused(Corrupt, path):
        blobs.get(name)


@pytest.mark.parametrize(
    "content", [b"[]", b'{"id": "x", "version": 1e999}', b'{"id": "\\ud800", "version": 1}', b"[" * 10**6, "pipe"]
)
def test_a_marker_of_others_is_corrupt_or_ours(tmp_path: Path, content: bytes | str) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    identity = blobs.get_identity()
    assert identity == blobs.get_identity(create=False)
    marker = tmp_path / "blobs" / "identity.json"
    if isinstance(content, bytes):
        marker.write_bytes(content)
    else:
        marker.unlink()
        os.mkfifo(marker)
    with refused(Corrupt):
        blobs.get_identity()


def test_a_name_that_is_no_blobs_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    blobs = FolderBlobs(tmp_path / "blobs")
    for read in (blobs.get, blobs.exists, blobs.delete):
        with refused(Corrupt, "../secret"):
            read("../secret")
    assert blobs.exists(blobs.put(b"x"))
    assert hash_content(b"x") in dict(blobs.list())


def test_a_database_that_others_write_to_gives_no_path(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    save_task(storage)
    save_cell(storage, 1)
    (row,) = storage.catalog.read_rows(CELL)
    evil = _encode(CELL, {**row, "task": "../../evil"})
    with storage.catalog._engine.connect() as connection, connection.begin():
        connection.execute(sa.update(CELL).values(**evil))
    with refused(Corrupt, "../../evil"):
        storage.read_rows(CellRow)
    with storage.catalog._engine.connect() as connection, connection.begin():
        connection.execute(sa.update(CELL).values(**_encode(CELL, {**row, "reducer": None})))
    with refused(Corrupt, row["cell_id"], "reducer"):
        storage.read_rows(CellRow)


def test_a_stored_card_names_no_folder_to_export_to(tmp_path: Path) -> None:
    """A card of MTEB's name, and one that leads out of the folder: without a card, a task is not exported."""
    storage = Storage(tmp_path / "data")
    manifest = {"raw_version": "", "corpus_version": "", "rows_version": "", "data_version": "d1"}
    for name, mteb in (("sound", "BlurbsClusteringS2S.v2"), ("evil", "../../../../evil"), ("absolute", "/tmp/evil")):
        row = {**TASK, "name": name, "versions": manifest, "card": {"name": name, "mteb": mteb}, "state": "checked"}
        storage._enter(Entry("task", row))
        storage.save(DocumentRow(kind="corpus", key=name, content={"raw_version": ""}))
    assert [name for name in ("sound", "evil", "absolute") if get_card(storage, name)] == ["sound"]
