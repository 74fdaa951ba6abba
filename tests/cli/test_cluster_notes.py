"""Notes that `traube cluster` prints on texts that a model does not read."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Traube
from traube._core import words

KNOWN = ["dough and bread", "a loaf of bread", "dough for a loaf", "a ship and its crew", "the crew of the ship"]


def test_texts_that_a_model_does_not_know_are_counted_in_one_line(traube: Traube, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join([*KNOWN, "§ 1 !", "? 2 ;"]))
    shown = traube("cluster", str(file), "-m", "hashed", "-k", "2", "--no-report")
    assert "2 of 7 texts hold no word that hashed knows" in shown.stdout
    listed = json.loads(traube("cluster", str(file), "-m", "hashed", "-k", "2", "--no-report", "--json").stdout)
    assert (listed["unknown"], listed["noise"], sum(group["texts"] for group in listed["groups"])) == (2, 0, 5)

    file.write_text("\n".join(KNOWN))  # and nothing is said where all are known
    assert "no word" not in traube("cluster", str(file), "-m", "hashed", "-k", "2", "--no-report").stdout


def test_texts_that_are_longer_than_the_model_reads_are_counted(traube: Traube, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join([*KNOWN, *(f"{text} " * 100 for text in KNOWN[:3])]))
    arguments = ("cluster", str(file), "-m", "minilm", "-k", "2", "--no-report")
    assert "3 of 8 texts are longer than the 256 tokens that minilm reads" in traube(*arguments).stdout
    assert json.loads(traube(*arguments, "--json").stdout)["longer_than_read"] == 3


@pytest.mark.slow
def test_a_run_names_long_texts_as_what_made_all_vectors_alike(traube: Traube, tmp_path: Path) -> None:
    file, begin = tmp_path / "contracts.csv", "this agreement is made between the parties " * 50
    file.write_text("\n".join(["text,label", *(f"{begin}{KNOWN[i % 5]} {i},{'ab'[i % 2]}" for i in range(8))]))
    result = traube("run", str(file), "--labels", "label", "-m", "minilm")
    assert "'not_collapsed' failed: 8 of 8 texts are longer than the 256 tokens that minilm reads" in " ".join(
        result.output.split()
    )


def test_scripts_without_spaces_have_a_line_on_what_would_give_words(
    traube: Traube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(["手机屏幕碎了", "新手机的电池", "手机不亮了", "火车晚点了", "坐火车去车站", "火车票"]))
    arguments = ("cluster", str(file), "-m", "hashed", "-k", "2", "--no-report")
    monkeypatch.setattr(words, "has_segmenter", lambda: False)
    assert "n-grams of characters" in traube(*arguments).stdout
    monkeypatch.setattr(words, "has_segmenter", lambda: True)
    monkeypatch.setattr(words, "segment", lambda run: iter([(0, run)]))
    assert "n-grams of characters" not in traube(*arguments).stdout
    monkeypatch.setattr(words, "has_segmenter", lambda: False)
    file.write_text("\n".join(KNOWN))
    assert "n-grams of characters" not in traube(*arguments).stdout
