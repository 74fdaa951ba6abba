"""The benchmark, params.yaml, as it is read by the command line, Dagster and DVC alike."""

import re
from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from traube._core import paths
from traube._core.config import PathName, Strict, parse, read_yaml
from traube._core.errors import Conflict, Invalid, TraubeError, unknown
from traube.components import CLUSTERERS, REDUCERS, Method, get_clusterer, grid, parse_method
from traube.models.card import Precision
from traube.tasks import own_tasks, sources
from traube.tasks.task import MetricName

OWN = "own"  # the protocol of the user's own tasks
Value: TypeAlias = float | int | str | bool | None
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]


class Protocol(Strict):
    """A named way to benchmark: which splits, methods, parameters, precision and metric, how many seeds."""

    description: str = ""
    split_set: str = "default"
    reducers: tuple[str, ...] = Field(min_length=1)
    clusterers: tuple[str, ...] = Field(min_length=1)
    parameters: dict[str, dict[str, Value]] = Field(
        default_factory=dict, description="by reducer or clusterer; others keep the registry's"
    )
    parameters_of: dict[str, dict[str, dict[str, Value]]] = Field(
        default_factory=dict, description="by task, the parameters that are others there"
    )
    seeds: tuple[Seed, ...] = Field((42,), min_length=1)
    precision: Precision | None = Field(None, description="overrides the models' cards")
    main_metric: MetricName | None = Field(None, description="overrides the tasks' cards")

    def for_task(self, task: str) -> "Protocol":
        """Return the protocol with the parameters that it has for a task."""
        if task not in self.parameters_of:
            return self
        overrides = self.parameters_of[task]
        merged = {
            name: {**self.parameters.get(name, {}), **overrides.get(name, {})}
            for name in {**self.parameters, **overrides}
        }
        return self.model_copy(update={"parameters": merged, "parameters_of": {}})

    def methods(self) -> list[Method]:
        """Return every reducer with every clusterer; those that make no sense are `unsupported`."""
        return grid(self.reducers, self.clusterers, self.parameters)

    def method(self, name: str) -> Method:
        """Return the method of that name, with this protocol's parameters."""
        return parse_method(name, self.parameters)


class Point(Protocol):
    """A protocol that is a point of a sweep: what its sweep starts from, but for one value or combination."""

    sweep: str
    parameter: str | None = Field(None, description="or the name of a combination; None: nothing is changed")
    value: Value = None


class Sweep(Strict):
    """A sweep of one clusterer's parameters: each value or combination in turn, the others as they are."""

    description: str = ""
    protocol: str = Field(description="says all but the value that is changed")
    clusterer: str
    seeds: tuple[Seed, ...] = Field((), description="by default the protocol's")
    values: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = Field(default_factory=dict)
    combinations: dict[str, Annotated[dict[str, Value], Field(min_length=1)]] = Field(
        default_factory=dict, description="values that are changed together, by a name for them"
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.values and not self.combinations:
            raise ValueError("neither 'values' nor 'combinations': give one, or both")
        if shared := self.values.keys() & self.combinations.keys():
            raise ValueError(f"'{min(shared)}' is in 'values' and in 'combinations': rename the combination")
        return self

    def points(self, name: str, protocol: Protocol) -> dict[str, Point]:
        """Return the points by name. Values that change nothing are one point, named like the sweep."""
        component, unchanged = CLUSTERERS[self.clusterer], protocol.parameters.get(self.clusterer, {})
        sweep_settings = {"clusterers": (self.clusterer,), "seeds": self.seeds or protocol.seeds, "sweep": name}
        start = {**protocol.model_dump(), **sweep_settings, "description": self.description}
        points = {name: Point(**start)}
        single: dict[str, tuple[dict[str, Value], dict[str, Any]]] = {
            f"{name}.{parameter}={value}": ({parameter: value}, {"parameter": parameter, "value": value})
            for parameter, values in self.values.items()
            for value in values
        }
        joint = {f"{name}.{label}": (tried, {"parameter": label}) for label, tried in self.combinations.items()}
        for point, (tried, about) in (single | joint).items():
            changed = {**unchanged, **tried}
            if component.resolve(changed) == component.resolve(unchanged):
                continue
            parameters = {**protocol.parameters, self.clusterer: changed}
            parameters_of = {  # what is tried holds for all tasks
                task: {**overrides, self.clusterer: {**overrides.get(self.clusterer, {}), **tried}}
                for task, overrides in protocol.parameters_of.items()
            }
            points[point] = Point(**{**start, "parameters": parameters, "parameters_of": parameters_of, **about})
        return points


class Nightly(Strict):
    """Time at which the whole benchmark runs by itself."""

    enabled: bool = True
    cron: str = "0 2 * * *"
    timezone: str = "Europe/Berlin"
    budget: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="most that each model behind an endpoint may cost a run that no command starts",
    )

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))  # minute, hour, day, month, weekday
        fields = value.split()
        is_cron = len(fields) == len(bounds)
        for field, (least, most) in zip(fields, bounds, strict=False):
            for part in field.split(","):  # each is `*`, `a` or `a-b`, with `/step` if need be
                match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
                is_cron &= match is not None and all(least <= int(n) <= most for n in match.groups()[:2] if n)
        if not is_cron:
            raise ValueError(f"'{value}' is no cron expression of five fields in numbers, like '0 2 * * *'")
        return value

    @field_validator("timezone")
    @classmethod
    def _is_timezone(cls, value: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (ValueError, KeyError, OSError):
            raise ValueError(f"'{value}' is no time zone, like Europe/Berlin or UTC") from None
        return value


class Promotion(Strict):
    """Conditions under which a challenger becomes champion."""

    level: float = Field(0.05, gt=0, lt=1, description="of the two-sided test, for all newcomers together")
    minimum_effect: float = Field(0.005, ge=0, le=1, description="smallest gain in the task's main metric")
    approval: bool = Field(False, description="a person approves each change of a champion, by `traube promote TASK`")
    margin: float = Field(0.01, ge=0, le=1, description="loss on another task of the family that must be ruled out")


class Keep(Strict):
    """Limits of what is kept besides champions and what a person tagged; `traube clean` and the nightly job remove the rest."""

    challengers: int = Field(1, ge=1, description="newest challengers of a task in the registry")
    nightly_runs: int = Field(
        30, ge=2, description="nightly runs that scores are compared with, and Dagster's runs that published"
    )
    deleted_checkpoints: bool = Field(
        True, description="results of checkpoints whose folders are gone; false: as `traube forget` leaves them"
    )


class Watch(Strict):
    """Further sources that are watched for new models; none by default, and none when offline."""

    hub: tuple[str, ...] = Field((), description="Hugging Face ids whose new revisions become checkpoints")
    mlflow: tuple[str, ...] = Field((), description="registered models whose new versions become checkpoints")
    folders: tuple[PathName, ...] = Field(
        (), description="folders whose model folders, and new contents of these, become checkpoints"
    )


class Inbox(Strict):
    """Source of the texts that a task's champion assigns day by day: a folder of files, or a table of a database."""

    folder: PathName | None = Field(None, description="folder of files; by default `inbox/TASK`")
    database: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that holds SQLAlchemy's URL of a database",
    )
    table: str | None = Field(None, min_length=1, description="table of the database with the texts")
    assigned: str | None = Field(None, min_length=1, description="table of the database that gets the assigned texts")
    text: str | None = Field(None, description="column of the texts; by default the obvious one")
    day: str | None = Field(
        None, description="column with a day or a time (ISO 8601); by default a file's date, of a table the present day"
    )
    since: date | None = Field(
        None, description="first day; by default the date of the oldest file, or the present day"
    )
    reference: date | None = Field(
        None, description="where the 30 days begin that others are compared with; by default the champion's first ones"
    )

    @model_validator(mode="after")
    def _is_one_source(self) -> "Inbox":
        if (self.database is None) != (self.table is None):
            raise ValueError("`database` names the variable with the URL, and `table` a table: give both or none")
        if self.database and self.folder:
            raise ValueError("give a folder, or database and table")
        if self.assigned and self.assigned == self.table:
            raise ValueError("`assigned` is the table that is read; name another")
        if self.assigned and not self.database:
            raise ValueError("`assigned` is a table: name its database")
        return self


class Params(Strict):
    """The whole of params.yaml. Among the protocols are, once it is read, the points of the sweeps."""

    protocol: str
    tasks: tuple[str, ...] = Field(min_length=1)
    models: tuple[str, ...] = Field(min_length=1)
    pair_tasks: tuple[str, ...] = ()
    nightly: Nightly = Nightly()
    promotion: Promotion = Promotion()
    keep: Keep = Keep()
    watch: Watch = Watch()
    inbox: dict[str, Inbox] = Field(
        default_factory=dict, description="by task, where texts come from that its champion assigns"
    )
    owners: tuple[Annotated[str, Field(pattern=r"^(team:[\w.-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")], ...] = Field(
        (), description="who answers for the assets: e-mail addresses, or team:NAME"
    )
    engine: Literal["local", "ray"] = Field(
        "local", description="what does the work: processes of this machine, or a Ray cluster; TRAUBE_ENGINE goes first"
    )
    graph: Literal["used", "all"] = Field(
        "used", description="what Dagster shows: tasks that are named here or have data, and papers with data; or all"
    )
    protocols: dict[str, Protocol]
    sweeps: dict[str, Sweep] = Field(default_factory=dict)

    def protocol_for(self, tasks: Collection[str] | None) -> str:
        """Return the name of the protocol of tasks where none is named: `own`, if there is one, for tasks that cards add."""
        is_own = tasks and OWN in self.protocols and set(tasks) <= own_tasks() - set(self.tasks)
        return OWN if is_own else self.protocol

    def chosen(self, protocol: str | None = None) -> Protocol:
        """Return the protocol of that name, or the default one."""
        name = protocol or self.protocol
        if name not in self.protocols:
            raise unknown("protocol", name, self.protocols)
        return self.protocols[name]


def load_params(path: Path | None = None) -> Params:
    """Read params.yaml; a TraubeError names the file, the line and the key of the first fault."""
    path = path or paths.params()
    value, lines = read_yaml(path)
    params = parse(Params, value, path, lines)

    def check(name: str, known: Collection[str], kind: str, *place: str, within: tuple[Any, ...] = ()) -> None:
        if name not in known:
            raise fault(unknown(kind, name, known), *place, within=within)

    def fault(words: object, *place: str, within: tuple[Any, ...] = ()) -> TraubeError:
        line = lines.get((*place, *within), 1)
        return Invalid(f"{path}: line {line}: {'.'.join(place)}: {words}")

    check(params.protocol, params.protocols, "protocol", "protocol")
    components = {**REDUCERS, **CLUSTERERS}
    known_tasks = sources() if any(protocol.parameters_of for protocol in params.protocols.values()) else {}
    at: tuple[str, ...]
    for name, protocol in params.protocols.items():
        at = ("protocols", name)
        for i, reducer in enumerate(protocol.reducers):
            check(reducer, REDUCERS, "reducer", *at, "reducers", within=(i,))
        for i, clusterer in enumerate(protocol.clusterers):
            check(clusterer, CLUSTERERS, "clusterer", *at, "clusterers", within=(i,))
        tables: dict[tuple[str, ...], dict[str, dict[str, Value]]] = {(*at, "parameters"): protocol.parameters}
        for task, overrides in protocol.parameters_of.items():
            check(task, known_tasks, "task", *at, "parameters_of", within=(task,))
            tables[*at, "parameters_of", task] = overrides
        for place, table in tables.items():
            for component, parameters in table.items():
                check(component, components, "reducer or clusterer", *place, within=(component,))
                for parameter, setting in parameters.items():
                    try:
                        components[component].resolve({parameter: setting})
                    except TraubeError as error:
                        raise fault(error, *place, component, within=(parameter,)) from None

    points: dict[str, Protocol] = {}
    for name, sweep in params.sweeps.items():
        at = ("sweeps", name)
        try:
            if name in params.protocols:
                raise Conflict("a protocol has this name: choose another")
            protocol, clusterer_of_sweep = params.chosen(sweep.protocol), get_clusterer(sweep.clusterer)
            for parameter, values in sweep.values.items():
                at = ("sweeps", name, "values", parameter)
                for setting in values:
                    clusterer_of_sweep.resolve({parameter: setting})
            for label, settings in sweep.combinations.items():
                at = ("sweeps", name, "combinations", label)
                clusterer_of_sweep.resolve(settings)
            points |= sweep.points(name, protocol)
        except TraubeError as error:
            raise fault(error, *at) from None
    return params.model_copy(update={"protocols": {**params.protocols, **points}})
