"""The eight short-text collections of the AECL paper. Each is one clustering problem.

GoogleNews-T and -S are titles and snippets of the same news, but not row by row: each lost another row of -TS. They are
three tasks, and nothing here joins them.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed
from traube._core.inputs import is_file
from traube._core.paths import raw
from traube.papers.aecl import TASKS
from traube.tasks import get_source
from traube.tasks._reading import find_file, read_csv, read_lines
from traube.tasks._source import Source, catalogue_card
from traube.tasks._splitting import split_whole
from traube.tasks._task import TaskCard

EMPTY = "."  # the paper's code puts this in place of a missing text


@dataclass(frozen=True)
class Collection:
    """The files that hold a data set, best first."""

    aecl: str = ""  # csv with the columns label, text0, text1 (the paper's augmentation of text0)
    tabbed: str = ""  # lines of label, tab, text
    paired: str = ""  # a file of texts and a file of labels, line by line


COLLECTIONS = {
    "agnews": Collection(aecl="agnews", tabbed="agnewsdataraw-8000"),
    "searchsnippets": Collection(aecl="searchsnippets", paired="SearchSnippets"),
    "stackoverflow": Collection(aecl="stackoverflow", paired="StackOverflow"),
    "biomedical": Collection(aecl="biomedical", paired="Biomedical"),
    "googlenews_ts": Collection(tabbed="TS"),
    "googlenews_t": Collection(aecl="T", tabbed="T"),
    "googlenews_s": Collection(aecl="S", tabbed="S"),
    "tweet": Collection(aecl="tweet", tabbed="tweet-original-order.txt"),
}


class ShortText(Source):
    """One collection, from the best of its forms that exists."""

    def __init__(self, name: str, collection: Collection) -> None:
        super().__init__(catalogue_card(TASKS, name, TaskCard))
        self.collection = collection

    @override
    def files(self) -> list[Path]:
        folder, held = raw() / "shorttext", self.collection
        layouts = [
            [folder / "aecl" / f"{held.aecl}.csv"] if held.aecl else [],
            [folder / "rakib" / held.tabbed] if held.tabbed else [],
            [folder / "stc2" / f"{held.paired}.txt", folder / "stc2" / f"{held.paired}_gnd.txt"] if held.paired else [],
        ]
        file_lists = [list(map(find_file, layout)) for layout in layouts if layout]
        return next((layout for layout in file_lists if all(map(is_file, layout))), file_lists[0])

    @override
    def read(self) -> pd.DataFrame:
        path, *others = self.files()
        rows = []
        if others:  # texts and labels, line by line; blanks at the ends of a line mean nothing in these files
            texts, labels = read_lines(path), read_lines(others[0])
            if len(texts) != len(labels):
                count = f"{len(labels)} labels for the {len(texts)} texts of {path.name}"
                raise Malformed(f"{others[0]}:{len(labels)}: {count}")
            rows = [(text.strip(), label.strip()) for text, label in zip(texts, labels, strict=True)]
        elif ".csv" in path.suffixes:
            rows = [(text, label) for label, text, _ in _aecl(path)]
        else:
            for number, line in enumerate(read_lines(path), start=1):
                label, tab, text = line.partition("\t")
                if not tab:
                    raise Malformed(f"{path}:{number}: expected a label, a tab and a text")
                rows.append((text.strip(), label))
        records = pd.DataFrame(rows, columns=["text", "topic"])
        return records.assign(text=records["text"].where(records["text"] != "", EMPTY))

    def read_augmentations(self) -> dict[str, str]:
        """Return the paper's augmentations by text, the first of several; none if its files are absent."""
        path = find_file(raw() / "shorttext" / "aecl" / f"{self.collection.aecl}.csv")
        if not self.collection.aecl or not path.is_file():
            return {}
        augmentations: dict[str, str] = {}
        for _, text, other in _aecl(path):
            augmentations.setdefault(text or EMPTY, other or EMPTY)
        return augmentations

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return all texts, shuffled: most of the files are sorted by label."""
        return split_whole(records, "all", "topic")


def _aecl(path: Path) -> list[tuple[str, str, str]]:
    """Return label, text and augmented text of each line."""
    rows = read_csv(path, width=3)
    line, header = next(rows)
    if header != ["label", "text0", "text1"]:
        raise Malformed(f"{path}:{line}: expected the columns label, text0, text1, not {', '.join(header)}")
    return [(label, text.strip(), other.strip()) for _, (label, text, other) in rows]


def read_augmentations(task: str) -> dict[str, str]:
    """Return the paper's augmentations of a task's texts; none if it has published none."""
    source = get_source(task)
    return source.read_augmentations() if isinstance(source, ShortText) else {}


def sources() -> list[Source]:
    """Return a task for each collection of short texts."""
    return [ShortText(name, collection) for name, collection in COLLECTIONS.items()]
