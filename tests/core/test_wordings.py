"""The wording of all errors, as a person reads it: `pytest --snapshot-update` writes what has changed."""

import ast
from collections.abc import Iterator

from syrupy.assertion import SnapshotAssertion

from traube._core import errors, paths

CLASSES = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.TraubeError)
}
KINDS = CLASSES | {"NotPosted", "Unlabeled", "type(error)"}
FOLDERS = ("traube", "assets", "resources", "sensors", "operations")
FILES = [path for folder in FOLDERS for path in sorted((paths.PROJECT / folder).rglob("*.py"))]
MODULES = {path.relative_to(paths.PROJECT).as_posix(): ast.parse(path.read_text()) for path in FILES}


class _Template(ast.NodeTransformer):
    """Turns f-strings into texts with `{values}`, and names of texts, such as `fault`, into these texts."""

    def __init__(self, function: ast.AST) -> None:
        given: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                given.setdefault(node.targets[0].id, []).append(node.value)
        self.named = {name: texts[0] for name, texts in given.items() if len(texts) == 1 and _is_text(texts[0])}

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("".join(self.read(getattr(part, "value", part)) for part in node.values))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.visit(self.named[node.id]) if node.id in self.named else node

    def read(self, node: ast.expr | str) -> str:
        new = ast.Constant(node) if isinstance(node, str) else self.visit(node)
        return str(new.value) if isinstance(new, ast.Constant) else f"{{{ast.unparse(new)}}}"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _list_errors(node: ast.AST, function: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind and the message of each error, in the order of the source."""
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and child.args:
            kind = ast.unparse(child.func).removeprefix("errors.")
            if kind in KINDS or (isinstance(node, ast.Raise) and _is_text(child.args[0])):
                yield kind, _Template(inside).read(child.args[0])
        yield from _list_errors(child, inside)


def test_the_wordings_are_those_that_a_person_has_read(snapshot: SnapshotAssertion) -> None:
    found = {
        module: [f"  {kind}: {text}" for kind, text in _list_errors(tree, tree)] for module, tree in MODULES.items()
    }
    assert "\n".join(f"\n{module}\n" + "\n".join(lines) for module, lines in found.items() if lines) == snapshot


def test_every_error_has_a_kind() -> None:
    calls = [(module, n) for module, tree in MODULES.items() for n in ast.walk(tree) if isinstance(n, ast.Call)]
    assert [f"{module}:{n.lineno}" for module, n in calls if ast.unparse(n.func).endswith("TraubeError")] == []
