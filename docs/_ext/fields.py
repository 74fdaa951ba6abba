"""Directives that make tables of what the code says: `fields` of a pydantic model, `columns` of the catalog."""

import types
import typing
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pydantic import BaseModel
from pydantic_core import PydanticUndefined


def _name_type(annotation: Any) -> str:
    """Return a type as a reader of YAML knows it."""
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _name_type(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(_name_type(a) for a in arguments if a is not type(None)))
    if origin in (tuple, list, set, frozenset):
        return f"list of {_name_type(arguments[0])}"
    if origin is dict:
        return f"map to {_name_type(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__
    return {"str": "text", "bool": "yes or no", "int": "integer", "float": "number", "Path": "path"}.get(
        getattr(annotation, "__name__", ""), str(annotation)
    )


class _Table(Directive):
    """A directive that renders rows as a table of Markdown."""

    required_arguments = 1
    optional_arguments = 1
    header: tuple[str, ...]

    def rows(self, thing: Any) -> Iterable[tuple[str, ...]]:
        """Return the rows of what the argument names."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        module, _, name = self.arguments[0].rpartition(".")
        rows = [self.header, tuple("---" for _ in self.header), *self.rows(getattr(import_module(module), name))]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, self.arguments[0]), 0, parent)
        return parent.children


class Fields(_Table):
    """The keys of a card or of params.yaml; a second argument names a model whose keys are left out."""

    header = ("key", "what", "default", "meaning")

    def rows(self, thing: type[BaseModel]) -> Iterable[tuple[str, ...]]:
        """Return a row for each field."""
        known: set[str] = set()
        if len(self.arguments) > 1:
            module, _, name = self.arguments[1].rpartition(".")
            known = set(getattr(import_module(module), name).model_fields)
        for key, field in thing.model_fields.items():
            if key in known:
                continue
            default = "required" if field.is_required() else ""
            if field.default not in (None, PydanticUndefined, "", ()) and not isinstance(field.default, BaseModel):
                default = f"`{list(field.default) if isinstance(field.default, tuple) else field.default}`"
            kind = _name_type(field.annotation)
            yield f"`{field.alias or key}`", kind, default, field.description or ""


class Columns(_Table):
    """The tables of a SQLAlchemy metadata."""

    header = ("table", "key", "other columns")

    def rows(self, thing: Any) -> Iterable[tuple[str, ...]]:
        """Return a row for each table."""
        for table in thing.tables.values():
            keys = [column.name for column in table.primary_key]
            others = [column.name for column in table.columns if column.name not in keys]
            yield f"`{table.name}`", ", ".join(f"`{k}`" for k in keys), ", ".join(f"`{c}`" for c in others)


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("fields", Fields)
    app.add_directive("columns", Columns)
    return {"parallel_read_safe": True}
