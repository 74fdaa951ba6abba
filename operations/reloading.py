"""The code location is loaded again when cards, params.yaml or the tasks with data change: nobody needs a button."""

import time
from contextlib import suppress
from typing import Any

from operations import LOCATION
from traube._cli.printing import out
from traube._core.errors import TraubeError

SECONDS = 3.0  # between two looks


class Reloading:
    """The state of what the code location is made of, as Dagster on a port of this machine has loaded it."""

    def __init__(self, port: int) -> None:
        self._port, self._loaded, self._seen, self._due = port, get_state(), None, 0.0

    def look(self) -> None:
        """Have Dagster load the code location again if its state is another one, and was the same at the last look."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + SECONDS
        state, seen = get_state(), self._seen
        self._seen = state
        if state is None or state == self._loaded or state != seen:  # what is broken, or being written, waits
            return
        from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError, ReloadRepositoryLocationStatus

        with suppress(DagsterGraphQLClientError):  # the server is busy: at the next look
            reloaded = DagsterGraphQLClient("127.0.0.1", port_number=self._port).reload_repository_location(LOCATION)
            self._loaded = state
            if reloaded.status is ReloadRepositoryLocationStatus.FAILURE:
                out.print(f"the code location cannot be loaded again: {reloaded.message}", soft_wrap=True)


def get_state() -> Any:
    """Return what the graph is made of: settings, and the tasks and papers in use; None if it cannot be read now."""
    from assets.used import find_used
    from traube._pipeline.params import load_params

    try:
        params = load_params()
        return params, find_used().names
    except TraubeError:
        return None
