"""The user's own data: five lines of YAML and a table."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.errors import Refusal, refused
from traube._core import paths
from traube._core.errors import Invalid, Malformed, Missing, Unavailable, Unknown
from traube._core.hashing import frame_digest
from traube.tasks import get_source, load_task
from traube.tasks.readers.table import read_column
from traube.tasks.reading import read_rows
from traube.tasks.task import Task, index_texts, text_id

Own = Callable[..., Task]

CSV = 'id,body,area,team,month\n1,"my screen, black",hardware,a,may\n2,no login,access,b,may\n3,slow,hardware,a,june\n'


def test_two_lines_make_a_task(own_task: Own) -> None:
    task = own_task(CSV, "text: body")
    (split,) = task.test_splits()
    assert task.texts == ["my screen, black", "no login", "slow"]
    assert (split.split, split.level, split.labels) == ("all", "none", None)
    assert task.card.family == "own"


def test_a_level_for_each_column_of_labels(own_task: Own) -> None:
    task = own_task(CSV, "text: body\nlabels: [area, team]").validate()
    assert {s.level: s.labels.tolist() for s in task.test_splits() if s.labels is not None} == {
        "area": ["hardware", "access", "hardware"],
        "team": ["a", "b", "a"],
    }


def test_a_split_and_a_query_may_be_columns(own_task: Own) -> None:
    task = own_task(CSV, "text: body\nlabels: area\nsplit: month")
    assert [(s.split, s.items.tolist()) for s in task.test_splits()] == [("may", [0, 1]), ("june", [0])]
    task = own_task(CSV, "text: body\nlabels: area\nquery: month")
    assert task.texts == ["my screen, black", "no login", "slow", "may", "june"]
    assert task.splits["query_id"].tolist() == [text_id("may"), text_id("may"), text_id("june")]


def test_parts_are_kept(own_task: Own) -> None:
    task = own_task("body,area,use\na,x,train\nb,y,test\nc,x,test\n", "text: body\nlabels: area\npart: use")
    assert task.splits["part"].tolist() == ["train", "test", "test"]
    assert [s.size for s in task.test_splits()] == [2]


def test_columns_may_be_called_what_they_like(own_task: Own) -> None:
    task = own_task(
        "split,text,part,query\na,x,1,q\nb,y,2,r\n", "text: split\nlabels: [text, part, query]\nsplit: query"
    )
    assert task.texts == ["a", "b"]
    assert task.splits.groupby("level", sort=False)["label"].agg(list).to_dict() == {
        "text": ["x", "y"],
        "part": ["1", "2"],
        "query": ["q", "r"],
    }


def parquet(**columns: list[Any]) -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("t.csv", "body,area\none,1\ntwo,2\n"),
        ("t.csv", "\ufeffbody,area\r\none,1\r\n\r\ntwo,2\r\n"),
        ("t.tsv", "body\tarea\none\t1\ntwo\t2\n"),
        ("t.csv.gz", "body,area\none,1\ntwo,2\n"),
        ("t.jsonl", '{"body": "one", "area": 1}\n\n{"area": 2.0, "body": "two"}\n'),
        ("t.JSONL", '\ufeff{"body": "one", "area": "1"}\n{"area": "2", "body": "two"}'),
        ("t.jsonl.gz", '{"body": "one", "area": 1}\n{"area": 2, "body": "two"}\n'),
        ("t.parquet", parquet(body=["one", "two"], area=[1, 2])),
        ("t.parquet", parquet(body=["one", "two"], area=[1.0, 2.0])),
        ("t.parquet", parquet(body=["one", "two"], area=pd.Categorical(["1", "2"]))),
    ],
)
def test_every_format_gives_the_same_task(own_task: Own, file: str, data: str | bytes) -> None:
    task = own_task(data, file=file)
    assert task.texts == ["one", "two"]
    assert task.splits["label"].tolist() == ["1", "2"]


def test_a_separator_of_ones_own(own_task: Own) -> None:
    assert own_task("body;area\na, b;x\nc;y\n", 'text: body\nlabels: area\nseparator: ";"').texts == ["a, b", "c"]


BLANK = ["a", None, "c", " ", "e", "f"], ["x", "y", "x", "y", None, "y"]


@pytest.mark.parametrize(
    ("file", "data", "places"),
    [
        ("t.csv", "body,area\na,x\n,y\nc,x\n ,y\ne,\nf,y\n", "line 3, line 5, line 6"),
        (
            "t.jsonl",
            "\n".join(json.dumps({"body": text, "area": area}) for text, area in zip(*BLANK, strict=True)),
            "line 2, line 4, line 5",
        ),
        ("t.parquet", parquet(body=BLANK[0], area=BLANK[1]), "row 1, row 3, row 4"),
    ],
)
def test_rows_without_a_text_or_a_label_are_left_out_and_named(
    own_task: Own, caplog: pytest.LogCaptureFixture, file: str, data: str | bytes, places: str
) -> None:
    task = own_task(data, file=file).validate()
    assert task.texts == ["a", "c", "f"]
    assert task.splits["label"].tolist() == ["x", "x", "y"]
    (warning,) = caplog.messages
    assert warning.endswith(f"{file}: 3 of 6 rows are without a text or a label ({places}): left out")


def test_a_row_may_lack_one_of_several_labels(own_task: Own, caplog: pytest.LogCaptureFixture) -> None:
    task = own_task("body,area,team\na,x,\nb,y,s\nc,x,t\nd,,\n", "text: body\nlabels: [area, team]").validate()
    found = {split.level: (task.texts_at(split.rows), split.labels.tolist()) for split in task.test_splits()}
    assert found == {"area": (["a", "b", "c"], ["x", "y", "x"]), "team": (["b", "c"], ["s", "t"])}
    assert [message.partition("tickets.csv: ")[2].partition(" rows")[0] for message in caplog.messages] == ["1 of 4"]


def test_a_column_without_any_label_leaves_out_nothing(own_task: Own, caplog: pytest.LogCaptureFixture) -> None:
    task = own_task("body,area\na,\nb,\n")
    assert (task.texts, task.is_labeled, caplog.messages) == (["a", "b"], False, [])


def test_whole_numbers_stay_whole_beside_nulls(own_task: Own) -> None:
    task = own_task(parquet(body=["a", "b", "c"], area=[1, 2, None]), file="t.parquet")
    assert task.splits["label"].tolist()[:2] == ["1", "2"]


def test_odd_and_long_texts_can_be_stored(own_task: Own) -> None:
    assert own_task('{"body": "smile \\ud83d", "area": "x"}\n', file="t.jsonl").texts == ["smile ?"]
    text = "word\n" * 100_000
    assert own_task(f'body,area\n"{text}",x\n').texts == [text]


@pytest.mark.parametrize(
    ("file", "data", "refusal"),
    [
        ("t.csv", "bdy,area\na,x\n", (Unknown, "tickets.yaml", "line 2", "text", "body", "bdy")),
        ("t.csv", "body,region\na,x\n", (Unknown, "line 3", "labels", "area", "t.csv")),
        ("t.csv", 'body,area\n"two\nlines",x\nb\n', (Malformed, "t.csv:4", 1, 2)),
        ("t.txt", "a", (Unknown, "line 2", "text", "body", "t.txt")),
        # where more than half of the rows lack something, the columns are wrong
        ("t.csv", "body,area\n,x\nb,\nc,1\n", (Malformed, "t.csv", "line 2", "line 3")),
    ],
)
def test_bad_data_is_named_in_one_line(own_task: Own, file: str, data: str | bytes, refusal: Refusal) -> None:
    with refused(*refusal):
        own_task(data, file=file)


@pytest.mark.parametrize(
    ("card", "refusal"),
    [
        ("split: month", (Malformed, "month", "tickets.csv:3")),
        ("part: month", (Malformed, "month", "may", "tickets.csv:2")),
    ],
)
def test_a_column_that_does_not_say_what_it_is_for_is_refused(own_task: Own, card: str, refusal: Refusal) -> None:
    with refused(*refusal):
        own_task("body,month\na,may\nb,\n", f"text: body\n{card}")


def test_all_fields_of_a_task_card_may_be_given(own_task: Own) -> None:
    task = own_task(
        CSV, "text: body\nfamily: support\nlicense: internal\nlanguage: en\ndeclared: {rows: [3, 3]}\nclusters: 2"
    )
    assert (task.card.family, task.card.license, task.card.clusters) == ("support", "internal", 2)
    assert task.card.declared.rows == (3, 3)


def test_an_absent_file_makes_the_task_unavailable(own_task: Own, cards: Path) -> None:
    own_task(CSV)
    (cards / "tickets.csv").unlink()
    with refused(Unavailable, "tickets.yaml", "line 1", "tickets.csv"):
        load_task("tickets")


def test_the_version_follows_the_data_and_the_card(own_task: Own, cards: Path) -> None:
    own_task(CSV)
    versions = {get_source("tickets").raw_version()}
    (cards / "tickets.csv").write_text(CSV + "4,d,access,b,june\n")
    versions.add(get_source("tickets").raw_version())
    (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: body\nlabels: team\n")
    versions.add(get_source("tickets").raw_version())
    assert len(versions) == 3
    assert own_task(CSV).data_version == own_task(CSV).data_version


def test_splits_can_be_drawn_from_stored_records(own_task: Own, tmp_path: Path) -> None:
    card = "text: body\nlabels: [area, team]\nsplit: month\nquery: month"
    splits = own_task(CSV.replace(",hardware,a,june", ",,,june"), card).splits
    source = get_source("tickets")
    index_texts(source.read())[1].to_parquet(tmp_path / "records.parquet", index=False)
    stored = source.draw(pd.read_parquet(tmp_path / "records.parquet"))
    assert frame_digest(stored) == frame_digest(splits)


def test_texts_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in ("one", "two")))
    (tmp_path / "a.csv").write_text("text\none\ntwo\n")
    assert [read_column(read_rows(tmp_path / f"a.{kind}"), "text") for kind in ("txt", "jsonl", "csv")] == [
        ["one", "two"]
    ] * 3
    with refused(Unknown, "a.csv", "body", "text", "--text"):
        read_column(read_rows(tmp_path / "a.csv"), "body")
    with refused(Missing, "b.csv"):
        read_rows(tmp_path / "b.csv")


def test_the_example_of_the_readme(cards: Path) -> None:
    example = (paths.PROJECT / "cards" / "README.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (cards / "tickets.yaml").write_text(example)
    (cards / "tickets.csv").write_text("body,area,team,month,question\na,x,1,may,why?\nb,y,2,may,why?\n")
    task = load_task("tickets").validate()
    assert task.texts == ["a", "b", "why?"]
    assert [(s.split, s.level) for s in task.test_splits()] == [("may", "area"), ("may", "team")]


def test_a_column_of_ids_is_no_column_of_groups(cards: Path) -> None:
    rows = [f"text {i},{i},{i % 3}" for i in range(40)]
    (cards / "mine.csv").write_text("\n".join(["text,id,area", *rows]))
    (cards / "mine.yaml").write_text("file: mine.csv\ntext: text\nlabels: area\n")
    assert len(get_source("mine").read()) == 40
    (cards / "mine.yaml").write_text("file: mine.csv\ntext: text\nlabels: [area, id]\n")
    with refused(Malformed, "line 3", "labels", "id", 40):
        get_source("mine").read()


@pytest.mark.parametrize("key", ["labels: body", "labels: [area, body]", "labels: area\nsplit: body"])
def test_the_column_of_the_texts_is_no_label(own_task: Own, key: str) -> None:
    with refused(Invalid, "body"):
        own_task(CSV, f"text: body\n{key}")
