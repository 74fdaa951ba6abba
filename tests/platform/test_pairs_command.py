"""`traube pairs`: models' similarities beside gold scores."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from tests import giccs_like

Traube = Callable[..., Result]


@pytest.fixture
def traube(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traube:
    """Call the command, with the hand-written sample as raw data, and a pair task of the user's own."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nold soup,old hat,0.4\n")
    (cards / "mine.yaml").write_text(
        "pairs: mine.csv\ntext_a: a\ntext_b: b\nscore: score\ndescription: My own pairs.\n"
    )
    return lambda *arguments: CliRunner().invoke(app, ["pairs", *arguments], env={"COLUMNS": "140"})


def test_without_a_task_pair_tasks_are_listed_and_what_is_missing_is_told(traube: Traube) -> None:
    said = " ".join(traube().stdout.split())
    assert "mine: My own pairs." in said and "giccs: GiCCS" in said
    assert "stsb_de: The STS benchmark in German" in said and "missing: " in said


def test_models_are_compared_with_and_without_history(traube: Traube) -> None:
    result = traube("-t", "giccs", "-m", "tfidf", "-m", "bow", "--groups", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {(row["model"], row["history"]) for row in rows} == {(m, h) for m in ("tfidf", "bow") for h in (True, False)}
    whole = [row for row in rows if row["group"] == "all"]
    assert len(whole) == 4 and all(row["pairs"] == 40 and row["dialogues"] == 8 for row in whole)
    assert all(row["spearman_low"] < row["spearman"] < row["spearman_high"] for row in whole)
    assert {row["value"] for row in rows if row["group"] == "n_turns"} == {"3", "5"}
    shown = traube("-t", "giccs", "-m", "tfidf").stdout
    assert "joined" in shown and f"{whole[0]['pearson']:.3f} [" in shown


def test_pairs_without_a_history_are_scored_once(traube: Traube) -> None:
    result = traube("-t", "mine", "-m", "bow", "--comparison", "euclidean", "--json")
    assert [row["comparison"] for row in json.loads(result.stdout)] == ["euclidean"]
    assert "history" not in traube("-t", "mine", "-m", "bow").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-t", "min"], "unknown pair task 'min': did you mean mine?"),
        (["-t", "stsb_de"], "get it from https://"),
        (["-t", "mine", "-m", "bow", "--part", "train"], "no pair's part is 'train'"),
        (["-t", "mine", "-m", "bow", "--comparison", "own"], "'bow' has no similarity of its own: use cosine"),
    ],
)
def test_what_cannot_be_done_is_one_line(traube: Traube, arguments: list[str], said: str) -> None:
    result = traube(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr and "Traceback" not in result.output
