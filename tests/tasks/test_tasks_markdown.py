"""A folder of Markdown files as a task: each page is a query with passages, grouped by section."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import Refusal, refused
from traube._core.errors import Malformed, TooFew, TooLarge, Unavailable
from traube.tasks import get_source, load_task
from traube.tasks.readers.markdown import read_page
from traube.tasks.task import Split, Task

Wiki = Callable[..., Task]

SUN = """\
# The Sun

A star, and *near* us.

## Core

It is [hot](https://example.org "very").
Very hot.

### Fusion

- Hydrogen becomes helium.
- Light **escapes**.

```python
print("no passage")
```

## Sunlight

> It is bright.

| no | passage |
|----|---------|
| 1  | 2       |

It is ![warm](warm.png), `8` minutes old.
"""

MOON = """\
## Near side

It has seas.

## Far side

It has craters.
"""


@pytest.fixture
def wiki(cards: Path) -> Wiki:
    """Writes pages and a card, and loads the task."""

    def load(pages: dict[str, str | bytes], card: str = "") -> Task:
        for name, text in pages.items():
            path = cards / "wiki" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        (cards / "mine.yaml").write_text(f"markdown: wiki/\n{card}\n")
        return load_task("mine").validate()

    return load


def split_of(task: Task, split_set: str = "default") -> Split:
    (split,) = task.test_splits(split_set)
    return split


def query(task: Task, split_set: str = "default") -> str:
    position = split_of(task, split_set).query
    assert position is not None
    return task.texts[position]


def labeled(task: Task) -> dict[str, str]:
    split = split_of(task)
    assert split.labels is not None
    return {task.texts[row]: label for row, label in zip(split.rows, split.labels, strict=True)}


def test_headings_are_sections_and_paragraphs_passages(wiki: Wiki) -> None:
    task = wiki({"sun.md": SUN}, "sections: hier")
    assert labeled(task) == {
        "It is hot. Very hot.": "Core",
        "Hydrogen becomes helium. Light escapes.": "Core/Fusion",
        "It is bright.": "Sunlight",
        "It is warm, 8 minutes old.": "Sunlight",
    }
    assert (query(task), query(task, "description")) == ("The Sun", "A star, and near us.")
    assert set(labeled(wiki({"sun.md": SUN})).values()) == {"Core", "Sunlight"}


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("moon.md", f"# The Moon\n\n{MOON}", "The Moon"),
        ("moon.md", f"---\ntags: [a]\ntitle: 'Our Moon'\n---\n# The Moon\n{MOON}", "Our Moon"),
        ("deep/The%20Moon_of_Earth.markdown", MOON, "The Moon of Earth"),
        ("moon.md", MOON.replace("## ", "# "), "moon"),  # several headings of level one are sections
        ("moon.md", f"# \n{MOON}", "moon"),
        ("moon.md", f"\ufeff# The Moon\r\n{MOON}", "The Moon"),
    ],
)
def test_the_title_is_the_query(name: str, text: str, title: str, wiki: Wiki) -> None:
    task = wiki({name: text})
    assert query(task) == title
    assert split_of(task).split == name
    assert labeled(task) == {"It has seas.": "Near side", "It has craters.": "Far side"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one section.md", "# One\n\n## A\n\nfirst\n\nsecond\n"),
        ("no section.md", "first\n\nsecond\n"),
        ("one passage.md", "## A\n\nfirst\n\n## B\n\n```\ncode\n```\n"),
        ("twice the same.md", "## A\n\nsame\n\n## B\n\nsame\n"),
        ("empty.md", ""),
        ("blank.md", " \n\n"),
        ("only a heading.md", "# A"),
        (".hidden/page.md", MOON),
        ("notes.txt", MOON),
    ],
)
def test_what_is_no_problem_to_cluster_is_left_out(name: str, text: str, wiki: Wiki) -> None:
    assert split_of(wiki({"moon.md": MOON, name: text})).split == "moon.md"


def test_a_passage_counts_once_in_its_page_and_is_stored_once(wiki: Wiki) -> None:
    task = wiki({"moon.md": f"{MOON}\nIt has seas.\n"})
    assert labeled(task) == {"It has seas.": "Near side", "It has craters.": "Far side"}
    task = wiki({"moon.md": MOON, "luna.md": MOON})
    assert [split.split for split in task.test_splits()] == ["luna.md", "moon.md"]
    assert sorted(task.texts) == ["It has craters.", "It has seas.", "luna", "moon"]


def test_a_pages_part_depends_on_its_name_only(wiki: Wiki) -> None:
    shares = "train: 0.5\nvalidation: 0.2"
    few = wiki({f"{i}.md": MOON for i in range(60)}, shares)
    many = wiki({f"{i}.md": MOON for i in range(60, 70)}, shares)
    before, after = (task.splits.drop_duplicates("split").set_index("split")["part"] for task in (few, many))
    assert len(after) == 70 and after[before.index].equals(before)
    assert 20 < (before == "train").sum() < 40 and 4 < (before == "validation").sum() < 22
    assert get_source("mine").has_training_splits


def test_a_changed_or_renamed_page_is_another_version(wiki: Wiki, cards: Path) -> None:
    wiki({"moon.md": MOON})
    versions = [get_source("mine").raw_version()]
    (cards / "wiki" / "moon.md").rename(cards / "wiki" / "luna.md")
    versions.append(get_source("mine").raw_version())
    (cards / "wiki" / "luna.md").write_text(f"{MOON}\nMore.\n")
    versions.append(get_source("mine").raw_version())
    assert len({*versions}) == 3 and get_source("mine").raw_version() == versions[2]


@given(st.text(alphabet="#ab `>-*|\n\t=[](!<&%/\\", max_size=60))
def test_whatever_is_in_a_page_is_read(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.md"
        path.write_text(text, encoding="utf-8")
        page = read_page(path, "page.md")
    assert page.title.strip()
    for passage in page.passages:
        assert passage.text and passage.text == " ".join(passage.text.split())
        assert all(passage.sections)


@pytest.mark.parametrize("text", ["> " * 5_000 + "a", "- " * 5_000 + "a", "[" * 20_000, "*a " * 20_000, "#" * 50_000])
def test_what_is_nested_deep_is_read_too(text: str, wiki: Wiki) -> None:
    assert "moon.md" in {split.split for split in wiki({"moon.md": MOON, "deep.md": text}).test_splits()}


@pytest.mark.parametrize(
    ("pages", "refusal"),
    [
        ({"a.md": "## A\n\nonly one\n"}, (TooFew, "wiki", 1)),
        ({"a.md": MOON, "b.md": b"## A\n\nCaf\xe9\n"}, (Malformed, "b.md:3", "0xe9")),
        ({"a.md": MOON, "b.md": " " * (8 * 2**20 + 1)}, (TooLarge, "b.md", "8 MiB")),
        ({" .md": MOON}, (Malformed, "wiki", "It has seas.")),
    ],
)
def test_pages_that_cannot_be_used(pages: dict[str, str | bytes], refusal: Refusal, wiki: Wiki) -> None:
    with refused(*refusal):
        wiki(pages)


def test_what_is_no_plain_file_is_no_page(wiki: Wiki, cards: Path) -> None:
    """A pipe would be waited for; a link to the folder above would be followed for ever."""
    (cards / "wiki" / "folder.md").mkdir(parents=True)
    os.mkfifo(cards / "wiki" / "pipe.md")
    (cards / "wiki" / "folder.md" / "up").symlink_to("..")
    assert split_of(wiki({"moon.md": MOON})).split == "moon.md"


def test_a_folder_that_is_not_there(cards: Path) -> None:
    (cards / "mine.yaml").write_text("language: en\nmarkdown: wiki\n")
    for _ in range(2):
        with refused(Unavailable, "mine.yaml", "line 2", "markdown", cards / "wiki"):
            load_task("mine")
        (cards / "wiki").write_text("")
    (cards / "wiki").unlink()
    (cards / "wiki").mkdir()
    with refused(Unavailable, "mine"):
        load_task("mine")
