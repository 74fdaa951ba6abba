"""The pages that `traube cluster` writes."""

import json
from pathlib import Path

from tests.platform.conftest import word_rows
from tests.platform.test_cli import Traube


def test_a_report_stands_beside_the_csv_file_unless_it_is_named_or_turned_off(traube: Traube, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(text for text, _ in word_rows()))
    command = ("cluster", str(file), "-m", "tfidf", "-k", "3")
    result = traube(*command)
    page = (tmp_path / "notes.txt.clusters.html").read_text()
    assert "notes.txt.clusters.html" in "".join(result.stdout.split())
    assert "notes.txt: 3 groups of 60 texts" in page and "Grouped by tfidf, none/stable_kmeans." in page

    named, alone = tmp_path / "named.html", tmp_path / "map.html"
    assert traube(*command, "--report", str(named), "--map", str(alone), "-o", str(tmp_path / "a.csv")).exit_code == 0
    assert '<main id="panel" aria-label' in named.read_text() and '<main id="panel" hidden' in alone.read_text()

    (tmp_path / "notes.txt.clusters.html").unlink()
    assert json.loads(traube(*command, "--no-report", "--json").stdout)["pages"] == []
    assert not (tmp_path / "notes.txt.clusters.html").exists()


def test_too_few_texts_are_grouped_without_a_report(traube: Traube, tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text("a ship\nbread\n")
    result = traube("cluster", str(file), "-m", "tfidf", "-k", "2")
    assert result.exit_code == 0 and "no report: a map needs at least 4 texts" in result.stdout
