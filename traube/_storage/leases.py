"""Leases: who computes a stage of a task under a model, so that nobody does it twice.

A lease is a row with an owner and the time when it expires, by the database's own clock. A thread
renews it for as long as it is held. Who lost a lease, because another took it over when it had
expired, commits nothing (`Lease.is_held`).
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

import sqlalchemy as sa

from traube._core.errors import TraubeError
from traube._storage.catalog import LEASE, Catalog

SECONDS = 60.0  # duration of a lease that nobody renews
RENEWAL = 15.0  # seconds


@dataclass(frozen=True)
class Lease:
    """The right to commit results of a stage of a task under a model; `owner` is node, process and a random id."""

    catalog: Catalog
    task: str
    model: str
    stage: str
    owner: str

    @property
    def _row(self) -> list[sa.ColumnElement[bool]]:
        return [LEASE.c.task == self.task, LEASE.c.model == self.model, LEASE.c.stage == self.stage]

    def is_held(self, connection: sa.Connection) -> bool:
        """Return whether nobody has taken the lease over, and keep the lease from others until the transaction ends."""
        held = sa.select(LEASE.c.owner).where(*self._row, LEASE.c.owner == self.owner)
        return connection.execute(held.with_for_update()).first() is not None

    def try_acquire(self) -> str | None:
        """Take the lease if it is free or expired; return None, or the holder."""
        new = {"task": self.task, "model": self.model, "stage": self.stage, "owner": self.owner}
        insert = self.catalog.insert(LEASE).values(**new, expires=self.catalog.now + SECONDS)
        free = sa.or_(LEASE.c.expires <= self.catalog.now, LEASE.c.owner == self.owner)
        changed = {"owner": insert.excluded.owner, "expires": insert.excluded.expires}
        insert = insert.on_conflict_do_update(index_elements=list(LEASE.primary_key), set_=changed, where=free)

        def acquire(connection: sa.Connection) -> str | None:
            connection.execute(insert)
            owner = connection.execute(sa.select(LEASE.c.owner).where(*self._row)).scalar_one()
            return None if owner == self.owner else str(owner)

        return self.catalog.write(acquire)

    def renew(self) -> bool:
        """Extend the lease, even if it expired and nobody took it; return whether it was held."""
        renewed = sa.update(LEASE).where(*self._row, LEASE.c.owner == self.owner).returning(LEASE.c.owner)
        renewed = renewed.values(expires=self.catalog.now + SECONDS)
        return self.catalog.write(lambda connection: connection.execute(renewed).first() is not None)

    def release(self) -> None:
        """Give the lease back, if it is still held."""
        released = sa.delete(LEASE).where(*self._row, LEASE.c.owner == self.owner)
        self.catalog.write(lambda connection: connection.execute(released).close())


@contextmanager
def hold(catalog: Catalog, task: str, model: str, stage: str) -> Iterator[Lease]:
    """Wait for the lease of a stage of a task under a model, and hold it."""
    import psutil

    lease = Lease(catalog, task, model, stage, f"{platform.node()} {os.getpid()} {uuid4().hex}")
    is_reported = False
    while (owner := lease.try_acquire()) is not None:
        node, process, _ = owner.rsplit(" ", 2)
        if node == platform.node() and not psutil.pid_exists(int(process)):  # do not wait until it expires
            Lease(catalog, task, model, stage, owner).release()
            continue
        if not is_reported:
            what = f"{stage} of {task} under {model}"
            sys.stderr.write(f"waiting for {node} (process {process}), which computes {what}\n")
            is_reported = True
        time.sleep(0.5)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(lease, ended), daemon=True, name=f"lease {task} {model} {stage}")
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        with suppress(TraubeError):  # it expires by itself
            lease.release()


def _renew(lease: Lease, ended: threading.Event) -> None:
    is_held = True
    while is_held and not ended.wait(RENEWAL):
        with suppress(TraubeError):  # the next attempt may succeed
            is_held = lease.renew()
    if not is_held and not ended.is_set():
        what = f"{lease.stage} of {lease.task} under {lease.model}"
        sys.stderr.write(f"{what}: the lease has expired; nothing more is stored\n")
