"""From a file to an answer, without a card: what a person types who has just installed Traube."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Traube
from tests.models.q4_files import Q4File, install_package
from traube import cluster_texts
from traube._core import paths
from traube.tasks import load_task

TOPICS = {
    "Drucker": "Der Drucker im Flur druckt heute leider wieder nur leere Seiten",
    "Urlaub": "Wie viele Tage Urlaub habe ich in diesem Jahr noch übrig",
    "Konto": "Mein Konto wurde gesperrt und das Passwort ist abgelaufen",
}
ROWS = [(f"{text}, Anfrage {i}", topic, f"t{i % 2}") for i in range(8) for topic, text in TOPICS.items()]


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """A German spreadsheet's CSV: semicolons, not in UTF-8."""
    path = tmp_path / "tickets.csv"
    path.write_bytes("\n".join(map(";".join, [("Inhalt", "Bereich", "Team"), *ROWS])).encode("cp1252"))
    return path


def in_a_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_a_fresh_folder_with_a_file_of_german_texts_ends_in_an_answer_that_names_a_multilingual_model(
    traube: Traube, tickets: Path
) -> None:
    done = traube("run", "tickets.csv", "-m", "minilm", "-m", "tfidf")
    assert done.exit_code == 0, done.output
    card = paths.generated_cards() / "tickets.yaml"
    assert in_a_line(done.stderr).startswith(
        "tickets.csv: texts in 'Inhalt', labels in 'Bereich' (German, encoding cp1252, semicolons); task tickets, "
        f"card {card}"
    )
    first, *answer = done.stdout.partition("index.html")[2].splitlines()[1:]
    assert first.startswith("The texts are German, and minilm is made for English. Made for German and not tried: ")
    assert "To add them: traube run -t tickets -m " in first
    assert "on tickets, AMI" in answer[0] and answer[1].endswith("--text Inhalt")

    assert (
        traube("recommend", "tickets.csv").stdout == traube("recommend", "tickets").stdout
    )  # every command takes the file
    result = json.loads(traube("recommend", "./tickets.csv", "--json").stdout)
    assert (result["languages"], result["made_for_others"]) == (["de"], ["minilm"])
    assert "multilingual_e5_small" in result["not_compared"]
    for command in (
        ["leaderboard", "-t", "tickets.csv"],
        ["compare", "minilm", "tfidf", "-t", str(tickets)],
        ["provenance", "tickets.csv", "tfidf"],
        ["tasks", "tickets.csv"],
        ["report", "tickets.csv", "--print"],
    ):
        shown = traube(*command)
        assert shown.exit_code == 0 and "tickets" in shown.stdout, shown.output

    assert "Nothing is missing" in traube("run", "tickets.csv", "-m", "tfidf").stdout
    tickets.write_bytes(tickets.read_bytes() + b"\nDer Drucker ist kaputt;Drucker;t1")
    again = traube("run", "tickets.csv", "-m", "tfidf")  # another content is another version of the data
    assert "Reading tickets" in again.stdout and "Evaluating tfidf" in again.stdout


@pytest.mark.slow
def test_columns_are_named_and_a_folder_is_a_model(
    traube: Traube, tickets: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").symlink_to(tiny_bert)
    done = traube("run", "tickets.csv", "--text", "Inhalt", "--labels", "Team", "-m", "./mine", "-m", "tfidf")
    assert done.exit_code == 0, done.output
    board = traube("leaderboard", "-t", "tickets.csv").stdout
    assert "tickets, Team" in board and tiny_bert.name in board
    assert "unknown column 'Teem': did you mean Team" in traube("run", "tickets.csv", "--labels", "Teem").stderr
    assert "--labels" in traube("run", "-t", "tickets", "--labels", "Team").stderr


def test_standard_input_is_a_file(traube: Traube, tmp_path: Path) -> None:
    piped = "\n".join(text for text, *_ in ROWS)
    done = traube("run", "-", "-m", "tfidf", stdin=piped)
    assert done.exit_code == 0 and "stdin.txt: texts in 'text', no labels (German); task stdin" in in_a_line(
        done.stderr
    )
    assert "stdin has no labels" in done.stdout and "Not compared" not in done.stdout.partition("stdin has")[2]
    rows = "\n".join(json.dumps({"body": text, "label": topic}) for text, topic, _ in ROWS)
    grouped = traube("cluster", "-", "-m", "tfidf", "-k", "3", stdin=rows)
    assert grouped.exit_code == 0, grouped.output
    assert "stdin.jsonl: texts in 'body'" in grouped.stderr
    assert (tmp_path / "stdin.jsonl.clusters.csv").exists()
    assert "standard input is empty" in traube("cluster", "-", stdin=" \n").stderr


def test_texts_are_grouped_by_a_guessed_column_and_a_model_for_another_language_is_named(
    traube: Traube, tickets: Path
) -> None:
    done = traube("cluster", "tickets.csv", "-k", "3")
    assert done.exit_code == 0, done.output
    assert "tickets.csv: texts in 'Inhalt', encoding cp1252, semicolons" in done.stderr
    assert done.stdout.startswith("The texts are German, and minilm is made for English.")
    assert "To use the first: traube cluster tickets.csv -m " in done.stdout.splitlines()[0]
    assert "made for" not in traube("cluster", "tickets.csv", "-k", "3", "-m", "tfidf").stdout


REASON = "texts are German: multilingual_e5_small_q4 (weights of 4 bits, not the published model) in place of minilm, made for English"
ENGLISH = "\n".join(f"The printer on floor {i} prints nothing but empty pages again today" for i in range(6))


@pytest.fixture
def multilingual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small encoder in place of the one that an extra installs; models of params.yaml."""
    install_package(Q4File().write(), tmp_path / "site", monkeypatch)
    params = tmp_path / "params.yaml"
    params.write_text(params.read_text().replace("models: [tfidf]", "models: [tfidf, minilm]"))


def test_who_names_no_model_groups_by_that_of_the_language(
    traube: Traube, tickets: Path, multilingual: None, tmp_path: Path
) -> None:
    done = traube("cluster", "tickets.csv", "-k", "3", "--no-report", "--seed", "0")
    assert done.exit_code == 0, done.output
    assert f"{REASON}; -m names another" in in_a_line(done.stderr)
    assert "by multilingual_e5_small_q4, none/stable_kmeans" in done.stdout and "made for" not in done.stdout
    found = cluster_texts([text for text, *_ in ROWS], n_clusters=3, random_state=0)  # the same in Python
    assert found.model == "multilingual_e5_small_q4"
    written = pd.read_csv(tmp_path / "tickets.csv.clusters.csv")
    assert written["group"].tolist() == found.labels.tolist()

    named = traube("cluster", "tickets.csv", "-k", "3", "-m", "tfidf", "--no-report")
    assert "texts are German" not in named.output and "by tfidf" in named.stdout


def test_english_texts_are_grouped_as_ever(traube: Traube, multilingual: None, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(ENGLISH)
    done = traube("cluster", "notes.txt", "-k", "2", "--no-report")
    assert "by minilm, none/stable_kmeans" in done.stdout and "texts are" not in done.output


@pytest.mark.slow
def test_a_run_of_a_file_has_the_model_of_its_language_in_place_of_the_usual_one(
    traube: Traube, tickets: Path, multilingual: None, tmp_path: Path
) -> None:
    planned = in_a_line(traube("run", "tickets.csv", "--dry-run").output)
    assert f"{REASON}; -m names others" in planned
    done = traube("run", "tickets.csv", "--method", "none/kmeans", "--seed", "42")
    assert done.exit_code == 0, done.output
    board = traube("leaderboard", "-t", "tickets.csv").stdout
    assert "multilingual_e5_small_q4" in board and "tfidf" in board and "minilm" not in board

    (tmp_path / "notes.txt").write_text(ENGLISH)
    for command in (
        ["run", "notes.txt", "--dry-run"],
        ["run", "-t", "tickets", "--dry-run"],  # a task, though it was made of a file
        ["run", "tickets.csv", "-t", "notes.txt", "--dry-run"],
        ["run", "tickets.csv", "-m", "minilm", "--dry-run"],
    ):
        assert "texts are German" not in in_a_line(traube(*command).output), command


def test_what_cannot_be_had_is_said_in_a_line_and_leaves_nothing(
    traube: Traube, tickets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    result = traube("run", "tickets.csv", "-m", "intfloat/multilingual-e5-smal")
    assert result.exit_code == 1 and "did you mean intfloat/multilingual-e5-small" in in_a_line(result.stderr)
    assert [path.name for path in paths.generated_cards().glob("*.yaml")] == ["tickets.yaml"]
    assert "gone.csv" in traube("run", "gone.csv").stderr
    assert "is named with its organization" in in_a_line(traube("run", "tickets.csv", "-m", "bge-m3").stderr)


def test_clusters_found_stand_beside_the_labels(traube: Traube, tickets: Path) -> None:
    assert traube("run", "tickets.csv", "-m", "tfidf", "--method", "stable_kmeans").exit_code == 0
    table = traube("leaderboard", "-t", "tickets.csv").stdout
    assert "clusters found / labels" in table and re.search(r"\d+ / 3", table)
    scores = traube("provenance", "tickets.csv", "tfidf").stdout
    assert re.search(r"clusters found \(\d+\) / labels \(3\)", scores)


def test_how_a_file_is_written_can_be_said(traube: Traube, tmp_path: Path) -> None:
    rows = "".join(f"{text}~{topic}\n" for text, topic, _ in ROWS)
    (tmp_path / "tickets.csv").write_bytes(rows.encode("cp850"))
    written = ["--separator", "~", "--no-header", "--encoding", "cp850"]
    grouped = traube("cluster", "tickets.csv", "-m", "tfidf", "-k", "3", "--no-report", *written)
    assert grouped.exit_code == 0, grouped.output
    assert "texts in 'column_1', encoding cp850, separated by '~', no header" in in_a_line(grouped.stderr)
    planned = traube("run", "tickets.csv", "-m", "tfidf", "--labels", "column_2", "--dry-run", *written)
    assert planned.exit_code == 0, planned.output
    assert load_task("tickets").texts[0] == ROWS[0][0]
    for wrong in (["--separator", "::"], ["--quote", "ab"], ["--encoding", "nothing"]):
        refused = traube("cluster", "tickets.csv", *wrong)
        assert refused.exit_code == 1 and len(refused.stderr.strip().splitlines()) == 1, refused.output
    assert "--separator" in traube("run", "-t", "tickets", "--quote", "none").stderr
