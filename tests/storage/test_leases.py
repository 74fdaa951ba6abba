"""One node at a time computes a stage, and who lost the right to it stores nothing."""

import threading
import time

import pytest
import sqlalchemy as sa

from tests.storage.conftest import Open
from tests.storage.made import make_assignments, make_record, make_scores, read_contents, save_cell
from tests.storage.writers import Writer, hold_lease
from tests.waiting import wait_for
from traube._storage import Storage, leases
from traube._storage.catalog import LEASE


def test_two_nodes_never_hold_one_lease(storage: Storage, open_storage: Open) -> None:
    holders, most = [0], [0]

    def work(node: str) -> None:
        own = open_storage(node)
        for _ in range(3):
            with own.hold("fruit", "bow", "score"):
                holders[0] += 1
                most[0] = max(most[0], holders[0])
                time.sleep(0.02)
                holders[0] -= 1

    threads = [threading.Thread(target=work, args=(f"node{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    with storage.hold("fruit", "tfidf", "score"):  # another lease waits for none of them
        pass
    for thread in threads:
        thread.join()
    assert most == [1]
    assert storage.catalog.read(lambda c: c.execute(LEASE.select()).all()) == []


def test_a_lease_lasts_while_it_is_held(storage: Storage, open_storage: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEWAL", 0.05)
    other = leases.Lease(open_storage("two").catalog, "fruit", "bow", "score", "other")

    def read_end() -> float:
        return float(storage.catalog.read(lambda c: c.execute(sa.select(LEASE.c.expires)).scalar_one()))

    with storage.hold("fruit", "bow", "score") as lease:
        end = read_end()
        wait_for(lambda: read_end() > end + 1, "renewing")
        assert other.try_acquire() == lease.owner
        assert storage.save_cell(make_record("a" * 16), make_assignments(1), make_scores(1), lease=lease)
    assert other.try_acquire() is None


def test_a_late_holder_changes_nothing(storage: Storage, open_storage: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SECONDS", 0.3)
    other = open_storage("two")
    with storage.hold("fruit", "bow", "score") as late:  # its thread does not come to renew it
        monkeypatch.setattr(leases, "SECONDS", 60.0)
        with other.hold("fruit", "bow", "score") as lease:
            cell_id = save_cell(other, 1)
            before = read_contents(other)
            assert not storage.save_cell(make_record(cell_id, "failed", reason="killed"), lease=late)
            assert read_contents(storage) == before
            assert other.save_cell(make_record("b" * 16, "failed"), lease=lease)
    assert not late.renew()


def test_a_lease_that_expired_is_still_held_until_somebody_takes_it(
    storage: Storage, open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SECONDS", -1.0)  # as after a minute in which the database was away
    with storage.hold("fruit", "bow", "score") as late:
        assert storage.save_cell(make_record("a" * 16, "failed"), lease=late)
        assert late.renew()
        assert leases.Lease(open_storage("two").catalog, "fruit", "bow", "score", "other").try_acquire() is None
        assert not late.renew()


def test_a_stage_leaves_another_its_lease(
    storage: Storage, open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SECONDS", -1.0)  # both expire at once
    other = leases.Lease(open_storage("two").catalog, "fruit", "bow", "clusterings", "other")
    with storage.hold("fruit", "bow", "clusterings") as outer:
        with storage.hold("fruit", "bow", "scores") as inner:
            assert storage.save_cell(make_record("a" * 16, "failed"), lease=inner)
        assert storage.save_cell(make_record("b" * 16, "failed"), lease=outer)
        assert other.try_acquire() is None
        assert not storage.save_cell(make_record("c" * 16, "failed"), lease=outer)
    assert storage.read_cells()["cell_id"].tolist() == ["a" * 16, "b" * 16]


def test_who_waits_says_for_whom(storage: Storage, open_storage: Open, capsys: pytest.CaptureFixture[str]) -> None:
    order = []

    def wait() -> None:
        with open_storage("two").hold("fruit", "bow", "score"):
            order.append("held")

    thread = threading.Thread(target=wait)
    with storage.hold("fruit", "bow", "score"):
        thread.start()
        line = wait_for(lambda: capsys.readouterr().err, "a message")
        order.append("released")
    thread.join()
    assert "which computes score of fruit under bow" in line
    assert order == ["released", "held"]


def test_a_lease_of_a_killed_process_is_free_at_once(storage: Storage) -> None:
    assert Writer(hold_lease, storage.folder).exit_code == 9
    assert len(storage.catalog.read(lambda c: c.execute(LEASE.select()).all())) == 1
    never = LEASE.update().values(expires=storage.catalog.now + 1e6)
    storage.catalog.write(lambda c: c.execute(never).close())
    with storage.hold("fruit", "bow", "clusterings"):  # waits for no expiry
        pass
