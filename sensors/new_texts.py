"""The sensor of inboxes: texts that are new are assigned when nobody writes any more, and days that are over are judged."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.common import UNFINISHED, asset_key, tag_run
from assets.inbox import ASSIGNED, DRIFT
from resources.alerts import send_alert
from resources.registry import CHAMPION, RegistryResource
from sensors import Loaded
from traube._core import paths
from traube._core.errors import TraubeError, printable
from traube._core.hashing import digest
from traube._pipeline.params import load_params
from traube._storage import Storage, open_storage

if TYPE_CHECKING:
    from traube._grouping.assigned import Assigned
    from traube._grouping.inboxes import DailyTexts

JUDGED = 30  # days, the newest, that are judged without a request


@dataclass
class Seen:
    """A source that the sensor remembers."""

    state: str = ""  # at the last tick; while it changes, the source is being written
    days: list[str] | None = None  # of its texts; None: not read since


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that has the texts of inboxes assigned, if there are any."""
    if "assign" not in loaded.jobs:
        return []

    @dg.sensor(
        name="new_texts",
        job=loaded.jobs["assign"],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description="Assigns texts that are new in an inbox by the task's champion, and judges the days that are over.",
    )
    def new_texts(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        from traube._grouping.inboxes import find_inboxes, find_unknown_inboxes

        seen = {name: Seen(**entry) for name, entry in json.loads(context.cursor or "{}").items()}
        params, storage, requests = load_params(), open_storage(paths.home()), list[dg.RunRequest]()
        today = datetime.now(ZoneInfo(params.nightly.timezone)).date().isoformat()
        first = min(loaded.inboxes.values()).isoformat()
        notes, waiting = [f"{name}: an inbox of no task" for name in find_unknown_inboxes(params)], list[str]()
        for task, inbox in find_inboxes(params).items():
            if task not in loaded.inboxes:
                notes.append(f"{task}: its inbox is not in the graph yet; its code location is to be loaded again")
                continue
            try:
                look = _Look(context, storage, inbox, seen, first, today)
                requests += look.request()
                notes += look.notes
                waiting += look.waiting
            except TraubeError as error:  # one inbox does not take the others along
                notes.append(f"{task}: {error}")
                _alert(context, task, str(error), f"inbox {task} {digest(str(error))} {today}")
        for note in notes:
            context.log.warning(printable(note))  # a file may have any name
        for note in waiting:  # for whoever writes the file: no fault
            context.log.info(printable(note))
        return dg.SensorResult(
            run_requests=requests,
            cursor=json.dumps({name: asdict(entry) for name, entry in seen.items()}),
            skip_reason=None
            if requests
            else dg.SkipReason(printable("; ".join([*notes, *waiting])) or "no text is new"),
        )

    return [new_texts]


class _Look:
    """A look at an inbox: what is new in it."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        storage: Storage,
        inbox: "DailyTexts",
        seen: dict[str, Seen],
        first: str,
        today: str,
    ) -> None:
        self.context, self.storage, self.inbox, self.seen = context, storage, inbox, seen
        self.first, self.today = first, today
        self.notes: list[str] = []
        self.waiting: list[str] = []

    def request(self) -> list[dg.RunRequest]:
        """Return the runs that the inbox requires: texts are assigned first, and days are judged then."""
        from traube._grouping.assigned import read_assigned

        task = self.inbox.task
        states, assigned = self.inbox.list_states(), read_assigned(self.storage, task)
        busy = [name for name, state in states.items() if not self._is_quiet(name, state)]
        pending: dict[str, dict[str, str]] = {}  # by day, the sources that have texts of it
        for name, state in states.items():
            days = self._seen(name).days or []
            if early := [day for day in days if day < self.first]:
                self.notes.append(
                    f"{task}: {early[0]} is not in the graph yet; its code location is to be loaded again"
                )
            for day in days[len(early) :]:
                if day not in assigned or assigned[day].sources.get(name) != state:
                    pending.setdefault(day, {})[name] = state
        requests = [*self._assign(pending)] if pending or busy else [*self._judge(assigned)]
        at_work = dg.RunsFilter(job_name="assign", tags={"traube/task": task}, statuses=[*UNFINISHED])
        if requests and self.context.instance.get_runs(at_work, limit=1):
            return []  # it may store what is pending
        if requests and RegistryResource().find_version(task, CHAMPION) is None:
            self.notes.append(f"{task}: has no champion yet; `traube run -t {task}` makes one")
            return []
        return requests

    def _seen(self, name: str) -> Seen:
        return self.seen.setdefault(f"{self.inbox.task}/{name}", Seen())

    def _is_quiet(self, name: str, state: str) -> bool:
        """Return whether a source is as it was at the last tick; if so, know the days of its texts."""
        entry, task = self._seen(name), self.inbox.task
        if entry.state != state:
            entry.state, entry.days = state, None
            self.waiting.append(f"{task}: {name} changed since the last look; waiting until it is quiet")
            return False
        if entry.days is None:
            entry.days = []
            try:
                days = sorted(set(self.inbox.read(name)["day"]))
            except TraubeError as error:
                self._refuse(name, state, str(error))
                return True
            first = min(self.first, self.inbox.find_first_day().isoformat())
            entry.days = [day for day in days if first <= day <= self.today]
            if len(entry.days) < len(days):
                others = f"{len(days) - len(entry.days)} days are before {first} or in the future"
                self._refuse(name, state, f"{name}: {others}; inbox.{task}.since of params.yaml names the first day")
        return True

    def _refuse(self, name: str, state: str, reason: str) -> None:
        self.notes.append(f"refused: {reason}")
        _alert(self.context, self.inbox.task, reason, f"inbox {self.inbox.task} {name} {state}")

    def _assign(self, pending: Mapping[str, Mapping[str, str]]) -> Iterator[dg.RunRequest]:
        """Yield a run for each row of days without a gap."""
        task = self.inbox.task
        op = "__".join(asset_key(task, ASSIGNED).path)
        for days in _join_days(sorted(pending)):
            states = {name: state for day in days for name, state in pending[day].items()}
            whole = {ASSET_PARTITION_RANGE_START_TAG: days[0], ASSET_PARTITION_RANGE_END_TAG: days[-1]}
            yield dg.RunRequest(
                # Dagster drops a key that it has seen; what failed is tried again daily
                run_key=digest([task, days, states, self.today]),
                partition_key=days[0] if len(days) == 1 else None,
                asset_selection=[asset_key(task, ASSIGNED)],
                run_config={"ops": {op: {"config": {"sources": sorted(states)}}}},
                tags={**tag_run([task]), **(whole if len(days) > 1 else {})},
            )

    def _judge(self, assigned: "Mapping[str, Assigned]") -> Iterator[dg.RunRequest]:
        """Yield a run for each day that is over, and has other texts than its verdict is of."""
        from traube._grouping.assigned import TEXTS
        from traube._grouping.days import read_verdicts

        task, verdicts = self.inbox.task, read_verdicts(self.storage, self.inbox.task)
        over = [one for day, one in assigned.items() if one.texts and day < self.today]
        for one in over[-JUDGED:]:
            made_of = one.files[TEXTS]
            if one.day not in verdicts or verdicts[one.day].made_of != made_of:
                yield dg.RunRequest(
                    run_key=digest([task, one.day, made_of, self.today]),
                    partition_key=one.day,
                    asset_selection=[asset_key(task, DRIFT)],
                    tags=tag_run([task]),
                )


def _join_days(days: list[str]) -> list[list[str]]:
    """Return days in rows without a gap."""
    rows: list[list[str]] = []
    for day in days:
        before = (date.fromisoformat(day) - timedelta(days=1)).isoformat()
        if rows and rows[-1][-1] == before:
            rows[-1].append(day)
        else:
            rows.append([day])
    return rows


def _alert(context: dg.SensorEvaluationContext, task: str, reason: str, key: str) -> None:
    """Raise an alert of texts that cannot be read."""
    advice = "Mend it: it is read again when it has changed"
    send_alert(context.log, key, f"the inbox of {task} is refused", [reason], advice)
