"""A home whose files are copies of what several machines share: a bucket of a real S3 server, or a folder."""

import errno
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tests.waiting import PATIENCE, wait_for
from traube.engine.moving import copy_home
from traube.foundation import files, machines, remote, settings, share
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_parquet, write_sealed_json
from traube.foundation.identity import VERSION
from traube.foundation.remote import remote_at
from traube.foundation.seals import read_parquet
from traube.store import Store

Become = Callable[[str], Path]
AT_ONCE = {"retries": {"max_attempts": 0}}
FRAME = pd.DataFrame({"text": ["a", "b"]})


@pytest.fixture(params=["s3", "folder"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = request.getfixturevalue("bucket") if request.param == "s3" else str(tmp_path / "mounted")
    monkeypatch.setenv(settings.SHARE, url)
    return str(url)


@pytest.fixture
def on_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(settings.SHARE, str(tmp_path / "mounted"))
    return str(tmp_path / "mounted")


@pytest.fixture
def on_s3(bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(settings.SHARE, bucket)
    return bucket


def look() -> share.Share:
    found = share.of_home()
    assert found is not None
    found.look()
    return found


def test_what_one_machine_writes_another_reads(shared: str, machine: Become) -> None:
    first = machine("first")
    write_parquet(first / "store/tasks/words/corpus.parquet", FRAME)
    write_sealed_json(first / "store/results/words/c1.json", {"status": "done"})
    write_parquet(first / "store/reductions/r1.parquet", FRAME)
    write_parquet(first / "store/index/cells/words/part.parquet", FRAME)
    second = machine("second")
    look()
    assert read_parquet(second / "store/tasks/words/corpus.parquet").equals(FRAME)
    assert (second / "store/results/words/c1.json").read_bytes() == (first / "store/results/words/c1.json").read_bytes()
    assert not (second / "store/index").exists()  # an index is of one machine
    # what is large comes when it is asked for
    assert not (second / "store/reductions/r1.parquet").exists()
    share.bring(second / "store/reductions/r1.parquet")
    assert read_parquet(second / "store/reductions/r1.parquet").equals(FRAME)


def test_what_is_changed_or_removed_is_so_for_all(shared: str, machine: Become) -> None:
    first, name = machine("first"), "store/tasks/words/manifest.json"
    write_sealed_json(first / name, {"version": 1})
    write_sealed_json(first / "store/costs/words/c1.json", {"texts": 1})
    second = machine("second")
    look()
    write_sealed_json(second / name, {"version": 2})
    files.remove(second / "store/costs/words/c1.json")
    machine("first")
    look()
    assert json.loads((first / name).read_text())["version"] == 2
    assert not (first / "store/costs/words/c1.json").exists()


def test_opening_a_store_brings_in_what_others_have_stored(on_folder: str, machine: Become) -> None:
    write_sealed_json(machine("first") / "store/results/words/c1.json", {"status": "done"})
    second = machine("second")
    assert Store(second / "store").scored_tasks() == ["words"]
    # a store that is not the home's is nobody else's
    assert Store(second / "other").scored_tasks() == []


def test_while_the_server_is_gone_nothing_is_lost(
    on_s3: str, machine: Become, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s3fs import S3FileSystem

    first = machine("first")
    found = look()
    monkeypatch.setattr(remote, "PATIENCE", 0.1)
    with monkeypatch.context() as gone:
        gone.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        gone.setattr(found.remote, "files", S3FileSystem(skip_instance_cache=True, config_kwargs=AT_ONCE))
        with pytest.raises(TraubeError, match=r"not reached for .* goes on from there") as error:
            write_parquet(first / "store/tasks/words/corpus.parquet", FRAME)
        assert "\n" not in str(error.value)
    assert "waiting for s3://" in capsys.readouterr().err
    # it is whole here, and there not at all; the next process hands it over
    assert found.remote.versions("store") == {}
    found._compared = False
    look()
    assert list(found.remote.versions("store")) == ["store/tasks/words/corpus.parquet"]
    assert [path.name for path in first.rglob(".*")] == []


def test_a_copy_is_what_was_written(on_folder: str, machine: Become, capsys: pytest.CaptureFixture[str]) -> None:
    first, name = machine("first"), "store/tasks/words/corpus.parquet"
    write_parquet(first / name, FRAME)
    second = machine("second")
    look()
    (second / name).write_bytes((second / name).read_bytes().replace(b"PAR1", b"PAR2"))
    found = look()
    found._compared = False  # as a new process does
    look()
    assert read_parquet(second / name).equals(FRAME)
    # what is damaged in the share is nobody's
    found.remote.write("store/tasks/words/splits.parquet", (first / name).read_bytes()[:-40] + b"x" * 40)
    found.remote.write("store/results/words/c1.json", b'{"seal": "0", "status": "done"}')
    look()
    assert not (second / "store/tasks/words/splits.parquet").exists()
    assert not (second / "store/results").exists() or not list((second / "store/results").rglob("*.json"))
    assert "damaged, and passed over" in capsys.readouterr().err


class Meanwhile(remote.Folder):
    """A folder in which something happens while it is listed, as on a server that takes seconds for it."""

    def __init__(self, like: remote.Remote, act: Callable[[], object]) -> None:
        super().__init__(like.url, like.files, like.root)
        self.act, self.acted = act, False

    def versions(self, folder: str = "") -> dict[str, str]:
        found = super().versions(folder)
        if folder == share.STORE and not self.acted:
            self.acted = True
            self.act()
        return found


def look_while(act: Callable[[], object], home: Path) -> share.Share:
    """What another process of a home does while something is written in it."""
    found = share.of_home()
    assert found is not None
    other = share.Share(home, Meanwhile(found.remote, act))
    other.look()
    return other


def test_a_look_leaves_alone_what_another_process_writes_meanwhile(on_folder: str, machine: Become) -> None:
    first, new, old = machine("first"), "store/results/words/c2.json", "store/results/words/c1.json"
    write_sealed_json(first / old, {"version": 1})
    look()

    def write() -> None:
        write_sealed_json(first / new, {"version": 1})
        write_sealed_json(first / old, {"version": 2})

    other = look_while(write, first)
    for _ in range(2):
        assert json.loads((first / new).read_text())["version"] == 1
        assert json.loads((first / old).read_text())["version"] == 2
        other.look()
    for name in (new, old):
        assert remote_at(on_folder).read(name) == (first / name).read_bytes()


def test_a_look_fetches_nothing_over_what_is_written_meanwhile(
    on_folder: str, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    write_sealed_json(first / name, {"version": 1})
    machine("second")
    look()
    write_sealed_json(machine("second") / name, {"version": 2})
    machine("first")

    def write_unsent() -> None:
        with monkeypatch.context() as before_it_is_sent:
            before_it_is_sent.delenv(settings.SHARE)
            write_sealed_json(first / name, {"version": 3})

    look_while(write_unsent, first)
    assert json.loads((first / name).read_text())["version"] == 3


def test_what_is_written_while_it_is_sent_is_sent_again(
    on_folder: str, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    found = look()

    class Slow(remote.Folder):
        def upload(self, name: str, path: Path) -> str:
            version = super().upload(name, path)
            with monkeypatch.context() as cut_off:
                cut_off.delenv(settings.SHARE)
                write_sealed_json(first / name, {"version": "the next"})
            return version

    monkeypatch.setattr(found, "remote", Slow(found.remote.url, found.remote.files, found.remote.root))
    write_sealed_json(first / name, {"version": "one"})
    share._open.cache_clear()
    look()
    assert remote_at(on_folder).read(name) == (first / name).read_bytes()


def test_two_homes_are_never_taken_for_one(on_folder: str, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sealed_json(machine("first") / "store/results/words/c1.json", {"status": "done"})
    other = machine("other")
    monkeypatch.delenv(settings.SHARE)
    write_sealed_json(other / "store/results/words/c2.json", {"status": "done"})
    monkeypatch.setenv(settings.SHARE, on_folder)
    with pytest.raises(TraubeError, match=r"another home's .* use another URL"):
        share.of_home()
    # one in which nothing is computed yet joins
    machine("empty")
    assert look().theirs


def test_a_share_that_lost_its_files_takes_none_away(on_folder: str, machine: Become) -> None:
    first = machine("first")
    write_sealed_json(first / "store/results/words/c1.json", {"status": "done"})
    look().remote.remove("home.json")
    share._open.cache_clear()
    with pytest.raises(TraubeError, match=r"empty, though .* has copies of it; restore it"):
        share.of_home()
    assert (first / "store/results/words/c1.json").exists()


def names_in(home: Path) -> set[str]:
    return {path.stem for path in (home / "store/results").rglob("*.json")}


def lose(url: str, names: list[str]) -> None:
    """Files of a share are gone, and nobody has removed them: an older backup, a slip of the hand."""
    found = remote_at(url)
    for name in names:
        found.remove(name)


def test_what_a_share_has_lost_is_sent_again(shared: str, machine: Become) -> None:
    first, old, new = machine("first"), "store/results/words/c1.json", "store/results/words/c2.json"
    write_sealed_json(first / old, {"status": "done"})
    second = machine("second")
    look()
    write_sealed_json(second / new, {"status": "done"})
    for lost in ([new], [old, new]):
        lose(shared, lost)
        share._open.cache_clear()  # as a new process does
        machine("first")
        look()
        machine("second")
        look()
        assert names_in(first) <= names_in(second) == {"c1", "c2"}
        assert set(remote_at(shared).versions("store")) == {old, new}


def test_what_was_removed_stays_removed_whoever_was_away(shared: str, machine: Become) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    write_sealed_json(first / name, {"version": 1})
    away, third = machine("away"), machine("third")
    look()
    machine("away")
    look()
    machine("first")
    write_sealed_json(first / name, {"version": 2})
    files.remove(first / name)
    for home in ("third", "away", "first", "third"):
        machine(home)
        look()
    assert not any(names_in(home) for home in (first, away, third))
    assert remote_at(shared).versions("store") == {}
    # nor does it come back when another copy of it is looked for
    machine("new")
    look()
    assert remote_at(shared).versions("store") == {}


def test_a_removal_does_not_reach_what_is_written_anew(shared: str, machine: Become) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    write_sealed_json(first / name, {"status": "done"})
    second = machine("second")
    look()
    machine("first")
    files.remove(first / name)
    write_sealed_json(first / name, {"status": "done, and longer"})
    for home in ("second", "first"):
        machine(home)
        look()
        assert names_in(second) == {"c1"}
    # even where it is lost afterwards, and the notice of its removal is not
    lose(shared, [name])
    for home in ("second", "first"):
        machine(home)
        look()
        assert names_in(first) == names_in(second) == {"c1"}
    assert name in remote_at(shared).versions("store")


def test_a_removal_that_is_going_on_is_heeded_when_it_is_done(on_folder: str, machine: Become) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    write_sealed_json(first / name, {"status": "done"})
    second = machine("second")
    look()

    class Looked(remote.Folder):
        def remove(self, name: str) -> None:
            machine("second")
            look()  # between notice and removal
            super().remove(name)

    machine("first")
    found = look()
    found.remote = Looked(found.remote.url, found.remote.files, found.remote.root)
    found.drop(name)
    (first / name).unlink()
    for home in ("second", "first"):
        machine(home)
        look()
    assert not names_in(first) and not names_in(second)
    assert remote_at(on_folder).versions("store") == {}


def test_a_share_that_is_emptied_under_a_process_takes_none_away(shared: str, machine: Become) -> None:
    first = machine("first")
    write_sealed_json(first / "store/results/words/c1.json", {"status": "done"})
    found = look()
    lose(shared, [*found.remote.versions()])
    with pytest.raises(TraubeError, match=r"empty, though .* has copies of it"):
        found.look()
    assert names_in(first) == {"c1"}
    assert not found.remote.versions()


def test_a_share_that_was_emptied_can_be_filled_again(
    shared: str, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, name = machine("first"), "store/results/words/c1.json"
    weights = first / "checkpoints" / "mine" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    (weights.parent / "config.json").write_bytes(b"{}")
    with monkeypatch.context() as alone:  # as `traube move-home` does
        alone.delenv(settings.SHARE)
        write_sealed_json(first / name, {"status": "done"})
        filled = [moved.new for moved in copy_home(first, shared)]
        lose(shared, [*remote_at(shared).versions()])
        assert [moved.new for moved in copy_home(first, shared)] == filled == [1, 0, 3, 0]
        assert [moved.new for moved in copy_home(first, shared)] == [0, 0, 0, 0]
    # and whoever had copies of it goes on with it
    share._open.cache_clear()
    assert look().theirs.keys() == {name}
    # another home's is refused as before
    with monkeypatch.context() as alone:
        alone.delenv(settings.SHARE)
        other = machine("other")
        write_sealed_json(other / "store/results/words/c2.json", {"status": "done"})
        with pytest.raises(TraubeError, match="another home's"):
            list(copy_home(other, shared))


def test_a_home_of_a_later_version_is_refused(on_folder: str, machine: Become) -> None:
    remote_at(on_folder).write("home.json", json.dumps({"home": "x", "version": VERSION + 1}).encode())
    machine("first")
    with pytest.raises(TraubeError, match="made by a later Traube"):
        share.of_home()


def test_a_lock_is_held_by_one_machine(shared: str, machine: Become) -> None:
    machine("first")
    look()
    at_work, most = [], []

    def work(name: str) -> None:
        with machines.held_by_name("store/claims/words/bow"):
            at_work.append(name)
            most.append(len(at_work))
            time.sleep(0.05)
            at_work.remove(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]


def test_a_lease_that_nobody_renews_is_taken_over(on_s3: str, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("first")
    found = look().remote
    assert isinstance(found, remote.S3)
    monkeypatch.setattr(machines, "LASTS", 0.5)
    monkeypatch.setattr(machines, "RENEWED", 1.0)
    machines._acquire(found, "locks/x", "one that was killed")
    began = time.monotonic()
    with machines.held_by_name("x"):
        assert time.monotonic() - began > 0.5
        # of one that is renewed, nobody else is the holder, however long it takes
        version = found.look("locks/x")[0]
        wait_for(lambda: found.look("locks/x")[0] != version, "its renewal")
        assert found.swap("locks/x", b"", version) is None


def test_while_the_server_is_away_no_lease_runs_out(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = 0.0
    clock = SimpleNamespace(sleep=time.sleep, monotonic=lambda: time.monotonic() + 3600 * hours)
    monkeypatch.setattr(machines, "time", clock)
    monkeypatch.setattr(machines, "RENEWED", 0.5)
    held, ended, got = (threading.Event() for _ in range(3))

    class Away(remote.S3):
        asked, waits = 0, False

        def _ask(self, request: Callable[[], object], name: str) -> Any:
            self.asked += 1
            if not there[self].is_set():
                self.waits = True
                there[self].wait()
            return super()._ask(request, name)

    holders, waiters = Away(bucket), Away(bucket)
    there = {holders: threading.Event(), waiters: threading.Event()}

    def hold() -> None:
        with machines._lease(holders, "locks/x"):
            held.set()
            ended.wait()

    def wait() -> None:
        machines._acquire(waiters, "locks/x", "another")
        got.set()

    for event in there.values():
        event.set()
    holder, waiter = threading.Thread(target=hold), threading.Thread(target=wait)
    holder.start()
    assert held.wait(PATIENCE)
    waiter.start()
    wait_for(lambda: "waiting for" in capsys.readouterr().err, "waiting for the lease")
    for event in there.values():
        event.clear()
    wait_for(lambda: holders.waits and waiters.waits, "a request of both")
    hours, asked = 1.0, waiters.asked  # the lease is old, though its holder lives
    there[waiters].set()
    wait_for(lambda: waiters.asked > asked + 2 or got.is_set(), "looking at the lease again")
    too_early = got.is_set()
    there[holders].set()
    ended.set()
    holder.join()
    assert got.wait(PATIENCE)
    waiter.join()
    assert not too_early


def test_a_lease_whose_answer_was_lost_is_ones_own(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machines, "LASTS", 2.0 * PATIENCE)
    monkeypatch.setattr(machines, "RENEWED", 0.2)

    class Lossy(remote.S3):
        def _put(self, name: str, content: bytes, **condition: str) -> str:
            version = super()._put(name, content, **condition)
            if content not in heard:
                heard.append(content)
                raise ConnectionResetError(errno.ECONNRESET, "the answer was lost")
            return version

    heard: list[bytes] = []
    began = time.monotonic()
    with machines._lease(Lossy(bucket), "locks/x"):
        assert time.monotonic() - began < PATIENCE  # its own is not waited for
        wait_for(lambda: len(heard) > 1, "its renewal")
    assert len(heard) > 2  # got, renewed, given back
    assert "another machine" not in capsys.readouterr().err
    assert remote_at(bucket).read("locks/x") == b""


def test_a_lease_that_another_has_is_lost(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "another machine has taken this lock over"
    monkeypatch.setattr(machines, "RENEWED", 0.1)
    found = remote_at(bucket)
    with machines._lease(found, "locks/x"):
        found.write("locks/x", b"another")
        wait_for(lambda: said in capsys.readouterr().err, "telling so")
    assert found.read("locks/x") == b"another"


def test_whoever_gets_a_lock_knows_what_was_written_before(on_folder: str, machine: Become) -> None:
    second = machine("second")
    store = Store(second / "store")
    write_sealed_json(machine("first") / "store/results/words/c1.json", {"status": "done"})
    machine("second")
    with files.locked(store.claim("words", "bow")):
        assert (second / "store/results/words/c1.json").exists()


def test_a_bucket_without_rights_is_told_in_a_line(on_s3: str, machine: Become) -> None:
    first = machine("first")
    found = look()
    policy = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::*"}
    policies = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    found.remote.files.call_s3("put_bucket_policy", Bucket=on_s3.split("/")[2], Policy=policies)
    with pytest.raises(TraubeError, match="the credentials lack a right") as error:
        write_parquet(first / "store/tasks/words/corpus.parquet", FRAME)
    assert "\n" not in str(error.value)
    faults = dict(remote.rights(found.remote))
    assert faults["list"] == "" and "lack a right" in faults["write"]


def test_all_rights_are_tried(shared: str) -> None:
    found = remote_at(shared)
    assert not any(fault for _, fault in remote.rights(found))
    assert not found.versions()  # and nothing is left


def test_a_bucket_that_is_not_there_is_told_in_a_line(bucket: str) -> None:
    with pytest.raises(TraubeError, match="there is no bucket 'nowhere'"):
        remote_at("s3://nowhere/home").write("a", b"")


@pytest.mark.parametrize(
    "url", ["s3:/bucket/x", "s3//bucket", "mounted", "./mounted", "://x", "s3:bucket", "~nobody-here/x"]
)
def test_a_share_that_is_no_place_is_refused_in_a_line(
    url: str, machine: Become, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(settings.SHARE, url)
    home = machine("first")
    with pytest.raises(TraubeError, match=r"expected s3://BUCKET/PREFIX, or the whole path of a folder") as error:
        write_sealed_json(home / "store/results/words/c1.json", {"status": "done"})
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TraubeError, match="expected s3://BUCKET/PREFIX"):
        remote_at(url)  # which `traube doctor` and `traube move-home` ask


def test_a_place_may_be_said_in_several_ways(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = remote_at(bucket.replace("s3://", "S3://"))
    assert isinstance(found, remote.S3) and found.url == bucket
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in ("~/mounted", f"{tmp_path}/mounted/", f"{tmp_path}/./mounted"):
        assert remote_at(url).url == str(tmp_path / "mounted")
    assert isinstance(remote_at(f"file://{tmp_path}/mounted"), remote.Folder)


def test_a_clock_that_is_wrong_is_told_in_a_line(on_s3: str, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("first")
    monkeypatch.setattr(share, "SKEW", -1.0)  # no two clocks agree that well
    with pytest.raises(TraubeError, match=r"this machine's clock is .* its server's; set it"):
        look()


def test_settings_are_read_from_the_home_and_show_no_password(
    machine: Become, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (settings.SHARE, settings.DATABASE, settings.PASSWORD_FILE, "PGPASSWORD"):
        monkeypatch.setenv(name, "")  # so that what is read is forgotten after the test
        monkeypatch.delenv(name)
    (tmp_path / "password").write_text("sesame\n")
    (machine("first") / ".env").write_text(
        f"# where\nTRAUBE_SHARE='s3://b/p'\nexport TRAUBE_DATABASE=postgresql://u@h/d\n"
        f"TRAUBE_DATABASE_PASSWORD_FILE={tmp_path / 'password'}\nDAGSTER_HOME=/nowhere\n"
    )
    assert settings.share() == "s3://b/p"
    assert (
        settings.schema_of(settings.database(), "mlflow") == "postgresql+psycopg2://u@h/d?options=-csearch_path=mlflow"
    )
    assert settings.without_password("postgresql://u:sesame@h/d") == "postgresql://u:***@h/d"
    monkeypatch.setenv(settings.DATABASE, "mysql://u:sesame@h/d")
    with pytest.raises(TraubeError, match="expected postgresql://") as error:
        settings.database()
    assert "sesame" not in str(error.value)
