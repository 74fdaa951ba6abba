"""The eight short-text collections, in the forms in which they are published."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import Refusal, refused
from traube._core.errors import Malformed, TooFew
from traube.papers.aecl.readers import COLLECTIONS, read_augmentations
from traube.tasks import get_source, load_task


@pytest.fixture
def write(raw_folder: Path) -> Callable[[str, str], None]:
    def write(name: str, content: str) -> None:
        path = raw_folder / "shorttext" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())

    return write


def read(name: str) -> list[tuple[str, str]]:
    return list(get_source(name).read().itertuples(index=False, name=None))


def test_text0_is_read_as_it_stands(write: Callable[[str, str], None]) -> None:
    write("aecl/tweet.csv.gz", 'label,text0,text1\n1,"a ""quoted"" text, here",x\n2,nan,x\n2,,x\n')
    # `nan` is a word, and a missing text is a full stop, as in the paper's code
    assert read("tweet") == [('a "quoted" text, here', "1"), ("nan", "2"), (".", "2")]


def test_the_order_of_a_split_does_not_give_the_labels_away(write: Callable[[str, str], None]) -> None:
    rows = [f"{label},text {label} {i},x" for label in (1, 2) for i in range(50)]
    write("aecl/agnews.csv", "\n".join(["label,text0,text1", *rows]))
    splits = load_task("agnews").splits
    assert (splits["label"] != splits["label"].shift()).sum() > 30
    assert splits.equals(load_task("agnews").splits)


def test_without_the_papers_file_the_original_is_read(write: Callable[[str, str], None]) -> None:
    write("rakib/tweet-original-order.txt.gz", "37\tbrain fluid\r\n14\ttrailer talk\r\n")
    assert read("tweet") == [("brain fluid", "37"), ("trailer talk", "14")]
    write("aecl/tweet.csv", "label,text0,text1\n25,brain fluid,x\n")
    assert read("tweet") == [("brain fluid", "25")]


def test_texts_and_labels_in_two_files(write: Callable[[str, str], None]) -> None:
    write(
        "stc2/SearchSnippets.txt", "\ufeffturtlesoft goldenseal \nzero\u2028one\tauthor\n"
    )  # marks that are no line end
    write("stc2/SearchSnippets_gnd.txt", "1\n2\n")
    assert read("searchsnippets") == [("turtlesoft goldenseal", "1"), ("zero\u2028one\tauthor", "2")]


def test_labels_that_do_not_fit_the_texts_are_refused(write: Callable[[str, str], None]) -> None:
    write("stc2/SearchSnippets.txt", "one\ntwo\n")
    write("stc2/SearchSnippets_gnd.txt", "1\n")
    with refused(Malformed, "SearchSnippets_gnd.txt:1", 2):
        read("searchsnippets")


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("aecl/tweet.csv", "label,text\n1,a\n", (Malformed, "tweet.csv:1", 2, 3)),
        ("aecl/tweet.csv", "topic,text0,text1\n1,a,b\n", (Malformed, "tweet.csv:1", "text0", "text1")),
        ("aecl/tweet.csv", "label,text0,text1\n1,a,b\n2,c\n", (Malformed, "tweet.csv:3", 2)),
        ("rakib/tweet-original-order.txt", "1\ta\nno tab\n", (Malformed, "order.txt:2")),
        ("rakib/tweet-original-order.txt", "", (TooFew, "order.txt")),
    ],
)
def test_what_cannot_be_read_is_named(
    write: Callable[[str, str], None], name: str, content: str, refusal: Refusal
) -> None:
    write(name, content)
    with refused(*refusal):
        read("tweet")


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_real_collections_are_as_declared(real_raw: Callable[[str], Path], name: str) -> None:
    real_raw("shorttext")
    task = load_task(name)
    (split,) = task.test_splits()
    assert (split.size, split.size) == task.card.declared.rows
    assert (split.classes, split.classes) == task.card.declared.classes


def test_a_text_with_two_labels_is_stored_once(real_raw: Callable[[str], Path]) -> None:
    real_raw("shorttext")
    task = load_task("googlenews_t")
    assert len(task.corpus) == 10_740
    assert (task.splits.groupby("text_id")["label"].nunique() > 1).sum() == 102


def test_the_papers_augmented_texts_are_found_by_their_texts(write: Callable[[str, str], None]) -> None:
    assert read_augmentations("tweet") == {}
    write("rakib/tweet-original-order.txt.gz", "37\tbrain fluid\n")
    assert read_augmentations("tweet") == {}
    write("aecl/tweet.csv.gz", "label,text0,text1\n1,brain fluid , fluid brain\n2,brain fluid,again\n2,,\n")
    assert read_augmentations("tweet") == {"brain fluid": "fluid brain", ".": "."}
    assert read_augmentations("googlenews_ts") == {}  # of which the paper published none
    assert set(load_task("tweet").texts) <= read_augmentations("tweet").keys()
