"""The file `.env`: what is read of it, and what stays in it when Traube writes lines of its own."""

import os
import shutil
from pathlib import Path

import pytest

from operations.launch import _write_environment, prepare
from traube._core import paths, settings
from traube._core.settings import read_env, write_env

OF_PEOPLE = """# keys of the team
TRAUBE_BLOBS=s3://team/traube  # ours
RAY_num_workers_soft_limit=8

export AWS_SECRET_ACCESS_KEY='abc # def'
no line of ours
"""


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A = b c ", "b c"),
        ("A=s3://team/traube  # ours", "s3://team/traube"),
        ("A=s3://team/traube#1", "s3://team/traube#1"),
        ('A="b # c" # d', "b # c"),
        ("A='b'# d", "b"),
        ("A=", ""),
        ("A= # none", ""),
        ("A=postgresql://u@h/n?options=-csearch_path=dagster", "postgresql://u@h/n?options=-csearch_path=dagster"),
    ],
)
def test_a_value_ends_where_its_comment_begins(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\n#B=c\n")
    assert read_env(tmp_path / ".env") == {"A": value}


def test_what_people_wrote_stays_and_so_do_its_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text(OF_PEOPLE + "DAGSTER_HOME=/old  # by init\n")
    file.chmod(0o600)
    monkeypatch.setenv("DAGSTER_HOME", "/new")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///x.db")
    for _ in range(2):
        names = ("DAGSTER_HOME", "MLFLOW_TRACKING_URI", "TRAUBE_DAGSTER_DATABASE")
        _write_environment(file, {name: os.environ.get(name) for name in names})
        assert file.read_text() == f"MLFLOW_TRACKING_URI=sqlite:///x.db\n{OF_PEOPLE}DAGSTER_HOME=/new\n"
        assert file.stat().st_mode & 0o777 == 0o600
    # a line of ours that says nothing any more is gone
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    _write_environment(file, {name: os.environ.get(name) for name in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI")})
    assert file.read_text() == f"{OF_PEOPLE}DAGSTER_HOME=/new\n"
    assert read_env(file)["RAY_num_workers_soft_limit"] == "8"


def test_what_mlflow_loads_finds_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that a champion brings along lies in no checkout: its data directory would be another one."""
    home = tmp_path / ".traube"
    shutil.copy(paths.PROJECT / "dagster.yaml", tmp_path)
    monkeypatch.setattr(os, "environ", {**os.environ, "TRAUBE_HOME": str(home)})
    monkeypatch.setattr(paths, "PROJECT", tmp_path)
    prepare()
    assert read_env(tmp_path / ".env")["TRAUBE_HOME"] == str(home)
    assert settings.list_ignored(home) == []


def test_names_of_others_are_not_taken_from_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these would have a later command run code, or another program of the user's."""
    others = ["PYTHONWARNINGS", "PYTHONPATH", "BROWSER", "LD_PRELOAD", "PATH"]
    others += ["RAY_ADDRESS", "TRAUBE_HOME", "TRAUBE_ATTACK"]
    before = {name: os.environ.get(name) for name in others}
    monkeypatch.delenv("TRAUBE_WEBHOOK", raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    (home / ".env").write_text("".join(f"{name}=evil\n" for name in (*others, "DAGSTER_HOME", "TRAUBE_WEBHOOK")))
    settings._read_files.cache_clear()
    settings.blobs()
    assert {name: os.environ.get(name) for name in others} == before
    assert os.environ["TRAUBE_WEBHOOK"] == "evil"
    assert [name for _, name in settings.list_ignored(home)] == others


@pytest.mark.parametrize("kind", ["pipe", "device", "too large", "long line", "null"])
def test_a_settings_file_is_read_within_limits(tmp_path: Path, kind: str) -> None:
    file = tmp_path / ".env"
    contents = {"too large": "A=b\n" * 20_000, "long line": f"A=x{' ' * 60_000}y\n", "null": "A=a\0b\n"}
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.write_text(contents[kind])
    assert read_env(file) == {}


def test_a_file_that_is_new_is_its_owners_alone(tmp_path: Path) -> None:
    write_env(tmp_path / ".env", {"A": "b", "C": None})
    assert (tmp_path / ".env").read_text() == "A=b\n"
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    write_env(tmp_path / "none", {"C": None})
    assert not (tmp_path / "none").exists()


def test_any_bytes_and_ends_of_lines_stay(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"X=\xff\r\n# end")
    (tmp_path / ".env").symlink_to(tmp_path / "real")
    write_env(tmp_path / ".env", {"A": "b"})
    assert (tmp_path / "real").read_bytes() == b"A=b\nX=\xff\r\n# end"
    assert (tmp_path / ".env").is_symlink()
