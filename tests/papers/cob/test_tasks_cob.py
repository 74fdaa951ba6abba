"""COB's tasks: newsgroups in blocks of fifty, and Wikipedia articles by their sections."""

import gzip
import hashlib
import json
import pickle
import tarfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import cbor2
import numpy as np
import pytest
from sklearn.datasets import load_files

from tests.errors import refused
from traube._core.errors import Corrupt, Malformed, Unavailable
from traube.papers.cob import tables
from traube.tasks import get_source, load_task
from traube.tasks.task import Task
from traube.tasks.trec_car import LEAD, read_passages, read_qrels

RealRaw = Callable[[str], Path]
GROUPS = ("alt.atheism", "rec.autos", "sci.space")


def post(text: str) -> bytes:
    return f"From: a@b.c\nSubject: x\n\n{text}\n".encode("latin-1")


@pytest.fixture
def archive(raw_folder: Path) -> Path:
    """130 training posts and 70 test posts, every tenth without a text of its own."""
    path = raw_folder / "20newsgroups" / "20news-bydate.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as tar:
        for part, count in (("train", 130), ("test", 70)):
            for i in range(count):
                text = "> only a quote" if i % 10 == 0 else f"post {i} of the {part} part\nwith more"
                data = post(text)
                entry = tarfile.TarInfo(f"20news-bydate-{part}/{GROUPS[i % 3]}/{i:05d}")
                entry.size = len(data)
                tar.addfile(entry, BytesIO(data))
    return path


def blocks(task: Task) -> dict[str, list[tuple[str, str]]]:
    texts = task.corpus.set_index("text_id")["text"]
    return {
        str(split): list(zip(rows["text_id"].map(texts), rows["label"], strict=True))
        for split, rows in task.splits.groupby("split", sort=False)
    }


def test_posts_come_in_the_order_and_without_what_scikit_learns_fetcher_removes(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    theirs = load_files(str(tmp_path / "20news-bydate-test"), encoding="latin1")
    order = np.arange(70)
    np.random.RandomState(42).shuffle(order)
    bodies = [(theirs.data[i].partition("\n\n")[2].strip(), theirs.target_names[theirs.target[i]]) for i in order[:50]]
    kept = [(text, group) for text, group in bodies if not text.startswith(">")]
    assert [(text.strip(), group) for text, group in blocks(load_task("newsgroups"))["test_000"]] == kept


def test_an_archive_with_a_link_in_it_is_refused(archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo(f"20news-bydate-test/{GROUPS[0]}/00001")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with refused(Malformed, archive):
        load_task("newsgroups")


def test_tfidf_is_measured_with_and_without_empty_posts(archive: Path) -> None:
    assert {"tfidf", "tfidf, no empty posts"} <= set(tables.tfidf(load_task("newsgroups"))["method"])


def test_posts_come_in_blocks_of_fifty_with_the_rest_dropped(archive: Path) -> None:
    task = load_task("newsgroups").validate()
    parts = task.splits.groupby("part")["split"].nunique().to_dict()
    assert parts == {"train": 2, "test": 1}  # a fifth of two blocks is none
    assert set(task.splits["split"]) == {"train_000", "train_001", "test_000"}
    assert task.splits.groupby("split").size().max() < 50  # posts without a text are dropped from their block


def test_labels_belong_to_their_posts_but_in_the_papers_variant(archive: Path) -> None:
    def right(task: Task, split: str) -> list[bool]:
        return [GROUPS[int(text.split()[1]) % 3] == label for text, label in blocks(task)[split]]

    task, as_paper = load_task("newsgroups"), load_task("newsgroups_paper")
    assert all(all(right(task, split)) for split in blocks(task))
    assert all(right(as_paper, "train_000"))
    assert not all(right(as_paper, "test_000"))
    assert [t for t, _ in blocks(task)["test_000"]] == [t for t, _ in blocks(as_paper)["test_000"]]


def test_a_broken_archive_is_an_error(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:300])
    with refused(Malformed, "20news-bydate.tar.gz"):
        load_task("newsgroups")


def test_an_archive_that_is_not_there_is_fetched(raw_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traube.papers.cob.readers.newsgroups.URL", "http://127.0.0.1:9/news.tar.gz")
    with refused(Unavailable, "newsgroups", "http://127.0.0.1:9/news.tar.gz"):
        load_task("newsgroups")


def test_a_downloaded_archive_is_always_checked(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traube.papers.cob.readers.newsgroups.SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    served = archive.rename(tmp_path / "20news-bydate.tar.gz")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{served.name}"
        monkeypatch.setattr("traube.papers.cob.readers.newsgroups.URL", url)
        source = get_source("newsgroups")
        source.fetch()
        server.shutdown()
    load_task("newsgroups")
    archive.write_bytes(
        archive.read_bytes()[:4] + b"1234" + archive.read_bytes()[8:]
    )  # gzip's time, which nobody reads
    with refused(Corrupt, "20news-bydate.tar.gz"):
        load_task("newsgroups")


@pytest.fixture(scope="module")
def newsgroups() -> list[Task]:
    """The real newsgroups, once they were read: `real_newsgroups` knows whether they are there."""
    return []


@pytest.fixture
def real_newsgroups(real_raw: RealRaw, newsgroups: list[Task]) -> Task:
    """The real newsgroups, which no test changes."""
    real_raw("20newsgroups")
    if not newsgroups:
        newsgroups.append(load_task("newsgroups"))
    return newsgroups[0]


@pytest.mark.slow
def test_the_real_newsgroups_are_scikit_learns(real_newsgroups: Task, real_raw: RealRaw, tmp_path: Path) -> None:
    """Same posts, same order and the same stripping as scikit-learn's own fetcher."""
    from sklearn.datasets import fetch_20newsgroups

    task = real_newsgroups.validate()
    counts = task.splits.groupby("part")["split"].nunique().to_dict()
    assert counts == {"train": 181, "validation": 45, "test": 150}
    with tarfile.open(real_raw("20newsgroups") / "20news-bydate.tar.gz", "r|gz") as tar:
        tested = (member for member in tar if member.name.startswith("20news-bydate-test"))
        tar.extractall(tmp_path, tested, filter="data")
    kept = {"test": load_files(str(tmp_path / "20news-bydate-test"), encoding="latin1")}
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(zlib.compress(pickle.dumps(kept), 1))
    theirs = fetch_20newsgroups(
        data_home=tmp_path, subset="test", remove=("headers", "footers", "quotes"), download_if_missing=False
    )
    expected = [
        (t, theirs.target_names[c]) for t, c in zip(theirs.data[:50], theirs.target[:50], strict=True) if t.strip()
    ]
    assert blocks(task)["test_000"] == expected


# TREC CAR


def paragraph(identifier: str, *bodies: object) -> list[object]:
    return [0, identifier.encode(), list(bodies)]


def article(name: str) -> list[object]:
    """An article in the form of version 2: a lead, two sections, one of which has a section in a list, and an image."""
    link = [1, [0, "Moon", [], b"enwiki:Moon", "the moon"]]
    return [
        0,
        name,
        b"enwiki:" + name.encode(),
        [
            [1, paragraph(f"{name}0", [0, "It is about "], link)],
            [0, "History", b"History", [[1, paragraph(f"{name}1", [0, "Long ago."])], [2, "picture.jpg", []]]],
            [0, "Use", b"Use", [[0, "Today", b"Today", [[3, 1, paragraph(f"{name}2", [0, "In a list."])]]]]],
        ],
        [0],
        [],
    ]


def version_2(*objects: object) -> bytes:
    items = b"".join(map(cbor2.dumps, objects))
    return cbor2.dumps(["CAR", [0, 0, []], {}]) + b"\x9f" + items + b"\xff"


EXPECTED = [
    (LEAD, LEAD, "It is about the moon"),
    ("History", "History", "Long ago."),
    ("Use", "Use / Today", "In a list."),
]


@pytest.mark.parametrize("form", ["version 2", "version 1", "gzip"])
def test_articles_are_read_in_all_published_forms(form: str, tmp_path: Path) -> None:
    path = tmp_path / ("pages.cbor.gz" if form == "gzip" else "pages.cbor")
    found = [article("Sun"), article("Star")]
    data = version_2(*found) if form != "version 1" else b"".join(cbor2.dumps(a[:4]) for a in found)
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    rows = read_passages(path)
    assert rows["page"].tolist() == ["Sun"] * 3 + ["Star"] * 3
    assert list(rows[["coarse", "fine", "text"]].itertuples(index=False, name=None)) == EXPECTED * 2


def test_paragraphs_are_joined_with_their_qrels(tmp_path: Path) -> None:
    path = tmp_path / "pages.cbor-paragraphs.cbor"
    path.write_bytes(version_2(*(paragraph(f"p{i}", [0, text]) for i, (_, _, text) in enumerate(EXPECTED))))
    lines = ["enwiki:The%20Sun 0 p0 1", "enwiki:The%20Sun/History 0 p1 1", "enwiki:The%20Sun/Use/Today 0 p2 1"]
    beside = tmp_path / "pages.cbor-hierarchical.qrels"
    beside.write_text("\n".join(lines) + "\n")
    rows = read_passages(path)
    assert set(rows["page"]) == {"The Sun"}
    assert list(rows[["coarse", "fine", "text"]].itertuples(index=False, name=None)) == EXPECTED
    beside.write_text("\n".join([*lines[:2], "enwiki:The%20Sun/Rise%20%2F%20set/Today 0 p2 1"]) + "\n")
    assert read_passages(path)["coarse"].tolist()[2] == "Rise / set"
    beside.write_text("\n".join([*lines, "enwiki:The%20Sun/Use 0 p9 1"]) + "\n")
    with refused(Malformed, "hierarchical.qrels:4", "pages.cbor-paragraphs.cbor"):
        read_passages(path)
    beside.write_text("nonsense\n")
    with refused(Malformed, "hierarchical.qrels:1", 0):
        read_passages(path)


@pytest.mark.parametrize(
    "data", [version_2(article("Sun"))[:-20], b"\x00\x01", cbor2.dumps(["CAR", [0], {}]) + b"\x01"]
)
def test_a_damaged_file_is_an_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "pages.cbor"
    path.write_bytes(data)
    with refused(Malformed, "pages.cbor"):
        read_passages(path)


def test_the_parts_of_benchmark_y1(raw_folder: Path) -> None:
    """Training articles have 30, 35 or 40 passages; without them the task is there, to be scored."""
    with refused(Unavailable, "test.pages.cbor"):
        load_task("trec_car_coarse")
    folder = raw_folder / "trec_car"
    for name in ("benchmarkY1-test/test.pages.cbor", "train/base.train.cbor", "benchmarkY1-train/train.pages.cbor"):
        (folder / name).parent.mkdir(parents=True)
    (folder / "benchmarkY1-test" / "test.pages.cbor").write_bytes(version_2(article("Sun")))
    assert load_task("trec_car_coarse").validate().splits["part"].unique().tolist() == ["test"]
    long = article("Long")
    long[3] = [[0, f"S{i % 2}", b"S", [[1, paragraph(f"p{i}", [0, f"text {i}"])]]] for i in range(30)]
    again = article("Star")
    again[3] = long[3]
    (folder / "train" / "base.train.cbor").write_bytes(version_2(long, article("Short"), again))
    # what is tested or validated is not trained on
    (folder / "benchmarkY1-train" / "train.pages.cbor").write_bytes(version_2(article("Star"), article("Sun")))
    task = load_task("trec_car_fine").validate()
    assert task.splits.groupby("part")["split"].unique().map(list).to_dict() == {
        "test": ["Sun"],
        "train": ["Long"],
        "validation": ["Star"],
    }


def test_the_real_sample_is_read_whole(real_raw: RealRaw) -> None:
    """Every passage with its sections, as another parser found them; and both forms of the data agree."""
    folder = real_raw("trec_car") / "test200"
    with gzip.open(folder / "passages.jsonl.gz", "rt", encoding="utf-8") as lines:
        theirs = [json.loads(line) for line in lines]
    expected = Counter((p["page"], " / ".join(p["section_path"]) or LEAD, p["text"]) for p in theirs)
    own = read_passages(folder / "train.test200.cbor.gz")
    assert Counter(own[["page", "fine", "text"]].itertuples(index=False, name=None)) == expected
    judged = read_passages(folder / "train.test200.cbor.paragraphs.gz")
    assert set(judged["text"]) <= set(own["text"])
    tasks = {level: load_task(f"car_test200_{level}").validate() for level in ("coarse", "fine")}
    assert {t.splits.groupby("part")["split"].nunique().to_dict()["test"] for t in tasks.values()} == {74}
    assert get_source("car_test200_fine").has_training_splits


def test_the_statistics_of_the_test_articles(real_raw: RealRaw) -> None:
    judged = read_qrels(real_raw("trec_car") / "benchmarkY1test_qrels" / "qrels.car17v2.0.benchmarkY1test.txt.gz")
    pages = judged.groupby("page")
    assert (len(judged), pages.ngroups) == (6192, 132)
    assert pages["coarse"].nunique().mean() == pytest.approx(7.77, abs=0.01)
    assert pages["fine"].nunique().mean() == pytest.approx(17.08, abs=0.01)


@pytest.mark.slow
def test_tfidf_of_whole_blocks_is_the_printed_row(real_newsgroups: Task) -> None:
    """The reference code drops empty posts for all rows of COB's table 4 but this one."""
    means = tables.tfidf(real_newsgroups).groupby(["method", "metric"])["value"].mean().round(3)
    assert means["tfidf"][["ri", "ari", "nmi"]].tolist() == [0.624, 0.008, 0.506]
    assert means["tfidf, no empty posts"][["ri", "ari", "nmi"]].tolist() == [0.663, 0.012, 0.53]
