"""Docstrings of Python packages that are installed with Traube: a benchmark that needs no download."""

import ast
import gc
import importlib.util
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field
from typing_extensions import override

from traube._core.errors import install_hint
from traube._core.hashing import digest
from traube.tasks._source import CardSource, Source
from traube.tasks._splitting import draw_fractions, make_rng, shuffle, split_whole
from traube.tasks._task import Declared, TaskCard

Kind = Literal["s2s", "p2p"]
SizeName = Literal["small", "full"]


@dataclass(frozen=True)
class Size:
    """Amount of documentation that a task holds."""

    packages: tuple[str, ...]  # import names; a summary that occurs twice belongs to the first
    drawn: int  # number of random splits per level
    within: int  # number of splits inside one package
    subpackages: int | None = None  # how many of each package, the largest ones; None for all
    texts: int | None = None  # how many random ones of each package; None for all


# Quick to parse, and as many texts from each, so that the sizes hold for every version of these packages.
SMALL = Size(("sklearn", "scipy", "networkx", "matplotlib", "numpy", "pandas"), 3, 6, subpackages=6, texts=300)
FULL = Size(
    (
        *SMALL.packages,
        *("celery", "fontTools", "graphql", "great_expectations", "huggingface_hub", "mlflow", "numba", "river"),
        *("sentence_transformers", "sqlalchemy", "sympy", "torch", "transformers"),
    ),
    drawn=10,
    within=8,
)
SIZES: dict[SizeName, Size] = {"small": SMALL, "full": FULL}
TEXTS: dict[Kind, str] = {"s2s": "summaries", "p2p": "whole docstrings without code"}
DECLARED: dict[SizeName, Declared] = {
    "small": Declared(splits=12, rows=(300, 1373), classes=(6, 36)),
    # Bounds: numpy, scipy and networkx come in other versions with Python 3.12 and later.
    "full": Declared(splits=28, rows=(2_000, 37_500), classes=(7, 380)),
}

DISTRIBUTIONS = {"sklearn": "scikit-learn", "graphql": "graphql-core"}  # where the two names differ

# Tests and copies of other packages: their docstrings do not belong to the package that contains them.
FOREIGN = {"conftest.py", "test", "tests", "testing", "externals", "extern", "vendor", "vendored", "third_party"}
# One text per model architecture, nearly word for word the same, and a third of all bytes.
REPETITIVE = {("transformers", "models")}

FEWEST_WORDS = 3
FEWEST_TEXTS = 10  # a smaller subpackage is no class

BOILERPLATE = re.compile(r"(alias |auto-?generated|copyright|deprecated|licensed|see |same as |todo|\{)|.*%\(", re.I)
SIGNATURE = re.compile(r"[\w.]+\([^()]*(\([^()]*\)[^()]*)*\)(\s*(->|:|=).*)?$")
AFTER_SUMMARY = re.compile(
    r"\n\s*(:\w|@\w|\.\.\s|>>>|```|[-=~^*]{3}"
    r"|(Args|Arguments|Attributes|Examples?|Notes?|Parameters|Raises|Returns?|Usage|Yields)\b *(:|\n *---))",
    re.I,
)
CODE = (
    re.compile(r"^( *)```.*?(^\1```|\Z)", re.M | re.S),
    # A numpydoc section `Examples`, underlined, up to the next underlined heading.
    re.compile(
        r"^( *)(Examples?|Usage) *\n\1([-=~^])\3{2,}\n.*?(?=^\1\S[^\n]*\n\1([-=~^])\4{2,} *$|\Z)", re.M | re.S | re.I
    ),
    # A heading `Example:` or a directive of code, with the lines indented below it.
    re.compile(
        r"^( *)((Examples?|Usage)[^\n:]{,20}::?"
        r"|\.\. (code|code-block|doctest|ipython|plot|prompt|sourcecode|testcode)::[^\n]*)"
        r" *\n(( *|\1 +[^\n]*)(\n|\Z))*",
        re.M | re.I,
    ),
    # What is indented below a paragraph that ends with `::`, but not a formula or a note (`.. math::`).
    re.compile(r"^(?P<kept>(?! *\.\. )[^\n]*::) *\n( *\n)+(?P<indent> +)\S[^\n]*((\n *)*\n(?P=indent)[^\n]*)*", re.M),
    re.compile(r"^ *>>>.*?(?=\n *\n|\Z)", re.M | re.S),
)
RULE = re.compile(r"^ *([-=~^*+])\1{2,} *$", re.M)


class PydocsCard(TaskCard):
    """The card of a task of docstrings: its `size` says how many packages, texts and splits it holds."""

    pydocs: Kind = Field(description="s2s for summaries, p2p for whole docstrings")
    size: SizeName = Field("small", description="small for a demo, full for benchmarks")

    def plain(self) -> TaskCard:
        """Return the fields that every task has; the packages supply those that the card leaves out."""
        packages = SIZES[self.size].packages
        known = TaskCard(
            name=self.name,
            family="pydocs",
            description=f"Documentation of {len(packages)} Python packages ({TEXTS[self.pydocs]}), by package and subpackage.",
            language="en",
            license="each package's own (BSD, Apache-2.0, MIT, LGPL, Matplotlib)",
            citation="the packages and versions in requirements.lock",
            source=f"the installed packages {', '.join(packages)}",
            declared=DECLARED[self.size],
        )
        stated = self.model_fields_set & set(TaskCard.model_fields)
        return known.model_copy(update={name: getattr(self, name) for name in stated})


class Pydocs(CardSource[PydocsCard]):
    """Docstrings of the public modules, classes, methods and functions of the packages of a size.

    A text is a summary (`s2s`) or all but the code examples (`p2p`). `coarse` is its package, `fine` its public
    subpackage (`sklearn.cluster`). Both kinds of task hold the same records in the same order, so that short and long
    texts compare like for like.
    """

    form = PydocsCard

    @property
    def size(self) -> Size:
        """The packages, and how many docstrings are drawn."""
        return SIZES[self.settings.size]

    @override
    def files(self) -> list[Path]:
        return []

    @override
    def missing(self) -> str | None:
        absent = ", ".join(p for p in self.size.packages if importlib.util.find_spec(p) is None)
        return f"package {absent} is not installed: {install_hint('platform', 'setup')}" if absent else None

    @override
    def raw_version(self) -> str:
        versions = {p: version(DISTRIBUTIONS.get(p, p)) for p in self.size.packages}
        read = self.settings.pydocs, asdict(self.size), versions
        return digest([type(self).__name__, self.version, self.card.model_dump(), *read])

    @override
    def read(self) -> pd.DataFrame:
        records = read_docstrings(self.size)
        return records.assign(text=records[self.settings.pydocs])[["text", "coarse", "fine"]]

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Draw random shares labeled by package and by subpackage, and the largest packages labeled by subpackage."""
        coarse = draw_fractions(records, self.size.drawn, "coarse", prefix="coarse")
        fine = draw_fractions(records, self.size.drawn, "fine", prefix="fine")
        packages = records.groupby("coarse", sort=False)["fine"].agg(["size", "nunique"])
        largest = packages[packages["nunique"] >= 2].sort_values("size", ascending=False, kind="stable").index
        within = [
            split_whole(records[records["coarse"] == package], f"within_{package.lower()}", "fine")
            for package in largest[: self.size.within]
        ]
        return pd.concat([*coarse, *fine, *within], ignore_index=True)


@lru_cache(maxsize=2)  # parsing takes seconds and two tasks share it
def read_docstrings(size: Size) -> pd.DataFrame:
    """Return the records of a size, in package and file order.

    The columns are coarse, fine, s2s (the summary) and p2p (the prose).
    """
    was_enabled = gc.isenabled()
    gc.disable()  # syntax trees have no cycles, and looking for them takes a third of the time
    try:
        records = [record for package in size.packages for record in _records(package)]
    finally:
        if was_enabled:
            gc.enable()
    frame = pd.DataFrame(records, columns=["coarse", "fine", "s2s", "p2p"])
    frame = frame.drop_duplicates("s2s").drop_duplicates("p2p")
    frame = frame[frame.groupby("fine")["s2s"].transform("size") >= FEWEST_TEXTS]

    if size.subpackages is not None:
        sizes = frame.groupby(["coarse", "fine"], sort=False).size().sort_values(ascending=False, kind="stable")
        largest = sizes.groupby(level="coarse").head(size.subpackages)
        frame = frame[frame["fine"].isin(largest.index.get_level_values("fine"))]

    if size.texts is not None:
        samples = []
        for package, texts in frame.groupby("coarse", sort=False):
            drawn = shuffle(len(texts), make_rng(f"sample {package}"))[: size.texts]
            samples.append(texts.iloc[sorted(drawn)])
        frame = pd.concat(samples)
    return frame.reset_index(drop=True)


def _records(package: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the records of a package.

    Its files are parsed, never imported: the result is the same everywhere, and no foreign code runs.
    """
    spec = importlib.util.find_spec(package)  # of a top-level name: finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"there is no installed package '{package}'")
    root = Path(next(iter(spec.submodule_search_locations)))
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        parts = path.relative_to(root).parts
        # `cluster/_kmeans.py` is public: its names are exported by `cluster`
        private = any(part.startswith("_") and part != "__init__.py" for part in parts[:-1] or parts)
        foreign = path.name.startswith("test_") or FOREIGN.intersection(parts)
        if private or foreign or (package, parts[0]) in REPETITIVE:
            continue
        fine = ".".join([package, *parts[:1]]).removesuffix(".py").removesuffix(".__init__")
        for docstring in _docstrings_of(path):
            short = extract_summary(docstring)
            if len(short.split()) >= FEWEST_WORDS and not BOILERPLATE.match(short):
                yield package, fine, short, extract_prose(docstring)


def _docstrings_of(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file's public names; none of a file that is a template or of another Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in other people's strings
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    yield from filter(None, map(ast.get_docstring, (tree, *_public_nodes(tree))))


def _public_nodes(parent: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.If | ast.Try):
            yield from _public_nodes(node)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public_nodes(node)


def extract_summary(docstring: str) -> str:
    """Return the first paragraph in one line, without a signature before it and field lists or sections after it."""
    head = AFTER_SUMMARY.split(f"\n{docstring}", maxsplit=1)[0]
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", head))
    return next((p for p in paragraphs if p and not SIGNATURE.match(p)), "")


def extract_prose(docstring: str) -> str:
    """Return the whole docstring in one line, without examples, code and rules."""
    for code in CODE:
        docstring = code.sub(lambda match: match.groupdict().get("kept", "") + "\n", docstring)
    return " ".join(RULE.sub("", docstring).split())


def sources() -> list[Source]:
    """Return the four tasks: summaries and whole docstrings, small (the default) and full."""
    tasks: list[Source] = []
    for size in SIZES:
        for kind in TEXTS:
            name = f"pydocs_{kind}" if size == "small" else f"pydocs_{kind}_{size}"
            tasks.append(Pydocs(Path(name), PydocsCard(name=name, pydocs=kind, size=size)))
    return tasks


CARDS = {"pydocs": Pydocs}
