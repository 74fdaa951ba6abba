"""The written table of a grouping holds the rows that were read, unchanged, and the groups beside them."""

import csv
import io
import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traube._core.escaping import format_csv
from traube._grouping.clustering import Clustering
from traube._grouping.result_table import result_table
from traube.tasks.readers.table import read_rows

GROUPS = Clustering(np.array([0, -1]), np.array([0.5, np.nan]), {0: ["bread"]}, {0: [0]}, None, stability={0: 0.9})


def written(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(format_csv(result_table(read_rows(path), GROUPS)), newline="")))


def test_the_columns_of_a_table_stay_in_front_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,body,price,note\n007,bread,-1.50,=1+1\n8,,,\n")
    first, second = written(path)
    assert list(first) == ["id", "body", "price", "note", "group", "name", "distance", "stability"]
    assert list(first.values()) == ["007", "bread", "-1.50", "'=1+1", "0", "bread", "0.5", "0.9"]
    assert list(second.values()) == ["8", "", "", "", "-1", "", "", ""]


def test_values_of_other_formats_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "n": -7, "tags": ["x", 1]}\n{"text": "\\ud800b", "n": null, "tags": {}}\n')
    first, second = written(path)
    assert (first["n"], json.loads(first["tags"])) == ("-7", ["x", 1])
    assert (second["text"], second["n"], second["tags"]) == ("?b", "", "{}")
    (tmp_path / "a.txt").write_text("bread\n\nship\n")
    assert [(row["text"], row["group"]) for row in written(tmp_path / "a.txt")] == [("bread", "0"), ("ship", "-1")]


def test_a_column_of_the_file_keeps_its_name_and_ours_gets_another(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,group,traube_group,name\nbread,mine,old,me\nship,theirs,old,you\n")
    first, _ = written(path)
    assert (first["group"], first["traube_group"], first["name"]) == ("mine", "old", "me")
    assert (first["traube_traube_group"], first["traube_name"]) == ("0", "bread")


@given(st.decimals(allow_nan=False, allow_infinity=False).map(str) | st.from_regex(r"\A[-+=@]?[0-9.]{1,12}\Z"))
def test_a_number_is_never_changed_but_by_an_apostrophe(tmp_path_factory, value: str) -> None:
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text(f"text,n\na,{value}\nb,x\n")
    assert written(path)[0]["n"].removeprefix("'") == value
