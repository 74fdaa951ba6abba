"""Files of TREC Complex Answer Retrieval: the passages of Wikipedia articles, with their sections.

Files are read in both published forms: articles (CBOR, releases 1.4 to 2.x), or paragraphs with hierarchical qrels.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pandas as pd

from traube._core.errors import Malformed
from traube._core.inputs import open_limited
from traube._core.paths import raw
from traube.tasks._reading import find_file, read_lines
from traube.tasks._sections import Passage
from traube.tasks._splitting import make_rng, shuffle
from traube.tasks._task import Subset

MALFORMED = (ValueError, TypeError, IndexError, AttributeError)  # raised by objects in another form
LEAD = "(lead)"  # the label of passages before the first section, which are a group of their own

TRAIN = ("train/base.train.cbor", "train/train.pages.cbor")  # the first that is there
CAR_B = "benchmarkY1-train/train.pages.cbor"

TEST200_SHARES: dict[Subset, float] = {"train": 0.5, "validation": 0.125, "test": 0.375}

# Kinds of the parts of an article, in the order of their numbers.
SECTION, PARAGRAPH, _IMAGE, ITEM = range(4)
LARGEST = 64 * 2**30  # bytes; read article by article
LIST, BREAK = b"\x9f", b"\xff"  # CBOR's open-ended list, and its end


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
    passages = (passage for article in read_articles(path) for passage in article if passage.text.strip())
    rows = [(passage.page, *_labels(passage.sections), passage.text) for passage in passages]
    return pd.DataFrame(rows, columns=["page", "coarse", "fine", "text"])


def read_articles(path: Path) -> Iterator[list[Passage]]:
    """Yield the passages of each article of a file of articles, or of paragraphs with qrels beside it."""
    name = path.name.removesuffix(".gz")
    if not name.endswith(("paragraphs.cbor", ".paragraphs")):
        for page in _objects(path):
            try:
                _, title, _, body, *_ = page
                passages = list(_of_body(str(title), (), body, path))
            except MALFORMED as error:
                raise Malformed(f"{path}: an article is not in the form of TREC CAR ({error})") from None
            yield passages
        return

    texts = dict(_paragraph(paragraph, path) for paragraph in _objects(path))
    stem = name.removesuffix("-paragraphs.cbor").removesuffix(".paragraphs")
    beside = find_first(path.with_name(f"{stem}-hierarchical.qrels"), path.with_name(f"{stem}.hierarchical.qrels"))
    judged = read_qrels(beside)
    absent = ~judged["paragraph"].isin(list(texts))
    if absent.any():
        raise Malformed(f"{beside}:{int(absent.argmax()) + 1}: its paragraph is not in {path.name}")
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
            raise Malformed(f"{path}:{number}: expected section, 0, paragraph and 1, found {line[:60]!r}")
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
                        raise Malformed(f"{path}: there is no list after the header")
                else:
                    yield item
        except (cbor2.CBORDecodeError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError, ValueError) as error:
            raise Malformed(f"{path}: no file of TREC CAR, or one that breaks off ({error})") from None


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
        raise Malformed(f"{path}: a paragraph is not in the form of TREC CAR ({error})") from None


def find_first(*places: str | Path) -> Path:
    """Return the first file below the folder of TREC CAR that exists, plain or gzipped; else the first."""
    paths = [find_file(raw() / "trec_car" / place) for place in places]
    return next((path for path in paths if path.is_file()), paths[0])
