"""Worker processes that the executors of different tests share: they take seconds to start."""

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from traube._pipeline.executors.loky import start_processes


class Lent:
    """Processes as an executor sees them. Those that are idle outlive it."""

    def __init__(self, pool: Any, forget: Callable[[], Any]) -> None:
        self._pool, self._forget = pool, forget
        self._calls: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            self._calls.append(self._pool.submit(function, *args, **kwargs))
        except BrokenProcessPool:
            self._forget()
            raise
        return self._calls[-1]

    def shutdown(self, wait: bool, kill_workers: bool) -> None:
        ended = [call.exception() for call in self._calls if call.done()]
        are_broken = any(isinstance(error, BrokenProcessPool) for error in ended)
        if are_broken or (kill_workers and len(ended) < len(self._calls)):
            self._forget()
            self._pool.shutdown(kill_workers=True)


class SharedWorkers:
    """Starts processes once for each purpose and number of them."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, int], Any] = {}

    def start(self, purpose: str, n: int) -> Lent:
        key = purpose, n
        if key not in self._pools:
            self._pools[key] = start_processes(n)
        return Lent(self._pools[key], lambda: self._pools.pop(key, None))

    def end(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(kill_workers=True)
