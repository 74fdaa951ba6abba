"""Notes that `traube cluster` prints on texts that a model does not read."""

import json
from pathlib import Path

from tests.cli.conftest import Traube

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
