"""Models looked up once, for one question."""

from pathlib import Path

from tests.errors import refused
from traube._core.errors import Unavailable, Unknown
from traube._pipeline.lookup import Lookup


def test_a_model_is_looked_up_once(cards: Path, tiny_bert: Path) -> None:
    (cards / "mine.yaml").write_text(f"model: {tiny_bert}\n")
    lookup = Lookup()
    first = lookup.usable("mine")
    (cards / "mine.yaml").unlink()
    assert lookup.usable("mine") is first
    with refused(Unknown, "mine"):
        Lookup().usable("mine")


def test_each_precision_is_a_model_of_its_own(cards: Path, tiny_bert: Path) -> None:
    (cards / "mine.yaml").write_text(f"model: {tiny_bert}\n")
    lookup = Lookup()
    assert lookup.usable("mine", "fp32").fingerprint != lookup.usable("mine", "bf16").fingerprint


def test_why_a_model_cannot_be_had_is_said_each_time(cards: Path) -> None:
    (cards / "far.yaml").write_text("model: ./far\n")
    lookup = Lookup()
    for _ in range(2):
        with refused(Unavailable, "far") as raised:
            lookup.usable("far")
        assert not isinstance(raised.value, Unknown)
