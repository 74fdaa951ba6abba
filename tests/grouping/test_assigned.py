"""The texts of each day are assigned once, from files and from a database, whatever is killed or comes twice."""

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from tests.errors import refused
from traube._core import paths
from traube._core.errors import Busy, Inaccessible, Invalid, Malformed, Missing, Unknown
from traube._grouping.assigned import (
    COLUMNS,
    Assigned,
    Champion,
    Groups,
    Outcome,
    assign_days,
    read_assigned,
    read_day,
    write_to_database,
)
from traube._grouping.describe import find_keywords
from traube._grouping.inboxes import FolderOfTexts, TableOfTexts, find_inboxes
from traube._grouping.served import Served
from traube._pipeline.params import Inbox, load_params
from traube._storage import Storage, open_storage
from traube.components import parse_method
from traube.models import load_model
from traube.models.lexical import Lexical
from traube.tasks.task import Task

BERLIN = ZoneInfo("Europe/Berlin")
COOKING, SPORT, STRANGE = "kitchen oven salt bread dough", "player match referee racket serve", "dividend statement"


@pytest.fixture
def champion(tiny_task: Task) -> Callable[[], Champion]:
    """Return a clustering of the tiny task by its topics, as version 1."""
    model, texts = load_model("tfidf"), tiny_task.texts
    vectors = model.encode(texts)
    topics = np.arange(len(texts)) % 6 // 2
    words = find_keywords(texts, topics)
    method, fitted = parse_method("none/kmeans"), Lexical(model.card).fit_words(texts)
    served = Served(model.card, model.fingerprint, method, 0, fitted, vectors, vectors, topics, words)
    return lambda: (served, "1")


@pytest.fixture
def storage() -> Storage:
    return open_storage(paths.home())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAUBE_INBOX", str(tmp_path / "inbox"))
    (tmp_path / "inbox" / "tiny").mkdir(parents=True)
    return tmp_path / "inbox" / "tiny"


def write(path: Path, text: str, day: str = "2026-03-01") -> Path:
    """Write a file of a day."""
    path.write_text(text)
    moment = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    return path


def assign_day(storage: Storage, inbox: FolderOfTexts | TableOfTexts, day: str, *given: Any) -> Outcome:
    """Assign a single day."""
    (outcome,) = assign_days(storage, inbox, [day], *given)
    return outcome


def assign(storage: Storage, inbox: FolderOfTexts | TableOfTexts, day: str, load: Callable[[], Champion]) -> int:
    """Assign all sources of an inbox, and return the number of new texts."""
    return assign_day(storage, inbox, day, [*inbox.list_states()], load).new


def test_each_text_is_assigned_once(storage: Storage, folder: Path, champion: Callable[[], Champion]) -> None:
    inbox = FolderOfTexts("tiny", Inbox(), BERLIN)
    write(folder / "a.txt", f"{COOKING}\n{SPORT}\n{COOKING}\n\n{STRANGE}\n")
    assert assign(storage, inbox, "2026-03-01", champion) == 3
    one = read_assigned(storage, "tiny")["2026-03-01"]
    table = read_day(storage, one)
    assert list(table) == list(COLUMNS) and table["text"].tolist() == [COOKING, SPORT, STRANGE]
    assert table["fits"].tolist() == [True, True, False] and table["cluster"].tolist()[2] == -1
    assert table["cluster"][0] != table["cluster"][1] and "kitchen" in table["words"][0]
    assert (sum(one.sizes["1"].values()), one.strays["1"], one.texts) == (2, 1, 3)
    assert storage.get_document(Groups, "tiny/1") is not None

    assert assign(storage, inbox, "2026-03-01", lambda: pytest.fail("no new text needs the champion")) == 0
    write(folder / "b.csv", f"text\n{SPORT}\n", "2026-03-02")  # said again on another day
    assert assign_day(storage, inbox, "2026-03-02", ["b.csv"], champion).repeated == 1
    write(folder / "b.csv", f"text\n{SPORT}\n{SPORT} net\n", "2026-03-02")
    assert assign(storage, inbox, "2026-03-02", champion) == 1
    assert [one.texts for one in read_assigned(storage, "tiny").values()] == [3, 1]
    assert not read_assigned(storage, "other")


def test_what_is_killed_loses_and_doubles_nothing(
    storage: Storage, folder: Path, champion: Callable[[], Champion], monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = FolderOfTexts("tiny", Inbox(), BERLIN)
    write(folder / "a.txt", f"{COOKING}\n{SPORT}")
    for place in ("put", "enter"):  # before the table is stored, and before it is entered
        target = storage.blobs if place == "put" else storage.catalog
        with monkeypatch.context() as patch:
            patch.setattr(target, place, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                assign(storage, inbox, "2026-03-01", champion)
        assert not read_assigned(storage, "tiny")
    with storage.hold("tiny", "", "assigned") as lease:
        lease.release()  # as if it had expired, and another process had taken it
        with refused(Busy, "tiny", "2026-03-01"):
            assign_day(storage, inbox, "2026-03-01", ["a.txt"], champion, lease)
    assert assign(storage, inbox, "2026-03-01", champion) == 2
    assert read_day(storage, read_assigned(storage, "tiny")["2026-03-01"])["text"].tolist() == [COOKING, SPORT]


def test_a_column_of_days_and_a_files_date(folder: Path) -> None:
    inbox = FolderOfTexts("tiny", Inbox(day="when", text="body"), BERLIN)
    rows = ["2026-03-01,one bread", "2026-03-01T23:30:00Z,two bread", "2026-03-02 10:00,three bread", "2026-03-03, "]
    write(folder / "a.csv", "\n".join(["when,body", *rows]), "2026-05-01")
    read = inbox.read("a.csv")
    assert [*zip(read["day"], read["text"], strict=True)] == [
        ("2026-03-01", "one bread"),
        ("2026-03-02", "two bread"),  # half past midnight in Berlin
        ("2026-03-02", "three bread"),
    ]
    assert inbox.read("a.csv", "2026-03-02")["text"].tolist() == ["two bread", "three bread"]
    plain = FolderOfTexts("tiny", Inbox(text="body"), BERLIN)
    assert set(plain.read("a.csv")["day"]) == {"2026-05-01"} and plain.find_first_day() == date(2026, 5, 1)
    assert FolderOfTexts("tiny", Inbox(since=date(2026, 1, 1)), BERLIN).find_first_day() == date(2026, 1, 1)
    state = inbox.list_states()
    write(folder / "a.csv", "\n".join(["when,body", *rows[:3]]), "2026-05-02")
    write(folder / ".hidden.csv", "when,body")
    assert inbox.list_states().keys() == state.keys() and inbox.list_states() != state


def test_files_that_hold_no_texts_of_days_are_refused(folder: Path) -> None:
    inbox = FolderOfTexts("tiny", Inbox(day="when"), BERLIN)
    write(folder / "a.csv", "when,text\nyesterday,bread\nMonday,soup\n2026-03-01,oven\n")
    with refused(Malformed, "a.csv", "when"):
        inbox.read("a.csv")
    write(folder / "a.csv", "day,text\n2026-03-01,bread\n")
    with refused(Unknown, "inbox.tiny.day", "when"):
        inbox.read("a.csv")
    write(folder / "two.csv", "a,b\none two three,four five six\nseven eight,nine ten\n")
    with refused(Invalid, "two.csv", "inbox.tiny.text"):
        FolderOfTexts("tiny", Inbox(), BERLIN).read("two.csv")
    write(folder / "a.exe", "x")
    with refused(Malformed, "a.exe"):
        inbox.read("a.exe")
    with refused(Missing, "gone.csv"):
        inbox.read("gone.csv")
    with refused(Missing, "../secret.csv"):
        inbox.read("../secret.csv")


def test_texts_of_a_database_come_back_as_a_table_there(
    storage: Storage, tmp_path: Path, champion: Callable[[], Champion], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'tickets.db'}"
    monkeypatch.setenv("TICKETS", url)
    given = Inbox(
        database="TICKETS", table="tickets", text="body", day="at", assigned="grouped", since=date(2026, 3, 1)
    )
    inbox, engine = TableOfTexts("tiny", given, BERLIN), sa.create_engine(url)
    tickets = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "body": [COOKING, SPORT, None],
            "at": pd.to_datetime(["2026-03-01 10:00", "2026-03-02 00:00", "2026-03-02 01:00"]),
        }
    )
    tickets.to_sql("tickets", engine, index=False)
    (state,) = inbox.list_states().values()
    assert inbox.read("tickets")["day"].tolist() == ["2026-03-01", "2026-03-02"]
    for day in ("2026-03-01", "2026-03-02"):
        outcome = assign_day(storage, inbox, day, ["tickets"], champion)
        for _ in range(2):  # a run that is repeated after a crash
            write_to_database(inbox, day, outcome.table)
    written = pd.read_sql_table("grouped", engine)
    assert list(written) == ["task", *COLUMNS] and written["text"].tolist() == [COOKING, SPORT]
    assert written["fits"].all() and written["day"].tolist() == ["2026-03-01", "2026-03-02"]

    tickets.assign(id=4, body=STRANGE).head(1).to_sql("tickets", engine, index=False, if_exists="append")
    assert [*inbox.list_states().values()] != [state]
    write_to_database(inbox, "2026-03-01", assign_day(storage, inbox, "2026-03-01", ["tickets"], champion).table)
    assert sorted(pd.read_sql_table("grouped", engine)["text"]) == sorted([COOKING, SPORT, STRANGE])
    without_days = TableOfTexts("tiny", Inbox(database="TICKETS", table="tickets"), BERLIN)
    assert set(without_days.read("tickets", "2026-04-01")["day"]) == {"2026-04-01"}


def test_a_database_is_named_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Inbox(database="TICKETS", table="tickets")
    inbox = TableOfTexts("tiny", given, BERLIN)
    with refused(Missing, "inbox.tiny.database", "TICKETS"):
        inbox.list_states()
    monkeypatch.setenv("TICKETS", "postgresql://me:secret@127.0.0.1:1/x")
    with refused(Inaccessible, "TICKETS") as raised:
        inbox.list_states()
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("TICKETS", f"sqlite:///{tmp_path / 'x.db'}")
    with refused(Unknown, "inbox.tiny.table", "tickets"):
        inbox.list_states()


def test_inboxes_are_folders_of_tasks_and_what_params_names(
    folder: Path, cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cards / "tiny.csv").write_text("text,topic\nbread,a\nsoup,b\n")
    (cards / "tiny.yaml").write_text("file: tiny.csv\ntext: text\nlabels: topic\n")
    (folder.parent / "no_task").mkdir()
    params = load_params()
    assert [*find_inboxes(params)] == ["tiny"]
    elsewhere = params.model_copy(update={"inbox": {"tiny": Inbox(folder=str(tmp_path / "other"))}})
    (found,) = find_inboxes(elsewhere).values()
    assert isinstance(found, FolderOfTexts) and found.path == tmp_path / "other" and not found.list_states()
    for wrong in ({"database": "X"}, {"database": "X", "table": "t", "folder": "f"}, {"assigned": "t"}):
        with pytest.raises(ValueError, match="database"):
            Inbox.model_validate(wrong)


def test_a_day_counts_by_the_version_of_its_champion() -> None:
    one = Assigned(key="a/2026-03-01", version="2", sizes={"1": {0: 3}, "2": {0: 1, 4: 2}}, strays={"1": 9, "2": 1})
    assert (one.day, one.texts, one.count("1"), one.count("3")) == ("2026-03-01", 4, 12, 0)
