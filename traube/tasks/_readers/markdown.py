"""A folder of Markdown files, a wiki say, as clustering problems for a query.

`cards/README.md` lists the keys of its card. See `traube.tasks._sections` for labels, split sets and what is left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pandas as pd
from pydantic import Field, model_validator
from typing_extensions import override

from traube._core.config import PathName
from traube._core.errors import TooFew
from traube._core.hashing import digest
from traube._core.inputs import is_file, is_folder, resolve_path
from traube.tasks._reading import read_any_text
from traube.tasks._sections import Level, Page, Passage, draw, make_records
from traube.tasks._source import CardSource, KeyLines
from traube.tasks._splitting import make_rng
from traube.tasks._task import Subset, TaskCard

if TYPE_CHECKING:  # importing it takes longer than listing all tasks
    from markdown_it.token import Token

LARGEST = 8 * 2**20  # bytes of a page: Markdown is read at a second for 50 to 500 KiB
SUFFIXES = (".md", ".markdown")
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(---|\.\.\.)[ \t]*(\n|\Z)", re.S)
TITLE = re.compile(r"^title:[ \t]*(['\"]?)(.+?)\1[ \t]*$", re.M)
PASSAGES = ("paragraph_open", "bullet_list_open", "ordered_list_open", "blockquote_open")


class MarkdownCard(TaskCard):
    """A task card that says where the pages lie."""

    markdown: PathName
    sections: Level = Field("flat", description="flat for top sections, hier for whole paths")
    train: float = Field(0, ge=0, lt=1, description="share of pages to train on")
    validation: float = Field(0, ge=0, lt=1, description="share of pages to validate")

    @model_validator(mode="after")
    def _some_are_tested(self) -> "MarkdownCard":
        if self.train + self.validation >= 1:
            raise ValueError("`train` and `validation` leave no page to be scored")
        return self


class Markdown(CardSource[MarkdownCard]):
    """A folder of pages described by a card: files `*.md` or `*.markdown`, also in folders below, but hidden ones."""

    form = MarkdownCard
    key = "markdown"

    def __init__(self, path: Path, settings: MarkdownCard, key_lines: KeyLines | None = None) -> None:
        super().__init__(path, settings, key_lines)
        self.has_training_splits = settings.train > 0 and settings.validation > 0

    @property
    def folder(self) -> Path:
        """Return the folder of Markdown files."""
        return resolve_path(self.path.parent, self.settings.markdown)

    @override
    def files(self) -> list[Path]:
        files = (path for path in self.folder.rglob("*") if path.suffix.lower() in SUFFIXES and is_file(path))
        inner = {path.relative_to(self.folder): path for path in files}
        return [path for name, path in sorted(inner.items()) if not any(part.startswith(".") for part in name.parts)]

    @override
    def missing(self) -> str | None:
        where = f"{self.place(self.key)}: {self.folder}"
        if not is_folder(self.folder):
            return f"{where} is a file, not a folder" if is_file(self.folder) else f"{where} is not there"
        return None if self.files() else f"{where} holds no file *.md or *.markdown"

    @override
    def raw_version(self) -> str:
        return digest([super().raw_version(), list(map(self._name, self.files()))])

    @override
    def read(self) -> pd.DataFrame:
        files = self.files()
        pages = (read_page(path, self._name(path)) for path in files)
        records = make_records(pages, self.settings.sections, self.folder)
        if records.empty:
            raise TooFew(f"{self.folder}: none of its {len(files)} pages has passages in two sections")
        return records.assign(part=records["page"].map(self._draw_subset))

    @override
    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        return draw(records, self.settings.sections)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _draw_subset(self, page: str) -> Subset:
        """Return a page's subset, which depends on its name only: a new page leaves the others where they are."""
        drawn = make_rng(page).random()
        if drawn < self.settings.train:
            return "train"
        return "validation" if drawn < self.settings.train + self.settings.validation else "test"


def read_page(path: Path, name: str) -> Page:
    """Return a file's title and passages.

    Headings are sections; paragraphs, lists and quotes are passages; code, tables and HTML are left out. The title is
    that of the front matter, or the only heading of level one if it comes first, or the name of the file.
    """
    from markdown_it import MarkdownIt

    text = read_any_text(path, LARGEST).replace("\r\n", "\n")
    front = FRONT_MATTER.match(text)
    blocks = list(_blocks(MarkdownIt("commonmark").enable("table").parse(text[front.end() :] if front else text)))

    titles = [text for level, text in blocks if level == 1]
    heading = titles[0] if len(titles) == 1 and blocks[0][0] == 1 else None
    stated = TITLE.search(front[0]) if front else None
    title = stated[2] if stated else heading or unquote(path.stem).replace("_", " ")

    passages = []
    above: list[tuple[int, str]] = []  # the headings that a passage stands under, from the top down
    for level, text in blocks[1:] if heading else blocks:
        if level:
            above = [*(upper for upper in above if upper[0] < level), (level, text)]
        else:
            passages.append(Passage(name, tuple(upper for _, upper in above), text))
    return Page(name, title, passages)


def _blocks(tokens: "list[Token]") -> Iterator[tuple[int, str]]:
    """Yield headings and passages of a page in order: level (0: a passage) and text.

    Headings in lists and quotes are text.
    """
    begin = 0
    for i, token in enumerate(tokens):
        if token.level:
            continue
        if token.nesting == 1:
            begin = i
        opened = tokens[begin]
        if token.nesting == -1 and opened.type in (*PASSAGES, "heading_open"):
            inlines = ["".join(map(_read, inline.children)) for inline in tokens[begin:i] if inline.children]
            if text := " ".join(" ".join(inlines).split()):  # a heading without a text begins no section
                yield int(opened.tag[1]) if opened.type == "heading_open" else 0, text


def _read(part: "Token") -> str:
    """Return the visible text of a part; of a picture, its alternative text."""
    if part.type in ("text", "code_inline", "image"):
        return part.content
    return " " if part.type in ("softbreak", "hardbreak", "html_inline") else ""


CARDS = {"markdown": Markdown}
