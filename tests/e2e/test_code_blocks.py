"""The code blocks of all pages: Python runs, YAML is what Traube reads, commands exist and the cheap ones run.

The guides `adding_a_*.md` are followed to the letter in test_guides.py, the notebooks in test_examples.py, and the Python of
README.md in test_api.py.
"""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter
from typer.main import get_command
from typer.testing import CliRunner

from traube import load_task
from traube._cli.main import app
from traube._core import paths
from traube._grouping.edits import Edit
from traube._pipeline.params import Inbox, Protocol
from traube.models.card import ModelCard
from traube.tasks.readers.markdown import MarkdownCard
from traube.tasks.readers.mteb_rows import RowsCard
from traube.tasks.readers.pair_table import PairTableCard
from traube.tasks.readers.table import TableCard

DOCS = paths.PROJECT / "docs"
PAGES = [
    *(paths.PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(paths.PROJECT / name for name in ("benchmarks/README.md", "cards/README.md")),
    *sorted(paths.PROJECT.glob("traube/papers/*/README.md")),
    *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts),
]
# Python that is compiled, not run.
COMPILED_ONLY = {
    "docs/how-to/champions.md": "needs a registry with a champion",
    "docs/how-to/inbox.md": "needs texts that were assigned",
    "docs/reference/python.md": "needs a table of the reader's own, and a model of the hub",
}
# YAML that other programs read.
PARSED_ONLY = {"docs/how-to/ray.md": "is of dagster-ray, which is not installed"}
# Commands that a test runs as they stand on the page. All others are checked against the options that the command has: they
# compute for minutes, train, need files or servers of the reader's own, or change what is stored.
CHEAP = ("models", "methods", "trainers")
CARDS: dict[str, type[BaseModel]] = {
    "model": ModelCard,
    "pairs": PairTableCard,
    "markdown": MarkdownCard,
    "rows": RowsCard,
    "file": TableCard,
}


def name_of(path: Path) -> str:
    return path.relative_to(paths.PROJECT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    """Return the blocks of a language, those of lists too."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", path.read_text("utf-8"), re.M | re.S)
    return [re.sub(rf"^{indent}", "", content, flags=re.M) for indent, content in found]


def pages_with(language: str) -> Any:
    return pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, language)], ids=name_of)


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each call of `traube` in the console blocks and between the backticks of a page."""
    lines = [line for block in blocks(path, "console") for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S)
    lines += [" ".join(code.split()) for code in re.findall(r"`(traube [a-z][^`]*)`", prose)]
    for line in lines:
        words = [*shlex.split(line, comments=True)]
        for i, word in enumerate(words):
            if word == "traube" and (i == 0 or words[i - 1] in {"|", "&&"} or "=" in words[i - 1]):
                end = next((j for j in range(i, len(words)) if words[j] in {"|", ">", "&&"}), len(words))
                yield words[i + 1 : end]


@pages_with("python")
def test_python_of_a_page_runs(path: Path, home: Path) -> None:
    name = name_of(path)
    if path.stem.startswith("adding_a_") or name == "README.md":
        pytest.skip("run by another test")
    scope: dict[str, object] = {}
    for code in blocks(path, "python"):
        compiled = compile(code, name, "exec")
        if name not in COMPILED_ONLY:
            exec(compiled, scope)


@pages_with("yaml")
def test_yaml_of_a_page_is_what_traube_reads(path: Path) -> None:
    for block in blocks(path, "yaml"):
        content = yaml.safe_load(block)
        if "type" in content:  # a component, whose attributes are a card
            assert hasattr(import_module("operations.components"), content["type"].rpartition(".")[2])
            content = content.get("attributes")
        if content is None:
            continue
        if name_of(path) in PARSED_ONLY:
            continue
        if "edits" in content:
            TypeAdapter(list[Edit]).validate_python(content["edits"])
        elif "inbox" in content:
            TypeAdapter(dict[str, Inbox]).validate_python(content["inbox"])
        elif "parameters_of" in content:
            Protocol.model_validate({"reducers": ["none"], "clusterers": ["aecl"], **content})
        elif block.startswith("# in traube/models/catalogue.yaml"):
            for name, card in content.items():
                ModelCard.model_validate({"name": name, **card})
        else:
            (kind,) = [model for key, model in CARDS.items() if key in content]
            kind.model_validate({"name": "example", **content})


@pytest.mark.parametrize("path", [path for path in PAGES if [*commands(path)]], ids=name_of)
def test_commands_of_a_page_exist_with_these_options(path: Path) -> None:
    for words in commands(path):
        command: Any = get_command(app)
        rest = words
        while rest and (inner := getattr(command, "commands", {}).get(rest[0])):
            command, rest = inner, rest[1:]
        assert not getattr(command, "commands", None) or not rest or rest[0].startswith("-"), (
            f"traube {shlex.join(words)}"
        )
        parser = command.make_parser(command.context_class(command))
        _, more, _ = parser.parse_args([word for word in rest if word != "..."])
        assert not more, f"traube {shlex.join(words)}: {command.name} takes no {more}"


CHEAP_CALLS = sorted({tuple(words) for path in PAGES for words in commands(path) if words[0] in CHEAP})


@pytest.mark.parametrize("words", CHEAP_CALLS, ids=" ".join)
def test_a_cheap_command_of_a_page_runs(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [word for word in words if not word.isupper()])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_the_readmes_commands_print_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns and lines; models of words take its place for minilm, and numbers and texts are those of 60 docstrings."""
    task = load_task("pydocs_s2s")
    rows = task.splits[task.splits["split"] == "coarse_00"].merge(task.corpus, on="text_id")
    table = rows.rename(columns={"label": "package"}).groupby("package").head(10)
    table[["text", "package"]].to_csv(tmp_path / "docstrings.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    page = paths.PROJECT / "README.md"
    calls = [words for words in commands(page) if "docstrings.csv" in words]
    printed = []
    for words in calls:
        cheap = ["-m", "tfidf", "--no-report"] if words[0] == "cluster" else []
        done = CliRunner().invoke(app, [*("bow" if word == "minilm" else word for word in words), *cheap])
        assert done.exit_code == 0, done.output
        printed.append(done.output)
    groups, verdict = blocks(page, "text")
    heads = [
        re.split(r"\s*┃\s*", line.strip(" ┃"))
        for line in (groups, printed[0])
        for line in line.splitlines()
        if "┃" in line
    ]
    assert heads[0] == heads[1]
    form = [re.sub(r"[-+]?\d[\d.e-]*", "N", line) for line in verdict.splitlines()]
    same = [
        re.sub(r"[-+]?\d[\d.e-]*", "N", line) for line in re.sub(r"\n(?=comparison)", " ", printed[-1]).splitlines()
    ]
    assert [line.split()[0] for line in form] == [line.split()[0] for line in same[: len(form)]]
    assert re.sub(r", N comparisons?", "", form[-1]).split()[:9] == re.sub(r", N comparisons?", "", same[3]).split()[:9]
