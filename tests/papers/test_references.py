"""Every reference that the repository names is an entry of references.bib, which says where it was checked."""

import re
from collections.abc import Iterator

import pytest

from traube._core import paths
from traube._core.references import cite, references, surnames
from traube._reports.papers import papers
from traube.models.card import catalogue
from traube.tasks import PAIRS, sources

FREE_TEXT = {"the packages and versions in requirements.lock"}
NO_AUTHORS = {"GermEval", "Nowhere"}
NAME = r"[A-ZÀ-Ž][^\W\d_]*[^\W\d_A-ZÀ-Ž]"
YEAR = r"((?:19|20)\d\d)\b"
VENUE = r"(?:(\w*[A-Z]\w*[A-Z]) )?"  # tells apart papers by the same authors, "RepL4NLP 2021"
# "A et al. 2021", "A, B and C (VENUE 2021)", "A & B, Title (2021)"; and "A 1987" alone
SEVERAL = re.compile(rf"\b({NAME}(?:, {NAME})*(?: et al\b\.?| (?:and|&) {NAME}))(?:[^;.]{{0,90}}?\W)?{VENUE}{YEAR}")
ALONE = re.compile(rf"(?<!and )(?<!& )\b({NAME}),? \(?{YEAR}")
SOURCES = (
    "docs/**/*.md",
    "README.md",
    "benchmarks/*.md",
    "benchmarks/*.py",
    "traube/**/*.py",
    "traube/papers/*/README.md",
    "traube/papers/*/published/*.csv",
)


def mentions(text: str) -> Iterator[tuple[list[str], str, str]]:
    """Yield the surnames, the venue, if it is given, and the year of each reference that a text names."""
    text = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    for names, venue, year in SEVERAL.findall(text):
        yield re.findall(NAME, names.split(" et al")[0]), venue, year
    for name, year in ALONE.findall(SEVERAL.sub(" ", text)):
        if name not in NO_AUTHORS:
            yield [name], "", year


def entries_of(names: list[str], venue: str, year: str) -> set[str]:
    return {
        key
        for key, entry in references().items()
        if surnames(entry)[: len(names)] == names and entry["year"] == year and venue in entry.get("booktitle", "")
    }


def quoted_keys() -> set[str]:
    citations = {s.card.citation for s in (*sources().values(), *sources(PAIRS).values()) if s.card.family != "own"}
    citations |= {card.citation for card in catalogue().values()} - {""}
    return {key for c in citations - FREE_TEXT for key in c.split(", ")} | {p.reference for p in papers().values()}


def test_an_entry_says_who_what_when_and_where_it_was_checked() -> None:
    text = (paths.PROJECT / "traube" / "references.bib").read_text("utf-8")
    written = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert written == list(references())  # none is lost by the reader, or there twice
    for key, entry in references().items():
        assert {"author", "title", "year", "checked"} <= set(entry), key
        assert re.fullmatch(rf"[a-z]+{entry['year']}[a-z]+", key), key


def test_cards_and_papers_quote_entries() -> None:
    assert quoted_keys() <= set(references())


def test_what_is_mentioned_is_an_entry_and_no_entry_is_unused() -> None:
    used = quoted_keys()
    docs = paths.PROJECT / "docs"
    written = {docs / "results.md", *(docs / "results").glob("*.md")}  # by `cite`, from entries
    for path in {p for pattern in SOURCES for p in paths.PROJECT.glob(pattern)} - written:
        text = path.read_text("utf-8")
        if path.suffix == ".csv":
            text = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        for names, venue, year in mentions(text):
            found = entries_of(names, venue, year)
            assert found, f"{path.relative_to(paths.PROJECT)}: {names} {venue} {year} is not in references.bib"
            used |= found
    assert used == set(references())


@pytest.mark.parametrize(
    ("text", "names", "venue", "year"),
    [
        ("(Zhang et al. 2021)", ["Zhang"], "", "2021"),
        ("Louviere et\n    al., 2015", ["Louviere"], "", "2015"),
        (
            "Wehrli, Arnrich and Irrgang,\n# German Benchmark (KONVENS 2023)",
            ["Wehrli", "Arnrich", "Irrgang"],
            "KONVENS",
            "2023",
        ),
        ('(Kashyapi & Dietz, "Learn The Big Picture", RepL4NLP 2021)', ["Kashyapi", "Dietz"], "RepL4NLP", "2021"),
        ("the silhouette (Rousseeuw 1987)", ["Rousseeuw"], "", "1987"),
    ],
)
def test_a_mention_is_that_of_an_entry_of_its_year(text: str, names: list[str], venue: str, year: str) -> None:
    assert list(mentions(text)) == [(names, venue, year)]
    assert entries_of(names, venue, year)
    assert not entries_of(names, venue, "1901")


def test_keys_are_shown_as_authors_title_and_year_and_other_text_as_it_is() -> None:
    assert cite("lang1995newsweeder, yin2014dirichlet") == (
        "Lang, NewsWeeder: Learning to Filter Netnews (1995); Yin & Wang, A Dirichlet Multinomial Mixture Model-Based "
        "Approach for Short Text Clustering (2014)"
    )
    assert cite("lang1995newsweeder, and you") == "lang1995newsweeder, and you"
    assert cite("") == ""
