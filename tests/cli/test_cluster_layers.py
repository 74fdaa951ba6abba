"""`traube cluster FILE --layer` and `--groups`, and commands of the platform that take a file in the place of a task."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Traube
from tests.made import make_nested_texts


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(make_nested_texts()))
    return file


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.with_name(f"{file.name}.clusters.csv").open() as written:
        return list(csv.DictReader(written))


@pytest.mark.slow
def test_every_output_is_of_the_requested_layer(traube: Traube, notes: Path) -> None:
    result = traube("cluster", str(notes), "-m", "tfidf", "--layer", "coarse", "--no-report")
    assert result.exit_code == 0, result.output
    assert "layers of 4, 12, 14 groups: --layer 0 (coarse) to 2 (fine) takes another" in result.stdout
    coarse = rows_of(notes)
    assert len({row["group"] for row in coarse}) == 4 and all(row["path"] == row["name"] for row in coarse)
    fine = json.loads(traube("cluster", str(notes), "-m", "tfidf", "--layer", "2", "--json", "--no-report").stdout)
    assert len(fine["groups"]) == 14
    assert all(row["path"].startswith(above["path"] + " > ") for row, above in zip(rows_of(notes), coarse, strict=True))


@pytest.mark.slow
def test_layer_and_number_exclude_each_other(traube: Traube, notes: Path) -> None:
    both = traube("cluster", str(notes), "-m", "tfidf", "--layer", "coarse", "-k", "3")
    assert both.exit_code == 1 and "-k and --layer" in both.stderr
    none = traube("cluster", str(notes), "-m", "tfidf", "--layer", "7", "--no-report")
    assert none.exit_code == 1 and "layer 7" in none.stderr


def test_groups_yaml_is_respected_by_this_run_and_the_next(traube: Traube, notes: Path) -> None:
    command = ("cluster", str(notes), "-m", "tfidf", "-k", "4", "--no-report")
    first = json.loads(traube(*command, "--json").stdout)
    edits = notes.with_name("groups.yaml")
    edits.write_text(f"clustering: {first['clustering']}\nedits:\n  - merge: [0, 1]\n    to: Both\n  - split: 2\n")
    for _ in range(2):
        result = traube(*command, "--groups", str(edits))
        assert result.exit_code == 0, result.output
        assert f"2 edits applied to clustering {first['clustering']}" in "".join(result.stdout.replace("\n", " "))
        rows = rows_of(notes)
        assert {row["group"] for row in rows} == {"0", "2", "3", "4"}
        assert {row["name"] for row in rows if row["group"] == "0"} == {"Both"}
    # new texts join the edited groups by the file that was written
    new = notes.with_name("new.txt")
    new.write_text(rows[0]["text"] + "\n")
    like = f"{notes}.clusters.csv"
    assert traube("cluster", str(new), "-m", "tfidf", "--like", like, "--group", "name", "--no-report").exit_code == 0
    assert rows_of(new)[0]["name"] == rows[0]["name"]

    refused = traube("cluster", str(notes), "-m", "tfidf", "-k", "5", "--no-report", "--groups", str(edits))
    assert refused.exit_code == 1 and first["clustering"] in refused.stderr
    other = traube("cluster", str(new), "-m", "tfidf", "--like", like, "--group", "name", "--groups", str(edits))
    assert other.exit_code == 1 and "leave out --groups" in other.stderr
