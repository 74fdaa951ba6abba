"""Studies of a recipe: kept in a file, gone on with, hopeless trials stopped early."""

from dataclasses import replace
from pathlib import Path

import pytest

from resources.studies import history, importances, trials_table
from tests.errors import refused
from tests.made import page_data
from tests.papers.cob.test_blackbox import RECIPE
from tests.training.killing import kill, run_until_killed
from tests.training.test_training import words_task
from traube._core.errors import Conflict, Invalid, Malformed
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.papers.cob.trainers.cob import Cob
from traube.papers.german.trainers.wwm import Wwm
from traube.training import Entry
from traube.training.study import count_finished, find_best_by_task, locate_study, open_study, read_state, search

FIXED = {name: value for name, value in RECIPE.items() if name != "batch"}


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(base: Transformer, tmp_path: Path) -> None:
    path = locate_study(tmp_path, "cob", "words", "tiny")
    reported: list[tuple[int, Entry]] = []
    first = search(Cob, words_task(), base, path, 2, FIXED)
    found = search(Cob, words_task(), base, path, 4, FIXED, watch=lambda trial, entry: reported.append((trial, entry)))
    assert (first.trials, found.trials) == (2, 4)
    assert {trial for trial, _ in reported} == {2, 3}
    table = trials_table(found.study)
    assert table["value"].max() == pytest.approx(found.best["value"])
    assert table["lam"].is_unique  # not the same draws again
    assert table["lam"].between(20, 200).all() and table["r"].between(0, 10).all() and set(table["batch"]) <= {1, 2}
    assert find_best_by_task(tmp_path, "cob") == {"words": found.best}
    trials, best = page_data(history(found.study))[0]["traces"]
    assert trials["x"] == [0, 1, 2, 3] and best["y"][-1] == pytest.approx(found.best["value"])
    assert page_data(importances(found.study))[0]["traces"][0]["y"]
    again = search(Cob, words_task(), base, path, 4, FIXED, watch=lambda trial, entry: reported.clear())
    assert reported and again.best == found.best  # nothing was computed


@pytest.mark.slow
def test_trials_of_one_study_can_be_compared(base: Transformer, tmp_path: Path) -> None:
    """Other values that are not searched make another study; other data is refused."""
    path = locate_study(tmp_path, "cob", "words", "tiny", FIXED)
    assert path != locate_study(tmp_path, "cob", "words", "tiny", {**FIXED, "layers": "0"})
    search(Cob, words_task(), base, path, 1, FIXED)
    task = words_task()
    other = replace(task, rows=task.splits.iloc[:-1])
    with refused(Conflict, path):
        search(Cob, other, base, path, 2, FIXED)


def test_what_cannot_be_searched(base: Transformer, tmp_path: Path) -> None:
    with refused(Invalid, "wwm", "cob"):
        search(Wwm, words_task(), base, tmp_path / "a", 1)
    with refused(Conflict, "lam"):
        search(Cob, words_task(), base, tmp_path / "a", 1, {"lam": 3})
    (tmp_path / "b.log").write_text("no study\n")
    with refused(Malformed, "b.log"):
        open_study(tmp_path / "b.log", "cob")


def _kill_in_trial_1(trial: int, entry: object) -> None:
    if trial == 1:
        kill()


def _search_until_killed(encoder: str, path: Path) -> None:
    base = Transformer(ModelCard(name="tiny", kind="transformer", model=encoder), "cpu")
    search(Cob, words_task(), base, path, 3, FIXED, watch=_kill_in_trial_1)


@pytest.mark.slow
def test_a_study_that_was_killed_loses_one_trial(base: Transformer, tmp_path: Path) -> None:
    path = tmp_path / "cob__words__tiny.log"
    run_until_killed(_search_until_killed, str(base.card.model), path)
    study = open_study(path, "cob")
    assert count_finished(study) == 1
    # looking leaves a trial as it is: it may be another process's
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "RUNNING"]
    found = search(Cob, words_task(), base, path, 3, FIXED)
    assert found.trials == read_state(open_study(path, "cob")).trials == 3
    assert found.study.trials[1].state.name == "FAIL"
