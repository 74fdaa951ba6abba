"""Servers that do not answer for a while: finished cells wait here, and are entered when they are back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.errors import refused
from tests.servers import Postgres
from tests.storage.made import make_assignments, make_record, read_contents, save_cell, save_task
from traube._core.errors import Inaccessible, Missing, Unreachable
from traube._storage import ArtifactRow, Storage, blobs, storage
from traube._storage.blobs import open_blobs

pytestmark = pytest.mark.cluster


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a second where people would wait for two minutes."""
    monkeypatch.setattr(blobs, "PATIENCE", 1.0)
    monkeypatch.setattr(storage, "HASTE", 0.3)


@pytest.mark.usefixtures("impatient")
def test_cells_wait_for_a_database_that_is_away(
    postgres: Postgres,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRAUBE_DATABASE", database)
    own = Storage(tmp_path)
    save_task(own)
    save_cell(own, 1)
    postgres.stop()
    try:
        for number in (2, 3):
            save_cell(own, number)
        assert own.save_cell(make_record("c" * 16, "clustered"), make_assignments(4))
        assert capsys.readouterr().err.count("what is finished waits in") == 1
        with refused(Unreachable):
            own.read_cells()
        with refused(Unreachable):
            Storage(tmp_path)
    finally:
        postgres.start()
    pd.testing.assert_frame_equal(own.read_assignments("c" * 16), make_assignments(4))  # so that it can be scored
    assert own.flush() == 0
    assert len(own.read_cells()) == 3
    assert len(own.read_scores(own.read_cells())) == 3 * 24
    assert not list((tmp_path / "pending").glob("*/*"))
    before = read_contents(own)
    own.rebuild()
    assert read_contents(own) == before


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator["S3"]:
    """An S3 server that can be stopped."""
    server = S3()
    for name, value in {
        "AWS_ENDPOINT_URL": server.start(),
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


class S3:
    """A server whose objects outlast it."""

    port = 0

    def start(self) -> str:
        """Start it where it was; return its URL."""
        server = pytest.importorskip("moto.server", reason="moto is not installed: `make setup-scale`")
        self._thread = server.ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._thread.start()
        self.port = self._thread.get_host_and_port()[1]
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop it."""
        self._thread.stop()


@pytest.mark.usefixtures("impatient")
def test_cells_wait_for_a_blob_store_that_is_away(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from s3fs import S3FileSystem

    bucket = f"away-{os.getpid()}"
    S3FileSystem(skip_instance_cache=True).call_s3("create_bucket", Bucket=bucket)
    monkeypatch.setenv("TRAUBE_BLOBS", f"s3://{bucket}/blobs")
    S3FileSystem.clear_instance_cache()
    own = Storage(tmp_path)
    save_task(own)
    s3.stop()
    save_cell(own, 1)
    with refused(Unreachable):
        own.save(ArtifactRow(kind="reduction", key="k"), {"x": b"x"})
    s3.start()
    save_cell(own, 2)  # whoever stores something enters what had to wait
    assert len(own.read_cells()) == 2
    assert own.verify() == []
    assert not list((tmp_path / "pending").glob("*/*"))
    S3FileSystem.clear_instance_cache()


def test_what_waited_is_dropped_where_another_node_was_faster(
    postgres: Postgres, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_DATABASE", database)
    monkeypatch.setenv("TRAUBE_BLOBS", str(tmp_path / "shared"))
    monkeypatch.setattr(storage, "HASTE", 0.3)
    late, other = Storage(tmp_path / "one"), Storage(tmp_path / "two")
    save_task(late)
    postgres.stop()
    try:
        save_cell(late, 1, run_id="late")
    finally:
        postgres.start()
    save_cell(other, 1, run_id="other")
    late.flush()
    assert late.read_cells()["run_id"].tolist() == ["other"]


def test_a_large_blob_is_put_at_once(bucket: str) -> None:
    """Of one that is put in parts, a crash leaves parts that nobody sees."""
    from s3fs import S3FileSystem

    blobs = open_blobs(bucket, Path())
    name = blobs.put(bytes(101 * 2**20))  # s3fs cuts by itself what is larger than 100 MiB
    (found,) = S3FileSystem().find(bucket, detail=True).values()
    assert found["Key"].endswith(name)
    assert "-" not in found["ETag"]  # as of what has parts


def test_a_bucket_that_is_not_there_or_refuses_is_named_in_a_line(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from s3fs import S3FileSystem

    monkeypatch.setenv("TRAUBE_BLOBS", "s3://nowhere/blobs")
    with refused(Missing, "s3://nowhere/blobs", "TRAUBE_BLOBS"):
        Storage(tmp_path / "one")
    monkeypatch.setenv("TRAUBE_BLOBS", bucket)
    own = Storage(tmp_path / "two")
    policy = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::*"}
    policies = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    S3FileSystem().call_s3("put_bucket_policy", Bucket=bucket.split("/")[2], Policy=policies)
    with refused(Inaccessible, "traube doctor"):
        save_cell(own, 1)
    assert own.flush() == 0
