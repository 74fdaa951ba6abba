"""The wording of all errors, as a person reads it: `pytest --snapshot-update` writes what has changed."""

import ast
from collections.abc import Iterator

from syrupy.assertion import SnapshotAssertion

from traube._core import errors, paths
from traube._core.errors import TraubeError

FOLDERS = ("traube", "assets", "resources", "sensors", "operations")
CLASSES = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TraubeError)}
KINDS = CLASSES | {"NotPosted", "Unlabeled", "type(error)"}
MODULES = {
    path.relative_to(paths.PROJECT).as_posix(): ast.parse(path.read_text())
    for folder in FOLDERS
    for path in sorted((paths.PROJECT / folder).rglob("*.py"))
}


class _Template(ast.NodeTransformer):
    """Turns f-strings into texts with `{values}`, and names of texts, such as `fault`, into these texts."""

    def __init__(self, named: dict[str, ast.expr]) -> None:
        self.named = named

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("".join(self.read(getattr(part, "value", part)) for part in node.values))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.visit(self.named[node.id]) if node.id in self.named else node

    def read(self, node: ast.expr | str) -> str:
        if isinstance(node, str):
            return node
        new = self.visit(node)
        return str(new.value) if isinstance(new, ast.Constant) else f"{{{ast.unparse(new)}}}"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _list_texts(function: ast.AST) -> dict[str, ast.expr]:
    """Return the texts that a function gives a name once."""
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in named.items() if len(values) == 1 and _is_text(values[0])}


def _list_errors(node: ast.AST, function: ast.AST) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield the kind, the message and the function of each error, in the order of the source."""
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and child.args:
            kind = ast.unparse(child.func).removeprefix("errors.")
            if kind in KINDS or (isinstance(node, ast.Raise) and _is_text(child.args[0])):
                yield kind, child.args[0], inside
        yield from _list_errors(child, inside)


def test_the_wordings_are_those_that_a_person_has_read(snapshot: SnapshotAssertion) -> None:
    lines = []
    for module, tree in MODULES.items():
        found = [(kind, _Template(_list_texts(inside)).read(text)) for kind, text, inside in _list_errors(tree, tree)]
        lines += ["", module, *(f"  {kind}: {text}" for kind, text in found)] if found else []
    assert "\n".join(lines) == snapshot


def test_every_error_has_a_kind() -> None:
    bare = [
        f"{module}:{node.lineno}"
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("TraubeError")
    ]
    assert bare == []
