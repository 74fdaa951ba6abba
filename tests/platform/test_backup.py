"""`traube backup`, `restore`, `copy` and `doctor` as a person uses them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from traube._core import paths

Traube = Callable[..., Result]


@pytest.mark.slow
def test_a_backup_of_a_lost_data_directory_gives_the_same_leaderboard(
    traube: Traube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert traube("run").exit_code == 0
    board = traube("leaderboard", "--format", "json").stdout
    home, archive, other = paths.home(), tmp_path / "traube.tar", tmp_path / "other"

    made = traube("backup", str(archive))
    assert made.exit_code == 0, made.output
    assert (again := traube("backup", str(archive))).exit_code == 1 and archive.name in again.output

    # a copy has the results; what Dagster and MLflow know stays behind, and is said to
    copied = traube("copy", str(other))
    assert copied.exit_code == 0, copied.output
    assert "Not copied: Dagster's and MLflow's history" in copied.stdout
    assert not (other / "mlflow.db").exists()
    monkeypatch.setenv("TRAUBE_HOME", str(other))
    assert traube("leaderboard", "--format", "json").stdout == board
    assert "Nothing is missing" in traube("run").stdout
    monkeypatch.setenv("TRAUBE_HOME", str(home))

    shutil.rmtree(home)
    restored = traube("restore", str(archive))
    assert restored.exit_code == 0, restored.output
    assert "restored: 6 cells" in restored.stdout
    assert traube("leaderboard", "--format", "json").stdout == board
    assert "Nothing is missing" in traube("run").stdout


def test_copy_and_restore_say_what_they_need(traube: Traube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "copy where?" in traube("copy").output
    assert "expected postgresql://" in traube("copy", str(tmp_path / "to"), "--database", "mysql://x/y").output
    monkeypatch.setenv("TRAUBE_BLOBS", str(tmp_path / "blobs"))
    assert "`traube copy --blobs URL --database URL`" in " ".join(traube("restore", "traube.tar").output.split())
