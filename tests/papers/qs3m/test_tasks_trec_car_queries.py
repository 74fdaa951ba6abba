"""Wikipedia articles as queries with passages (QS3M), of TREC CAR."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cbor2
import pandas as pd
import pytest

from tests.errors import refused
from traube._core.errors import Malformed, TooFew
from traube.papers.qs3m.pairs import all_pairs
from traube.tasks import get_source, load_task
from traube.tasks.task import Split, Task
from traube.tasks.trec_car import read_qrels

RealRaw = Callable[[str], Path]


def paragraph(text: str) -> list[object]:
    return [1, [0, f"id of {text}".encode(), [[0, text]]]]


def section(heading: str, *body: object) -> list[object]:
    return [0, heading, b"", list(body)]


def article(name: str, *body: object) -> list[object]:
    return [0, name, b"", list(body), [0], []]


def sun(name: str = "Sun") -> list[object]:
    def text(of: str) -> list[object]:
        return paragraph(f"{name}: {of}")

    return article(
        name,
        text("a star"),
        section("Core", text("hot"), section("Fusion", text("helium"), text("hydrogen"))),
        section("Sunlight", text("warm"), text("bright"), text("hot")),
    )


def write(path: Path, *articles: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    items = b"".join(map(cbor2.dumps, articles))
    path.write_bytes(cbor2.dumps(["CAR", [0, 0, []], {}]) + b"\x9f" + items + b"\xff")


@pytest.fixture
def car(raw_folder: Path) -> Path:
    folder = raw_folder / "trec_car"
    write(folder / "benchmarkY1-test" / "test.pages.cbor", sun())
    return folder


def query_of(task: Task, split: Split) -> str:
    assert split.query is not None
    return task.texts[split.query]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("trec_car_flat", {"Core": ["hot", "helium", "hydrogen"], "Sunlight": ["warm", "bright"]}),
        (
            "trec_car_hier",
            {"Core": ["hot"], "Core/Fusion": ["helium", "hydrogen"], "Sunlight": ["warm", "bright"]},
        ),
    ],
)
def test_passages_are_grouped_by_section_for_a_query(task: str, expected: dict[str, list[str]], car: Path) -> None:
    """A passage that stands in two sections counts in the first; the text before them is a query."""
    loaded = load_task(task).validate()
    texts = loaded.corpus.set_index("text_id")["text"].to_dict()
    for split_set, query in {"default": "Sun", "description": "Sun: a star"}.items():
        (split,) = loaded.test_splits(split_set)
        assert (split.split, query_of(loaded, split)) == ("Sun", query)
        rows = loaded.splits[loaded.splits["split_set"] == split_set]
        passages = rows["text_id"].map(texts).str.removeprefix("Sun: ")
        assert passages.groupby(rows["label"], sort=False).agg(list).to_dict() == expected


@pytest.mark.parametrize("level", ["flat", "hier"])
def test_three_passages_of_a_training_article(level: str, car: Path) -> None:
    """Two of one section, one of another; nothing of an article that is scored, also not in CAR-B.
    A tenth of the articles validates.
    """
    seen = sun("Seen in B")
    write(car / "benchmarkY1-train" / "train.pages.cbor", seen)
    nested = article("Nested", section("A", paragraph("a"), section("B", paragraph("b"), paragraph("b2"))))
    write(car / "train" / "base.train.cbor", sun(), seen, *map(sun, map(str, range(10))), nested)
    task = load_task(f"trec_car_{level}").validate()
    learned = task.splits[task.splits["part"] != "test"]
    assert set(learned["split"]) == set(map(str, range(10)))
    assert learned.groupby("part")["split"].nunique().to_dict() == {"train": 9, "validation": 1}
    for _, rows in learned.groupby(["split_set", "split"]):
        labels = rows["label"].tolist()
        assert len(labels) == 3 and labels[0] == labels[1] != labels[2]
        assert not (labels[0].startswith("Core") and labels[2].startswith("Core"))
    pd.testing.assert_frame_equal(load_task(f"trec_car_{level}").splits, task.splits)
    assert set(load_task(f"trec_car_b_{level}").splits["part"]) == {"test"}


def test_pages_that_are_no_problem_are_left_out(car: Path) -> None:
    path = car / "benchmarkY1-test" / "test.pages.cbor"
    one_section = article("One section", section("A", paragraph("a"), paragraph("b")))
    one_passage = article("One passage", section("A", paragraph("a"), section("B")), section("C", paragraph(" ")))
    write(path, one_section, one_passage, sun(), article("Nothing"))
    assert set(load_task("trec_car_flat").splits["split"]) == {"Sun"}
    write(path, one_section, one_passage)
    with refused(TooFew, "trec_car_flat", "test.pages.cbor"):
        load_task("trec_car_flat")


def test_a_page_without_a_title_is_an_error(car: Path) -> None:
    write(car / "benchmarkY1-test" / "test.pages.cbor", sun(" "))
    with refused(Malformed, "test.pages.cbor"):
        load_task("trec_car_flat")


def test_without_a_lead_anywhere_there_are_no_descriptions(car: Path) -> None:
    bare = article("Bare", *sun("Bare")[3][1:])  # type: ignore[index]
    write(car / "benchmarkY1-test" / "test.pages.cbor", bare)
    assert set(load_task("trec_car_flat").splits["split_set"]) == {"default"}
    # with one that has a lead, the other is described by its title: both sets hold the same pages
    write(car / "benchmarkY1-test" / "test.pages.cbor", bare, sun())
    task = load_task("trec_car_flat")
    queries = {s.split: query_of(task, s) for s in task.test_splits("description")}
    assert queries == {"Bare": "Bare", "Sun": "Sun: a star"}


def test_slashes_and_percent_signs_of_headings_do_not_mix_up_paths(car: Path) -> None:
    page = article(
        "Day",
        section("Rise/Set", paragraph("a")),
        section("Rise", section("Set", paragraph("b"))),
        section("Rise%2FSet", paragraph("c")),
    )
    write(car / "benchmarkY1-test" / "test.pages.cbor", page)
    assert load_task("trec_car_hier").splits["label"].nunique() == 3


def test_percent_encoded_ids_of_qrels_are_read_as_people_read_them(raw_folder: Path) -> None:
    folder = raw_folder / "trec_car" / "benchmarkY1-test"
    folder.mkdir(parents=True)
    paragraphs = b"".join(cbor2.dumps(paragraph(text)[1]) for text in ("lead", "a", "b"))
    (folder / "test.pages.cbor-paragraphs.cbor").write_bytes(paragraphs.replace(b"id of ", b"p-----"))
    places = {"": "lead", "/Rise%20%2F%20set": "a", "/Caf%C3%A9": "b"}
    lines = [f"enwiki:The%20Sun{section} 0 p-----{text} 1\n" for section, text in places.items()]
    (folder / "test.pages.cbor-hierarchical.qrels").write_text("".join(lines))
    task = load_task("trec_car_flat").validate()
    assert set(task.splits["split"]) == {"The Sun"}
    assert set(task.splits["label"]) == {"Rise / set", "Café"}
    assert "lead" in task.texts and "The Sun" in task.texts


def test_the_real_sample(real_raw: RealRaw) -> None:
    """A passage counts once in its article, as in article.qrels: 4,696 of the file's 4,722. So three
    of the 1,122 top sections and 1,860 sections are left without one of their own.
    """
    folder = real_raw("trec_car") / "test200"
    with gzip.open(folder / "train.test200.cbor.article.qrels.gz", "rt", encoding="utf-8") as lines:
        assert sum(1 for _ in lines) == 4696
    with gzip.open(folder / "passages.jsonl.gz", "rt", encoding="utf-8") as lines:
        theirs = pd.DataFrame(map(json.loads, lines)).drop_duplicates(["page", "para_id"])
    # pairs of the same section, and all but those of a section and one above it
    counts = {"flat": (18_569, 80_636), "hier": (7_851, 78_438)}
    for level, column, classes in (("flat", "top_section", 1121), ("hier", "section_id", 1858)):
        task = load_task(f"car_test200_{level}").validate()
        usual = task.splits[task.splits["split_set"] == "default"]
        pages = usual.groupby("split", sort=False)
        assert (len(usual), pages.ngroups) == (4696, 198)
        folds = {f"fold_{i}" for i in range(1, 6)}
        assert set(task.splits["split_set"]) == {"default", *folds}  # no article has a text before its first section
        tested = task.splits[task.splits["split_set"].isin(folds) & (task.splits["part"] == "test")]
        assert sorted(tested.groupby("split_set")["split"].nunique()) == [39, 39, 40, 40, 40]
        assert tested.groupby("split")["split_set"].nunique().eq(1).all() and tested["split"].nunique() == 198
        in_parts = task.splits.groupby(["split_set", "split"])["part"].nunique()
        assert in_parts.eq(1).all()  # no article is learned from and tested
        assert pages["label"].nunique().sum() == classes
        assert int((pages.size() * (pages.size() - 1) // 2).sum()) == 80_636
        gold = theirs.groupby("page", sort=False)[column].apply(lambda rows: pd.factorize(rows)[0].tolist())
        assert pages["label"].apply(lambda rows: pd.factorize(rows)[0].tolist()).to_dict() == gold.to_dict()
        assert all(query_of(task, split) == split.split for split in task.test_splits())
        of_all_parts = replace(task, rows=task.splits.assign(part="test")).test_splits()
        pairs = [all_pairs(split, separator="/") for split in of_all_parts]
        assert (sum(int(p.same.sum()) for p in pairs), sum(map(len, pairs))) == counts[level]
        coarse = load_task("car_test200_coarse").splits
        parts = coarse.drop_duplicates("split").set_index("split")["part"]
        assert (usual["split"].map(parts) == usual["part"]).all()
        assert get_source(task.name).card.declared.splits == (39, 74)


def test_the_papers_statistics_count_the_lead_as_a_subtopic(real_raw: RealRaw) -> None:
    """The paper says that the text before the first heading is not clustered; its table 1 (8 +- 2.27
    flat, 17 +- 10.49 hierarchical subtopics in 125 articles) fits the articles with it.
    """
    judged = read_qrels(real_raw("trec_car") / "benchmarkY1test_qrels" / "qrels.car17v2.0.benchmarkY1test.txt.gz")
    within = judged[judged["sections"].map(len) > 0]
    means = {
        name: [table.groupby("page")[level].nunique().mean() for level in ("coarse", "fine")]
        for name, table in {"with": judged, "without": within}.items()
    }
    assert means["with"] == pytest.approx([7.77, 17.08], abs=0.01)
    assert means["without"] == pytest.approx([6.77, 16.08], abs=0.01)
