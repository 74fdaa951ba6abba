"""Check words, docstrings and lengths of functions: `python deploy/check_style.py FOLDER...`.

Code, docstrings, help texts and pages use the words of the field, in American spelling. A docstring starts with a
verb, not with a question. The body of a function has at most 60 lines, its docstring apart. A local of the code is
called after what it is, not after where it comes from.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 60  # lines of the body of a function
KINDS = {".py", ".md", ".rst", ".html", ".yaml"}
ROOT = Path(__file__).resolve().parents[1]

# names of locals that say nothing of the value; fields of classes, which are stored or documented, keep theirs
VAGUE = {"found", "own", "shown"}
ROOMS = {"assets", "operations", "resources", "sensors", "traube"}  # whose locals are checked
# words of no other library, and what the field says
DIALECT = {
    "amiss": "wrong, or missing",
    "anew": "again",
    "asked": "requested",
    "blamed": "the file that an error names",
    "heed": "respect",
    "heeded": "respected",
    "heeds": "respects",
    "inert": "escaped",
    "ledger": "catalog",
    "nights": "nightly runs",
    "owed": "pending",
    "shelf": "cache",
    "steadiest": "most stable",
    "told": "reported",
    "unlogged": "not tracked",
    "untold": "not reported",
}
BRITISH = {
    "artefact": "artifact",
    "behaviour": "behavior",
    "cancelled": "canceled",
    "cancelling": "canceling",
    "centre": "center",
    "colour": "color",
    "favour": "favor",
    "grey": "gray",
    "judgement": "judgment",
    "labelled": "labeled",
    "labelling": "labeling",
    "learnt": "learned",
    "licence": "license",
    "modelling": "modeling",
    "neighbour": "neighbor",
    "normalis": "normaliz",
    "optimis": "optimiz",
    "organis": "organiz",
    "spelt": "spelled",
    "summaris": "summariz",
    "tokenis": "tokeniz",
    "visualis": "visualiz",
}
# ordinary English, names of other libraries, and names that are stored
ALLOWED = re.compile(
    r"told apart|cannot be told from|\.cancelled\(|legacy_behaviour|aria-labelledby|recipe\.neighbours|neighbours: int"
    r"|\bLICENCE\*|(self|modules)\.centres|\"centres\"|labels: centres"
)
# a part of an identifier is a word, too: `is_told`, but not `masked`; stems of British spellings stand anywhere
WORD = re.compile(rf"(?<![a-z])({'|'.join(DIALECT)})(?![a-z])|({'|'.join(BRITISH)})", re.IGNORECASE)
QUESTION = re.compile(r"(What|Whether|How|Who|Where|Why|Which)\b")


def find_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with a word that the style guide replaces, and the replacement."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in WORD.finditer(ALLOWED.sub("", line)):
            word = match.group().lower()
            yield number, f"'{word}': write {(DIALECT | BRITISH)[word]}"


def find_faults(code: str) -> Iterator[tuple[int, str]]:
    """Yield the functions that are too long, and the docstrings that start with a question."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if QUESTION.match(ast.get_docstring(node) or ""):
            yield node.body[0].lineno, "a docstring starts with a question: start with what the code does"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > LONGEST:
                yield node.lineno, f"{node.name} has {lines} lines, more than {LONGEST}: cut it by its steps"


def find_vague_names(code: str) -> Iterator[tuple[int, str]]:
    """Yield the locals, parameters and loop variables whose names are `VAGUE`."""
    tree = ast.parse(code)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {node.target for body in bodies for node in body if isinstance(node, ast.AnnAssign)}
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.alias):
            name = node.asname or ""
        if name in VAGUE:
            yield node.lineno, f"'{name}': call it by what it is, such as matches, members or columns"


def _has_checked_names(path: Path) -> bool:
    """Return whether the names of a file's locals are checked."""
    file = path.resolve()
    is_in_room = file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in ROOMS
    return is_in_room and file.suffix == ".py"


def check(path: Path) -> list[str]:
    """Return the faults of a file, a line for each."""
    text = path.read_text(encoding="utf-8")
    faults = [*find_words(text), *(find_faults(text) if path.suffix == ".py" else ())]
    faults += find_vague_names(text) if _has_checked_names(path) else ()
    return [f"{path}:{line}: {fault}" for line, fault in sorted(faults)]


def main(places: list[str]) -> int:
    """Print the faults below files and folders; return the exit code."""
    files = {p for place in places for p in ([Path(place)] if Path(place).is_file() else Path(place).rglob("*"))}
    quoting = {Path(__file__).resolve(), ROOT / "tests" / "test_style.py"}  # the words themselves
    paths = sorted(p for p in files if p.suffix in KINDS and "_build" not in p.parts and p.resolve() not in quoting)
    faults = [fault for path in paths for fault in check(path)]
    print(*faults, sep="\n", end="\n" * bool(faults))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
