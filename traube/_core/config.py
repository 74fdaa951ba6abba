"""YAML read into pydantic models, here alone, with errors that name the file, the line and the key."""

from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from yaml.composer import Composer

from traube._core.errors import Invalid, Malformed, TraubeError, unknown
from traube._core.inputs import read_bytes, resolve_path

M = TypeVar("M", bound=BaseModel)

# Far more than any card or params.yaml needs, and read within a second.
LARGEST = 256 * 1024  # bytes
DEEPEST = 40  # levels
SHOWN = 60  # characters of a key or value that an error shows
MOST = 10_000  # keys and values, those of an alias counted each time it is used


def _path(value: str) -> str:
    try:
        resolve_path(Path("/"), value)
    except TraubeError as error:
        raise ValueError(str(error)) from None
    return value


# The name of a file or folder, as a person writes it in a card.
PathName = Annotated[str, AfterValidator(_path)]
# A list in a card, in place of which one text may stand.
OneOrMany = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Strict(BaseModel):
    """A model that refuses keys it does not know: a misspelled key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """Read a YAML mapping, within the limits above; return it and the line of each key path."""
    try:
        text = read_bytes(path, LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"{path}: not UTF-8 (byte {error.start})") from None
    return deepcopy(_parse(text, path))


@lru_cache(maxsize=256)  # one command reads each of its cards many times
def _parse(text: str, path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        value = loader.construct_document(node) if node else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise Malformed(f"{path}: {line}not valid YAML: {problem}") from None
    if not isinstance(value, dict):
        raise Malformed(f"{path}: line 1: expected `key: value` lines")
    return value, dict(_lines(node, ()))


# libyaml scans ten times as fast as PyYAML itself; this loader checks the limits in either case
_SafeLoader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class _Loader(Composer, _SafeLoader):
    """PyYAML's safe loader, which stops at what is too deep or too much, and says where a value cannot be made."""

    def __init__(self, text: str) -> None:
        _SafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._deepest = self._count = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}  # values in a node, and levels below it

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark, is_alias = self.peek_event().start_mark, self.check_event(yaml.AliasEvent)
        outside, before = self._deepest, self._count
        self._depth += 1
        self._deepest = self._depth
        self._within_limits(mark)
        node: Any = super().compose_node(parent, index)
        if is_alias and node not in self._sizes:
            raise yaml.MarkedYAMLError(problem="an alias inside of what it stands for", problem_mark=mark)
        if is_alias:  # counted as if written out: it is read as often as it is used
            self._count += self._sizes[node][0]
            self._deepest += self._sizes[node][1]
        else:
            self._count += 1
            self._sizes[node] = (self._count - before, self._deepest - self._depth)
        self._within_limits(mark)
        self._depth -= 1
        self._deepest = max(outside, self._deepest)
        return node

    def _within_limits(self, mark: Any) -> None:
        if self._deepest > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {DEEPEST} levels", problem_mark=mark)
        if self._count > MOST:
            raise yaml.MarkedYAMLError(problem=f"more than {MOST:,} keys and values", problem_mark=mark)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # whatever the making of a date, a number or a key raises
            kind = node.tag.rpartition(":")[2]
            text = str(node.value) if isinstance(node.value, str) else "this"
            excerpt = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
            problem = f"{excerpt} is no {kind}; put it in quotes if it is a text"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None


def _lines(node: yaml.Node | None, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
    children: list[tuple[Any, yaml.Node, yaml.Node]] = []  # name, where it stands, and value
    if isinstance(node, yaml.MappingNode):
        children = [(k.value if isinstance(k, yaml.ScalarNode) else None, k, child) for k, child in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(i, child, child) for i, child in enumerate(node.value)]
    for name, begin, child in children:
        yield (*path, name), begin.start_mark.line + 1
        yield from _lines(child, (*path, name))


def parse(model: type[M], value: Any, path: Path, lines: dict[tuple[Any, ...], int]) -> M:
    """Validate `value` as `model`; the error names the file, the line (where known) and the key of the first problem."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # a misspelled key explains a missing one
        first: Any = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        where = tuple(first["loc"])
        if first["type"] == "extra_forbidden":
            fault = str(unknown("key", str(where[-1])[:SHOWN], _keys(model, where[:-1])))
        elif first["type"] == "value_error":  # one of our own, to which pydantic adds its kind
            fault = str(first["ctx"]["error"])
        else:
            fault = "expected a list, like [a, b]" if first["type"] == "tuple_type" else str(first["msg"])
        line = next((lines[where[:n]] for n in range(len(where), 0, -1) if where[:n] in lines), 1)
        place = f"{path}: line {line}" if lines else str(path)
        key = ".".join(str(part)[:SHOWN] for part in where) or "(whole file)"
        raise Invalid(f"{place}: {key}: {fault}") from None


def _keys(annotation: Any, where: tuple[Any, ...]) -> list[str]:
    """Return the keys that a place of a model may have."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        if not where:
            return list(fields)
        return _keys(fields[where[0]].annotation, where[1:]) if where[0] in fields else []
    inside = where[1:] if get_origin(annotation) in (dict, list, tuple) else where  # past the key or the position
    return next((keys for part in get_args(annotation) if (keys := _keys(part, inside))), [])
