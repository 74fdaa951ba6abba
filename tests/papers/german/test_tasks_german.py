"""The German benchmark's tasks, each from its raw source, and from the authors' own splits."""

import gzip
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tests.errors import refused
from traube._core.errors import Malformed, Unavailable
from traube.papers.german.readers.blurbs import read_books, select_books
from traube.papers.german.readers.reddit import (
    Api,
    clean_as_paper,
    clean_text,
    download,
    draw_as_paper,
    draw_subreddits,
)
from traube.tasks import get_source, load_task

RealRaw = Callable[[str], Path]


def book(title: str, *genres: tuple[str, ...], body: str = "Ein Buch.") -> str:
    topics = "".join(
        "<category>" + "".join(f'<topic d="{d}">{name}</topic>' for d, name in enumerate(path)) + "</category>"
        for path in genres
    )
    return f"<book>\n<title>{title}</title>\n<body>{body}</body>\n<categories>{topics}</categories>\n</book>\n"


@pytest.fixture
def write_books(raw_folder: Path) -> Callable[..., Path]:
    def write(*found: str) -> Path:
        path = raw_folder / "germeval2019_task1" / "blurbs_dev.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<root>\n{''.join(found)}</root>\n")
        return path

    return write


# blurbs


def test_the_reader_bears_what_is_no_xml(write_books: Callable[..., Path]) -> None:
    path = write_books(book("Glück &amp; Leid", ("Glaube & Ethik", "Erfah\xadrung"), body="1 < 2 & \xa0mehr"))
    (found,) = read_books(path)
    assert (found.title, found.blurb) == ("Glück & Leid", "1 < 2 & mehr")
    assert (found.top, found.second) == (("Glaube & Ethik",), ("Erfahrung",))


@pytest.mark.parametrize("wrong", ["<book>\n<title>A</title>\n", "<book>\n<title>A</title>\n</book>\n"])
def test_a_broken_book_is_named_by_its_line(write_books: Callable[..., Path], wrong: str) -> None:
    path = write_books(book("Ganz", ("A", "B")), wrong)
    with refused(Malformed, "blurbs_dev.txt:7"):
        list(read_books(path))


def test_the_papers_rule_keeps_one_top_genre_and_the_rarer_of_two_second_ones(write_books: Callable[..., Path]) -> None:
    path = write_books(
        book("oft", ("A", "häufig")),
        book("zwei", ("A", "häufig"), ("A", "selten")),
        book("drei", ("A", "häufig"), ("A", "selten"), ("A", "noch eins")),
        book("zwei Wurzeln", ("A", "häufig"), ("B", "x")),
        book("keine zweite", ("A",)),
    )
    found = select_books(list(read_books(path)))
    assert dict(zip(found["title"], found["fine"], strict=True)) == {"oft": "häufig", "zwei": "selten"}
    assert found["whole"][1] == "zwei Ein Buch."


def test_the_real_blurbs_give_28_splits_and_reproduce(real_raw: RealRaw) -> None:
    real_raw("germeval2019_task1")
    short, long = load_task("blurbs_s2s"), load_task("blurbs_p2p")
    assert len(long.corpus) == 1815
    assert long.corpus["text"].str.len().mean() == pytest.approx(664, rel=0.03)  # the whole data set, by the paper
    splits = list(short.test_splits())
    assert [s.level for s in splits] == ["coarse"] * 10 + ["fine"] * 18
    assert load_task("blurbs_s2s").data_version == short.data_version
    columns = ["split", "level", "item", "label"]
    assert short.splits[columns].equals(long.splits[columns])


def test_the_real_splits_keep_the_laws(real_raw: RealRaw) -> None:
    """Shares of a tenth or more, no book twice in a split, and each second-level genre below one top genre."""
    real_raw("germeval2019_task1")
    source = get_source("blurbs_p2p")
    task, records = source.load(), source.read()
    assert records.groupby("fine")["coarse"].nunique().max() == 1
    table = task.splits
    assert not table.duplicated(["split", "text_id"]).any()
    drawn = table[~table["split"].str.startswith("within")].groupby("split").size() / len(records)
    assert drawn.between(0.1, 1.0).all()
    top = records.set_index("fine")["coarse"].to_dict()
    within = table[table["split"].str.startswith("within")]
    assert (within.assign(top=within["label"].map(top)).groupby("split")["top"].nunique() == 1).all()


# 10kGNAD


@pytest.fixture
def million_posts(raw_folder: Path) -> Path:
    path = raw_folder / "one_million_posts" / "corpus.sqlite3"
    path.parent.mkdir()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE Articles (ID_Article INTEGER, Path TEXT, Title TEXT, Body TEXT)")
        topics = ("Etat", "Inland", "International", "Kultur", "Panorama", "Sport", "Web", "Wirtschaft", "Wissenschaft")
        page = "<div><h2>Unter {0}</h2><script>var x;</script><p>Text über {0} {1}.</p></div>"
        rows = [(i, f"Newsroom/{t}/{i}", f"Titel {t} {i}", page.format(t, i)) for t in topics for i in range(12)] + [
            (99, "Newsroom/User/Forum", "kein Artikel", "x"),
            (100, "Newsroom/Web/x", "ohne Text", ""),
        ]
        database.executemany("INSERT INTO Articles VALUES (?, ?, ?, ?)", rows)
    return path


def test_titles_come_from_the_database(million_posts: Path) -> None:
    titles, whole = load_task("tenkgnad_s2s"), load_task("tenkgnad_p2p")
    assert len(titles.corpus) == len(whole.corpus) == 108
    assert "Titel Kultur 3" in titles.texts
    assert "Titel Kultur 3 Unter Kultur Text über Kultur 3." in whole.texts
    assert len(list(titles.test_splits())) == 10


def test_the_csv_has_no_titles_and_says_so(real_raw: RealRaw) -> None:
    real_raw("10kgnad")
    with refused(Unavailable, "corpus.sqlite3"):
        load_task("tenkgnad_s2s")
    assert len(load_task("tenkgnad_p2p").corpus) == 1028


def test_another_database_is_named(million_posts: Path) -> None:
    million_posts.write_bytes(b"no database, but long enough to be read as one" * 9)
    with refused(Malformed, million_posts):
        load_task("tenkgnad_s2s")


# the authors' splits


def test_published_splits_are_read_from_a_local_file_each_at_its_level(raw_folder: Path) -> None:
    folder = raw_folder / "slvnwhrl"
    folder.mkdir()
    rows = [{"sentences": [f"Buch {i} {j}" for j in range(6)], "labels": ["a", "b"] * 3} for i in range(28)]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "blurbs-clustering-s2s.jsonl.gz").write_bytes(gzip.compress(data.encode()))
    task = load_task("blurbs_s2s_mteb")
    assert [s.level for s in task.test_splits()] == ["coarse"] * 10 + ["fine"] * 18
    assert task.card.mteb == "BlurbsClusteringS2S"


# Reddit


@pytest.fixture
def reddit(raw_folder: Path) -> Iterator[Any]:
    """A server that speaks the API's JSON: 12 subreddits, every tenth post gone, every fourth call refused as too many."""
    ids = [f"id{i:03d}" for i in range(360)]
    (raw_folder / "tecb_de").mkdir()
    (raw_folder / "tecb_de" / "reddit_submission_ids.txt").write_text("id\n" + "\n".join([*ids, *ids[:9]]) + "\n")

    class Handler(BaseHTTPRequestHandler):
        calls: list[list[str]] = []  # noqa: RUF012
        refused = 0

        def do_POST(self) -> None:
            self.answer(
                {"access_token": "t", "token_type": "bearer"} if "Basic" in self.headers["Authorization"] else {}
            )

        def do_GET(self) -> None:
            requested = parse_qs(urlparse(self.path).query)["id"][0].split(",")
            if len(self.calls) % 4 == 1 and not self.refused:
                Handler.refused += 1
                return self.answer({}, 429)
            self.calls.append([i.removeprefix("t3_") for i in requested])
            posts = [self.post(i) for i in self.calls[-1] if not i.endswith("9")]
            return self.answer({"data": {"children": [{"data": post} for post in posts]}})

        def post(self, name: str) -> dict[str, str]:
            number = int(name[2:])
            text = "[removed]" if number % 10 == 8 else "" if number % 10 == 7 else f"Text [hier](http://x.de/{number})"
            return {"id": name, "title": f"Titel {number}", "selftext": text, "subreddit": f"sub{number % 12:02d}"}

        def answer(self, body: Any, status: int = 200) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for header in (
                ("Content-Length", str(len(data))),
                ("X-Ratelimit-Remaining", "0.0"),
                ("X-Ratelimit-Reset", "7"),
            ):
                self.send_header(*header)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.handler = Handler  # type: ignore[attr-defined]
    yield server
    server.shutdown()
    server.server_close()


def api_of(server: Any, waits: list[float]) -> Api:
    base = f"http://127.0.0.1:{server.server_port}"
    return Api("me", "secret", "tests", f"{base}/token", f"{base}/info", waits.append)


def test_submissions_are_fetched_once_each_at_the_rate_that_is_allowed(reddit: Any, raw_folder: Path) -> None:
    waits: list[float] = []
    path = raw_folder / "reddit_de" / "submissions.jsonl"
    download(path, api_of(reddit, waits))
    assert [len(call) for call in reddit.handler.calls] == [100, 100, 100, 60]
    assert reddit.handler.refused == 1  # and requested again
    assert waits == [7.0] * 4
    download(path, api_of(reddit, waits))
    assert len(reddit.handler.calls) == 4
    titles, whole, paper = (load_task(f"reddit_{name}") for name in ("s2s", "p2p", "p2p_paper"))
    assert len(titles.corpus) == 288  # neither the deleted nor the removed ones
    assert "Titel 3 Text hier" in whole.texts
    assert "Titel 7" in whole.texts and "Titel 7" not in paper.texts
    assert all(10 <= s.classes <= 12 for s in titles.test_splits() if s.classes)


def test_a_download_that_was_stopped_goes_on(reddit: Any, raw_folder: Path) -> None:
    path = raw_folder / "reddit_de" / "submissions.jsonl"
    path.parent.mkdir()
    path.write_text('{"id": "id000", "title": "T", "selftext": "", "subreddit": "s"}\n{"id": "id001", "ti')
    with refused(Unavailable, 359):
        get_source("reddit_s2s").load()
    download(path, api_of(reddit, []))
    assert reddit.handler.calls[0][0] == "id001"
    assert get_source("reddit_s2s").missing() is None


def test_without_credentials_it_says_which(reddit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDDIT_CLIENT_ID", raising=False)
    with refused(Unavailable, "REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET"):
        get_source("reddit_s2s").fetch()


def test_cleaning_and_the_papers_defect() -> None:
    text = " Siehe [eins](http://a.de) und [zwei](http://b.de) auf http://c.de \n"
    assert clean_text(text) == "Siehe eins und zwei auf"
    assert clean_as_paper(text) == "Siehe eins]( und [zwei auf "


def test_subreddits_are_drawn_from_a_seed() -> None:
    names = [f"s{i:02d}" for i in range(80)]
    for draw in (draw_subreddits, draw_as_paper):
        first = list(draw(names))
        assert first == list(draw(names))
        assert len(first) == 10
        assert all(10 <= len(chosen) <= 50 and len(set(chosen)) == len(chosen) for chosen in first)


def test_real_ids_are_there_to_be_fetched(real_raw: RealRaw) -> None:
    real_raw("tecb_de")
    from traube.papers.german.readers.reddit import _ids

    assert len(_ids()) == 40_759
