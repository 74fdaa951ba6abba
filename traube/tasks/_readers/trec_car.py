"""TREC Complex Answer Retrieval: the passages of a Wikipedia article, a split, grouped by its sections.

Files are read in both published forms: articles (CBOR, releases 1.4 to 2.x), or paragraphs with hierarchical qrels.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import unquote

import pandas as pd
from typing_extensions import override

from traube._core.errors import TraubeError
from traube._core.inputs import open_limited
from traube._core.paths import raw
from traube.tasks._reading import find_file, read_lines
from traube.tasks._sections import Passage
from traube.tasks._source import Source, catalogue_card
from traube.tasks._splitting import make_rng, shuffle, split_by_value
from traube.tasks._task import Subset, TaskCard

Level = Literal["coarse", "fine"]

LEVELS: tuple[Level, ...] = ("coarse", "fine")  # the top section; the whole path of sections
MALFORMED = (ValueError, TypeError, IndexError, AttributeError)  # raised by objects in another form
LEAD = "(lead)"  # the label of passages before the first section, which are a group of their own

TRAIN = ("train/base.train.cbor", "train/train.pages.cbor")  # the first that is there
CAR_B = "benchmarkY1-train/train.pages.cbor"

SIZES = (30, 35, 40)  # passages of the articles that COB trains on (section 4.4.2)
VALIDATION_PAGES = 25
TEST200_SHARES: dict[Subset, float] = {"train": 0.5, "validation": 0.125, "test": 0.375}

# Kinds of the parts of an article, in the order of their numbers.
SECTION, PARAGRAPH, _IMAGE, ITEM = range(4)
LARGEST = 64 * 2**30  # bytes; read article by article
LIST, BREAK = b"\x9f", b"\xff"  # CBOR's open-ended list, and its end


class TrecCar(Source):
    """Benchmark Y1 of TREC CAR as COB uses it.

    Articles of train.v2.0 with 30, 35 or 40 passages are for training, 25 of benchmarkY1-train for validation, and
    benchmarkY1-test for scoring.

    The training articles are optional: without them the task can be scored, not trained on.
    """

    has_training_splits = True

    def __init__(self, name: str, level: Level) -> None:
        super().__init__(catalogue_card(f"{name}_{level}", TaskCard))
        self.level = level

    @override
    def files(self) -> list[Path]:
        test = find_first("benchmarkY1-test/test.pages.cbor", "benchmarkY1-test/test.pages.cbor-paragraphs.cbor")
        return [test, *(path for path in self._optional().values() if path.is_file())]

    def _optional(self) -> dict[Subset, Path]:
        return {"train": find_first(*TRAIN), "validation": find_first(CAR_B)}

    @override
    def read(self) -> pd.DataFrame:
        tables = [read_passages(self.files()[0]).assign(part="test")]
        # an article of several files is tested, or else validated: the training files are of the same Wikipedia
        for subset, path in reversed(self._optional().items()):
            if not path.is_file():
                continue
            seen = {page for earlier in tables for page in earlier["page"].unique()}
            unseen = read_passages(path)
            unseen = unseen[~unseen["page"].isin(seen)]
            if subset == "train":  # of both levels the same articles
                unseen = _clusterable(unseen, "coarse")
                chosen = unseen.groupby("page")["text"].transform("size").isin(SIZES)
            else:
                pages = _clusterable(unseen, self.level)["page"].unique()
                drawn = shuffle(len(pages), make_rng("benchmarkY1-train"))[:VALIDATION_PAGES]
                chosen = unseen["page"].isin({pages[i] for i in drawn})
            tables.append(unseen[chosen].assign(part=subset))
        return _clusterable(pd.concat(tables, ignore_index=True), self.level)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return a split for each article."""
        return split_by_value(records, "page", self.level)


class Test200(TrecCar):
    """The 200 articles that TREC CAR published as a sample, with random subsets: half trains, an eighth validates."""

    @override
    def files(self) -> list[Path]:
        return [find_first("test200/train.test200.cbor")]

    @override
    def read(self) -> pd.DataFrame:
        records = _clusterable(read_passages(self.files()[0]), self.level)
        return records.assign(part=draw_subsets(records["page"]))


def draw_subsets(pages: pd.Series) -> pd.Series:
    """Return the subset of each passage, from the names of their articles."""
    names = pages.unique()
    subsets: dict[str, str] = {}
    order = [names[i] for i in shuffle(len(names), make_rng("test200"))]
    for subset, share in TEST200_SHARES.items():
        subsets |= dict.fromkeys(order[len(subsets) : len(subsets) + round(share * len(names))], subset)
    return pages.map(subsets).fillna("test")


def read_passages(path: Path) -> pd.DataFrame:
    """Return the passages of a file, as `read_articles` reads it: DataFrame page, coarse, fine (labels), text."""
    found = (passage for article in read_articles(path) for passage in article if passage.text.strip())
    rows = [(passage.page, *_labels(passage.sections), passage.text) for passage in found]
    return pd.DataFrame(rows, columns=["page", "coarse", "fine", "text"])


def read_articles(path: Path) -> Iterator[list[Passage]]:
    """Yield the passages of each article of a file of articles, or of paragraphs with qrels beside it."""
    name = path.name.removesuffix(".gz")
    if not name.endswith(("paragraphs.cbor", ".paragraphs")):
        for page in _objects(path):
            try:
                _, title, _, body, *_ = page
                found = list(_of_body(str(title), (), body, path))
            except MALFORMED as error:
                raise TraubeError(f"{path}: an article is not in the form of TREC CAR ({error})") from None
            yield found
        return

    texts = dict(_paragraph(paragraph, path) for paragraph in _objects(path))
    stem = name.removesuffix("-paragraphs.cbor").removesuffix(".paragraphs")
    beside = find_first(path.with_name(f"{stem}-hierarchical.qrels"), path.with_name(f"{stem}.hierarchical.qrels"))
    judged = read_qrels(beside)
    absent = ~judged["paragraph"].isin(list(texts))
    if absent.any():
        raise TraubeError(f"{beside}:{int(absent.argmax()) + 1}: its paragraph is not in {path.name}")
    pages: dict[str, list[Passage]] = {}
    for row in judged.itertuples(index=False):
        passage = Passage(row.page, row.sections, texts[row.paragraph], row.paragraph)
        pages.setdefault(row.page, []).append(passage)
    yield from pages.values()


def _labels(sections: tuple[str, ...]) -> tuple[str, str]:
    return (sections[0], " / ".join(sections)) if sections else (LEAD, LEAD)


def read_qrels(path: Path) -> pd.DataFrame:
    """Return hierarchical qrels.

    DataFrame page, coarse, fine (labels as in `read_passages`), paragraph (its id), sections.
    """
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) != 4:
            raise TraubeError(f"{path}:{number}: expected section, 0, paragraph and 1, found {line[:60]!r}")
        page, *sections = map(unquote, fields[0].split("/"))
        page = page.removeprefix("enwiki:")
        rows.append((page, *_labels(tuple(sections)), fields[2], tuple(sections)))
    return pd.DataFrame(rows, columns=["page", "coarse", "fine", "paragraph", "sections"])


def _objects(path: Path) -> Iterator[Any]:
    """Yield the articles or paragraphs of a file; since release 1.6 a header comes before one open-ended list."""
    import cbor2

    with open_limited(path, LARGEST) as file:
        try:
            # what cannot seek is read no further than each object needs: the end of the list can be seen before it is
            # read
            forward: Any = SimpleNamespace(read=file.read, readable=file.readable, seekable=lambda: False)
            decoder = cbor2.CBORDecoder(forward)
            while file.peek(1)[:1] not in (b"", BREAK):
                item = decoder.decode()
                if isinstance(item, list) and item[:1] == ["CAR"]:
                    if file.read(1) != LIST:
                        raise TraubeError(f"{path}: there is no list after the header")
                else:
                    yield item
        except (cbor2.CBORDecodeError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError, ValueError) as error:
            raise TraubeError(f"{path}: no file of TREC CAR, or one that breaks off ({error})") from None


def _of_body(page: str, sections: tuple[str, ...], body: list[Any], path: Path) -> Iterator[Passage]:
    for part in body:
        if part[0] == SECTION:
            yield from _of_body(page, (*sections, str(part[1])), part[3], path)
        elif part[0] in (PARAGRAPH, ITEM):
            identifier, text = _paragraph(part[-1], path)
            yield Passage(page, sections, text, identifier)


def _paragraph(paragraph: Any, path: Path) -> tuple[str, str]:
    """Return id and text; of a link, its visible text."""
    try:
        _, identifier, bodies = paragraph
        return identifier.decode("ascii"), "".join(b[1] if b[0] == 0 else b[1][-1] for b in bodies)
    except MALFORMED as error:
        raise TraubeError(f"{path}: a paragraph is not in the form of TREC CAR ({error})") from None


def _clusterable(records: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Return the passages of the articles that are a clustering problem: they have two groups or more."""
    return records[records.groupby("page")[level].transform("nunique") >= 2].reset_index(drop=True)


def find_first(*places: str | Path) -> Path:
    """Return the first file below the folder of TREC CAR that exists, plain or gzipped; else the first."""
    paths = [find_file(raw() / "trec_car" / place) for place in places]
    return next((path for path in paths if path.is_file()), paths[0])


def sources() -> list[Source]:
    """Return TREC CAR's benchmark and test200, by each level of headings."""
    return [*(TrecCar("trec_car", level) for level in LEVELS), *(Test200("car_test200", level) for level in LEVELS)]
