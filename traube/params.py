"""params.yaml: the benchmark. Read by the command line, Dagster and DVC alike."""

from pathlib import Path

from pydantic import Field

from traube import paths
from traube.config import Strict, parse, read_yaml
from traube.errors import TraubeError, unknown
from traube.methods import CLUSTERERS, REDUCERS, Method, grid, parse_method
from traube.models.base import Precision


class Protocol(Strict):
    """A named way to benchmark: which splits, methods and parameters, how many seeds, which precision and metric."""

    description: str = ""
    split_set: str = "default"
    reducers: tuple[str, ...] = Field(min_length=1)
    clusterers: tuple[str, ...] = Field(min_length=1)
    parameters: dict[str, dict[str, float | int | str | bool | None]] = Field(
        default_factory=dict, description="by reducer or clusterer; others keep the registry's (the German benchmark's)"
    )
    seeds: tuple[int, ...] = Field((42,), min_length=1)
    precision: Precision | None = Field(None, description="overrides the models' cards")
    main_metric: str | None = Field(None, description="overrides the tasks' cards")

    def methods(self) -> list[Method]:
        """Every reducer with every clusterer; those that make no sense are `unsupported`."""
        return grid(self.reducers, self.clusterers, self.parameters)

    def method(self, name: str) -> Method:
        """The method of that name, with this protocol's parameters."""
        return parse_method(name, self.parameters)


class Params(Strict):
    """The whole of params.yaml."""

    protocol: str
    tasks: tuple[str, ...] = Field(min_length=1)
    models: tuple[str, ...] = Field(min_length=1)
    protocols: dict[str, Protocol]

    def chosen(self, protocol: str | None = None) -> Protocol:
        """The protocol of that name, or the default one."""
        name = protocol or self.protocol
        if name not in self.protocols:
            raise unknown("protocol", name, self.protocols)
        return self.protocols[name]


def load_params(path: Path | None = None) -> Params:
    """Read params.yaml.

    Raises
    ------
    TraubeError
        Naming the file, the line and the key of the first fault.
    """
    path = path or paths.params()
    value, lines = read_yaml(path)
    params = parse(Params, value, path, lines)
    if params.protocol not in params.protocols:
        raise TraubeError(
            f"{path}: line {lines['protocol',]}: protocol: {unknown('protocol', params.protocol, params.protocols)}"
        )
    for name, protocol in params.protocols.items():
        for key, known, given in (
            ("reducers", REDUCERS, protocol.reducers),
            ("clusterers", CLUSTERERS, protocol.clusterers),
        ):
            for i, part in enumerate(given):
                if part not in known:
                    line = lines.get(("protocols", name, key, i), 1)
                    raise TraubeError(f"{path}: line {line}: protocols.{name}.{key}: {unknown(key[:-1], part, known)}")
        parts = {**REDUCERS, **CLUSTERERS}
        for part, parameters in protocol.parameters.items():
            place = ("protocols", name, "parameters", part)
            if part not in parts:
                raise TraubeError(
                    f"{path}: line {lines.get(place, 1)}: {'.'.join(place[:3])}: {unknown('reducer or clusterer', part, parts)}"
                )
            for parameter, setting in parameters.items():
                try:
                    parts[part].resolve({parameter: setting})
                except TraubeError as error:
                    line = lines.get((*place, parameter), 1)
                    raise TraubeError(f"{path}: line {line}: {'.'.join(place)}: {error}") from None
    return params
