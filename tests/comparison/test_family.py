"""The models that are compared: a checkpoint a night costs the other models' tests no power."""

import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from tests.comparison.test_regressions import OWN, add_cell, save_task
from tests.errors import refused
from traube._core import paths
from traube._core.errors import Conflict, Unknown
from traube._pipeline.cleaning import find_removable
from traube._pipeline.forgotten import Forgotten, drop_spent, forget, list_spent, read_forgotten, recall
from traube._reports.tables import leaderboard
from traube._storage import Storage, open_storage
from traube.comparison.champions import Champion, Champions
from traube.comparison.family import list_compared
from traube.comparison.regressions import Night
from traube.comparison.standings import compare_on_tasks, read_options

DAYS = [datetime(2026, 1, day, 2, tzinfo=UTC) for day in range(1, 11)]


@pytest.fixture(scope="module")
def ten_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with ten days with a checkpoint each, beside two models that params.yaml names and one that it does not."""
    storage = open_storage(tmp_path_factory.mktemp("ten_days"))
    save_task(storage)
    add = partial(add_cell, storage)
    for model, mean in {"tfidf": 0.5, "lsa": 0.6, "bow": 0.4}.items():
        add(mean, DAYS[0].isoformat(), model)
    for i, night in enumerate(DAYS):
        add(0.55 + i / 1000, night.isoformat(), f"night-{i}")
    return storage.folder


@pytest.fixture
def storage(ten_days: Path) -> Storage:
    """A copy of it: no test changes another's."""
    shutil.copytree(ten_days, paths.home(), dirs_exist_ok=True)
    return open_storage(paths.home())


def board(storage: Storage) -> pd.DataFrame:
    return leaderboard(storage, protocols={"own": OWN}).set_index("model")


def test_checkpoints_of_earlier_days_keep_score_and_interval_and_have_no_rank(storage: Storage) -> None:
    table = board(storage)
    ranked = table[table["compared"]]
    assert {*ranked.index} == {"tfidf", "lsa", "bow", "night-9"}
    assert (ranked["comparisons"].dropna() == 6).all()  # pairs of four, not of thirteen
    others = table.drop(index=ranked.index)
    assert len(others) == 9 and others["rank_low"].isna().all() and (others["verdict"] == "").all()
    assert others[["mean", "low", "high"]].notna().all(axis=None)


def test_who_is_or_was_champion_is_compared(storage: Storage) -> None:
    champion = Champion(task="tiny", model="night-3", method="none/kmeans")
    storage.save_document(Champions(now=(champion,), models={"tiny": ("night-1", "night-3")}))
    assert list_compared(storage, {"own": OWN}) == {"tiny": {"tfidf", "lsa", "bow", "night-1", "night-3", "night-9"}}


def test_tables_recommendations_and_newcomers_are_of_one_family(storage: Storage) -> None:
    _, options = read_options(storage, "tiny", "own", OWN)
    ranked = board(storage)["compared"]
    assert (
        {option.model for option in options} == {*ranked[ranked].index} == list_compared(storage, {"own": OWN})["tiny"]
    )


def test_a_model_that_somebody_names_is_compared_with_the_family(storage: Storage) -> None:
    (comparison,), _ = compare_on_tasks(storage, ["tiny"], "own", OWN, "night-2", "lsa")
    assert comparison.verdict.comparisons == 10  # pairs of five
    (comparison,), _ = compare_on_tasks(storage, ["tiny"], "own", OWN, "tfidf", "lsa")
    assert comparison.verdict.comparisons == 6


def test_a_family_of_a_few_finds_what_one_of_all_misses(storage: Storage) -> None:
    """Two models that differ by little: significant among four, not among a year of near copies."""
    add = partial(add_cell, storage, day=(DAYS[-1] + timedelta(hours=1)).isoformat())
    table = board(storage)
    p = table.loc["tfidf", "p"]  # of the best of the family against it
    assert p < 0.05
    for i in range(12):  # all in this night: newcomers, and so compared
        add(0.55 + i / 1e4, model=f"copy-{i:02}")
    assert board(storage).loc["tfidf", "p"] > 10 * p


def test_what_is_forgotten_counts_no_more_until_somebody_asks_for_it(storage: Storage) -> None:
    assert forget(storage, "night-9", ["tfidf", "lsa"], {}) == 1
    assert "night-9" not in board(storage).index
    assert "night-8" in list_compared(storage, {"own": OWN})["tiny"]  # the last night is the one before it now
    assert recall(storage, ["night-9", "tfidf"]) == ["night-9"]
    assert board(storage).loc["night-9", "compared"]
    forget(storage, "night-9", [], {})
    add_cell(storage, 0.7, "2200-01-01", "night-9", "f2")  # its folder has other weights since
    assert board(storage).loc["night-9", "mean"] == pytest.approx(0.7)


def test_champions_and_what_params_name_are_not_forgotten(storage: Storage) -> None:
    with refused(Conflict, "night-9", "tiny"):
        forget(storage, "night-9", ["tfidf"], {"tiny": "night-9"})
    with refused(Conflict, "tfidf"):
        forget(storage, "tfidf", ["tfidf"], {})
    with refused(Unknown, "night-77"):
        forget(storage, "night-77", [], {})


def test_clean_removes_what_was_forgotten_over_a_day_ago(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    # vectors belong to fingerprints, which hold the precision: to measure the faster one takes seconds, and here are none
    monkeypatch.setattr("traube.models._precision._probe", lambda *_: "fp32")

    def removable() -> list[str]:
        return [unused.name for unused in find_removable(storage) if unused.name.startswith("cell/")]

    kept = dict(storage.read_cells()[["model", "cell_id"]].itertuples(index=False))
    for night in storage.read_documents(Night):  # nightly runs pin what they compare
        storage.remove_document(night)
    forget(storage, "night-4", [], {})
    assert removable() == []
    storage.save_document(Forgotten(key="night-4", since=(datetime.now(UTC) - timedelta(days=2)).isoformat()))
    assert removable() == [f"cell/{kept['night-4']}"]
    add_cell(storage, 0.5, datetime.now(UTC).isoformat(), "night-5")  # evaluated after it was forgotten: it counts
    storage.save_document(Forgotten(key="night-5", since=(datetime.now(UTC) - timedelta(days=2)).isoformat()))
    assert list_spent(storage) == ["night-4"]
    for unused in find_removable(storage):
        unused.remove()
    drop_spent(storage)
    assert "night-4" not in {*storage.read_cells()["model"]} and read_forgotten(storage).keys() == {"night-5"}
