"""The part of what Traube knows that the graph holds: what params.yaml names, and what has data.

Commands and pages load the same graph: to Dagster, an asset whose upstream differs between two of them is out of date.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from traube._core import paths
from traube._core.errors import TraubeError
from traube._pipeline.params import Inbox, Params, load_params
from traube._reports.papers import Paper, papers
from traube._storage import Storage, open_storage
from traube.components import CLUSTERERS
from traube.tasks import Source, sources

SHORT_TEXTS = "shorttext"  # the family whose protocols train


@dataclass(frozen=True)
class Used:
    """Tasks and papers of the graph."""

    tasks: Mapping[str, Source]
    trained: Collection[str]  # tasks with a stage for methods that train
    papers: Mapping[str, Paper]
    served: Collection[str] = ()  # tasks of params.yaml, which have champions
    brought: Collection[str] = ()  # tasks whose assets Dagster's components bring
    inboxes: Mapping[str, date] = field(default_factory=dict)  # the first day of each task that has one

    @property
    def names(self) -> tuple[dict[str, str], set[str], set[str], set[str], dict[str, date]]:
        """Return what tells two graphs apart: tasks with the version of what they read, trained and served ones, papers, inboxes."""
        versions = {name: source.version for name, source in self.tasks.items()}
        trained, served = ({*some} & {*self.tasks} for some in (self.trained, self.served))
        return versions, trained, {*self.papers}, served, dict(self.inboxes)


def find_used(tasks: Collection[str] = (), trains: bool = False) -> Used:
    """Return what params.yaml names and what has data, or with `graph: all` everything.

    A task has a stage for methods that train if it is of short texts, if the benchmark trains on it, or if such a method
    has a result on it. What cannot be read now, params.yaml or the storage, hides nothing.

    Parameters
    ----------
    tasks : collection of str
        Tasks that a command works on, which may have no data yet.
    trains : bool
        Whether the command trains on these tasks.
    """
    every, wanted, trained = sources(None), {*tasks}, {*tasks} if trains else set[str]()
    shows_all, stored, served, inboxes = False, set[str](), set[str](), dict[str, date]()
    try:
        params, storage = load_params(), open_storage(paths.home())
        shows_all, stored = params.graph == "all", {*storage.list_tasks()}
        inboxes = _find_inboxes(params, storage)
        wanted |= {*params.tasks, *params.pair_tasks, *inboxes}
        served = {*params.tasks}
        trained |= storage.list_tasks_of(
            [name for name, clusterer in CLUSTERERS.items() if clusterer.input_kind == "encoder"]
        )
        if any(method.trains for method in params.chosen().methods()):
            trained |= {*params.tasks}
    except TraubeError:
        shows_all = True
    used = {name: source for name, source in every.items() if shows_all or name in wanted | stored}
    trained |= {name for name, source in used.items() if source.card.family == SHORT_TEXTS}
    used_papers = {
        name: paper
        for name, paper in papers().items()
        if shows_all or not paper.tasks or stored & {*(paper.needs or paper.tasks)}
    }
    return Used(used, trained, used_papers, [name for name in used if name in served], inboxes=inboxes)


def _find_inboxes(params: Params, storage: Storage) -> dict[str, date]:
    """Return the first day of each task with an inbox: that of its texts, or of what was assigned before."""
    from traube._grouping.inboxes import find_inboxes

    inboxes = dict[str, date]()
    for task, inbox in find_inboxes(params).items():
        inboxes[task] = datetime.now(UTC).date()
        with suppress(TraubeError):  # one that cannot be read now hides nothing
            inboxes[task] = inbox.find_first_day()
    if inboxes:
        from traube._grouping.assigned import Assigned

        for one in storage.read_documents(Assigned):
            if (task := one.key.rpartition("/")[0]) in inboxes and params.inbox.get(task, Inbox()).since is None:
                inboxes[task] = min(inboxes[task], date.fromisoformat(one.day))
    return inboxes
