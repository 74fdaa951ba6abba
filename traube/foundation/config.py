"""YAML read into pydantic models, with errors that name the file, the line and the key."""

from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from traube.foundation.errors import TraubeError, unknown

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A model that refuses keys it does not know: a misspelt key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """Read a YAML mapping; return it and the line of each key path.

    Raises
    ------
    TraubeError
        If the file is absent, is not YAML, or does not hold a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TraubeError(f"{path}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise TraubeError(f"{path}: not UTF-8 (byte {error.start})") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise TraubeError(f"{path}: {line}not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(value, dict):
        raise TraubeError(f"{path}: line 1: expected `key: value` lines")
    return value, dict(_lines(node, ()))


def _lines(node: yaml.Node | None, path: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        lines = []
        for key, child in node.value:
            lines.append(((*path, key.value), key.start_mark.line + 1))
            lines.extend(_lines(child, (*path, key.value)))
        return lines
    if isinstance(node, yaml.SequenceNode):
        lines = []
        for i, child in enumerate(node.value):
            lines.append(((*path, i), child.start_mark.line + 1))
            lines.extend(_lines(child, (*path, i)))
        return lines
    return []


def parse(model: type[M], value: Any, path: Path, lines: dict[tuple[Any, ...], int]) -> M:
    """Validate `value` as `model`; the error names the file, the line and the key of the first
    problem.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # a misspelt key explains the one that is missing
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        where = tuple(first["loc"])
        line = next((lines[where[:n]] for n in range(len(where), 0, -1) if where[:n] in lines), 1)
        key = ".".join(map(str, where)) or "(whole file)"
        raise TraubeError(f"{path}: line {line}: {key}: {_fault(model, first, where)}") from None


def _fault(model: type[BaseModel], error: Any, where: tuple[Any, ...]) -> str:
    """What is wrong, in words."""
    if error["type"] == "extra_forbidden":
        return str(unknown("key", str(where[-1]), _keys(model, where[:-1])))
    return "expected a list, like [a, b]" if error["type"] == "tuple_type" else str(error["msg"])


def _keys(annotation: Any, where: tuple[Any, ...]) -> list[str]:
    """The keys that there may be at a place of a model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        if not where:
            return list(fields)
        return _keys(fields[where[0]].annotation, where[1:]) if where[0] in fields else []
    inside = where[1:] if get_origin(annotation) in (dict, list, tuple) else where  # past the key or the position
    return next((keys for part in get_args(annotation) if (keys := _keys(part, inside))), [])
