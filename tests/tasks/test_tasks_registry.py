"""The list of tasks, which one broken card does not break."""

import re
import shutil
from pathlib import Path

from tests.errors import check_error, refused
from traube._core.config import read_yaml
from traube._core.errors import Conflict, Invalid, Malformed, Unavailable, Unknown
from traube._core.plugins import PAPERS
from traube.tasks import card_errors, get_source, load_task, sources

CARD = "file: a.csv\ntext: body\n"


def test_traubes_own_tasks(cards: Path) -> None:
    found = sources()
    assert {"pydocs_s2s", "pydocs_p2p", "pydocs_s2s_full", "pydocs_p2p_full", "tenkgnad_p2p", "tweet"} <= set(found)
    assert {s.card.family for s in found.values()} == {"pydocs", "german", "shorttext", "cob", "qs3m"}
    for name, source in found.items():
        assert source.name == name
        assert source.card.license and source.card.source and source.card.description and source.card.language
        assert source.card.declared.splits or source.card.declared.rows


def test_each_card_of_a_paper_is_of_a_task(cards: Path) -> None:
    own = [name for name in sources(None) if not name.startswith("pydocs")]
    cards = [name for path in PAPERS.glob("*/tasks.yaml") for name in read_yaml(path)[0]]
    assert sorted(cards) == sorted(own)


def test_absent_raw_data_is_named_with_its_origin_and_license(cards: Path, raw_folder: Path) -> None:
    for name, source in sources().items():
        if source.card.family != "pydocs":  # which needs no raw data
            missing = source.missing() or ""
            assert re.search(r"is not there; get it from .+ \(license: .+\)|downloads it$", missing), name
    place = raw_folder / "10kgnad" / "train.csv"
    with refused(Unavailable, place, "tenkgnad_p2p"):
        load_task("tenkgnad_p2p")


def test_names_that_are_unknown_or_not_legal_are_refused(cards: Path) -> None:
    with refused(Unknown, "pydoc_s2s", "pydocs_s2s"):
        get_source("pydoc_s2s")
    (cards / "My Tickets.yaml").write_text(CARD)
    with refused(Invalid, "My Tickets.yaml"):
        get_source("My Tickets")


def test_a_broken_card_does_not_take_the_others_down(cards: Path) -> None:
    (cards / "good.yaml").write_text(CARD)
    (cards / "bad.yaml").write_text("file: a.csv\ntxt: body\n")
    (cards / "worse.yml").write_text("file: [a.csv\n")
    (cards / "neither.yaml").write_text("language: de\n")
    assert {"good", "tweet"} <= set(sources()) and not {"bad", "worse", "neither"} & set(sources())
    assert {path.name for path in card_errors()} == {"bad.yaml", "worse.yml", "neither.yaml"}
    assert get_source("good").name == "good"
    with refused(Invalid, "bad.yaml", "line 2", "txt"):
        get_source("bad")
    with refused(Malformed, "worse.yml", "line 2"):
        get_source("worse")
    with refused(Malformed, "neither.yaml", "dataset", "file", "markdown", "pairs", "pydocs", "rows"):
        get_source("neither")


def test_a_name_belongs_to_one_task(cards: Path) -> None:
    (cards / "tweet.yaml").write_text(CARD)
    (cards / "mine.yaml").write_text(CARD)
    (cards / "mine.yml").write_text(CARD)
    (cards / "leaderboard.yaml").write_text(CARD)
    assert {p.name for p in card_errors()} == {"tweet.yaml", "mine.yml", "leaderboard.yaml"}
    assert sources()["tweet"].card.family == "shorttext"
    assert get_source("tweet").card.family == "shorttext"  # a stray card does not stop the benchmark
    check_error(card_errors()[cards / "tweet.yaml"], Conflict, cards / "tweet.yaml", "'tweet'")


def test_cards_of_models_and_other_files_are_left_alone(cards: Path) -> None:
    (cards / "mymodel.yaml").write_text("model: org/name\npooling: mean\n")
    (cards / "broken.yaml").write_text("model: [org\n")
    (cards / "README.md").write_text("file: no card\n")
    assert card_errors() == {}
    assert not {"mymodel", "broken", "README"} & set(sources())
    shutil.rmtree(cards)
    assert "tweet" in sources() and card_errors() == {}
