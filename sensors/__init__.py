"""Sensors and schedules, which start runs: one file each, found by itself.

A file offers any of three functions: `jobs()`, jobs that are of no use but to its sensor; `sensors(loaded)` and
`schedules(loaded)`, given what the graph holds.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import dagster as dg

from assets.common import Job
from traube._core.plugins import modules_of


class Loaded(NamedTuple):
    """The parts of the graph that runs are requested of; a request for anything else would fail as a whole."""

    jobs: Mapping[str, Job]  # by name
    tasks: Collection[str]  # those with assets: a card that was added since has none until the graph is loaded again
    published: Mapping[dg.AssetKey, Collection[str] | None]  # what `publish` makes, of which tasks; None: of all
    inboxes: Mapping[str, date]  # the first day of each task whose texts of each day have assets

    def list_published(self, tasks: Collection[str]) -> list[dg.AssetKey]:
        """Return what is made of some tasks, among what `publish` makes."""
        return [key for key, made_of in self.published.items() if made_of is None or {*made_of} & {*tasks}]

    def split(self, tasks: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the tasks with assets, and a note for each of the others."""
        there = [task for task in tasks if task in self.tasks]
        notes = [
            f"{task}: not in the graph yet; its code location is to be loaded again"
            for task in tasks
            if task not in there
        ]
        return there, notes


def collect(name: str, *given: Any) -> list[Any]:
    """Return the results of all modules' functions of a name, such as `sensors`."""
    modules = modules_of(sys.modules[__name__])
    return [one for module in modules if hasattr(module, name) for one in getattr(module, name)(*given)]
