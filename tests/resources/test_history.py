"""MLflow's history of a backup: what is copied into a database of this installation, from databases of others."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from resources.databases import make_mlflow
from resources.history import adopt_history
from traube._core import paths

ID = "0123456789abcdef" * 2
OLD = "file:///old/home/mlartifacts"
RUN = """
INSERT INTO runs (run_uuid, name, status, experiment_id, lifecycle_stage, artifact_uri)
VALUES ('{0}', 'own', 'FINISHED', 1, 'active', '{1}')
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow's with a run, a metric and a version of a model, made at another path; beside it, an empty one."""
    file = tmp_path_factory.mktemp("old") / "mlflow.db"
    make_mlflow(file, OLD)
    shutil.copy(file, file.with_name("empty.db"))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(RUN.format(ID, f"{OLD}/{ID}/artifacts"))
        database.execute(
            f"INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES ('ami', .5, 1, '{ID}', 0, 0)"
        )
        database.execute("INSERT INTO registered_models (name) VALUES ('traube-words')")
        database.execute(
            "INSERT INTO model_versions (name, version, source, storage_location, current_stage) "
            f"VALUES ('traube-words', 1, '{OLD}/models/m-{ID}/artifacts', 'models:/m-{ID}', 'None')"
        )
    return file


@pytest.fixture
def begun(sound: Path, home: Path) -> None:
    """MLflow's database at home is there before the history: to make its tables takes a second."""
    shutil.copy(sound.with_name("empty.db"), home / "mlflow.db")


@pytest.fixture
def adopt(sound: Path, home: Path, tmp_path: Path) -> Callable[..., tuple[list[str], sqlite3.Connection]]:
    """Change a copy of it, take it over, and return the lines and what MLflow's database is then."""

    def run(*statements: str, by_hand: Callable[[str], str] | None = None) -> tuple[list[str], sqlite3.Connection]:
        copy = tmp_path / "theirs.db"
        copy.write_bytes(sound.read_bytes())
        with closing(sqlite3.connect(copy)) as database, database:
            if by_hand is not None:
                database.execute("PRAGMA writable_schema = ON")
                database.create_function("by_hand", 1, by_hand)
                database.execute("UPDATE sqlite_master SET sql = by_hand(sql) WHERE name IN ('model_versions', 'runs')")
            for statement in statements:
                database.execute(statement)
        lines = adopt_history(copy)
        return lines, sqlite3.connect(paths.home() / "mlflow.db")

    return run


@pytest.mark.slow
def test_runs_and_the_registry_are_taken_over_to_the_new_path(
    adopt: Callable[..., tuple[list[str], sqlite3.Connection]],
) -> None:
    lines, database = adopt()
    root = (paths.home() / "mlartifacts").as_uri()
    assert lines == []
    assert database.execute("SELECT name, artifact_uri FROM runs").fetchall() == [("own", f"{root}/{ID}/artifacts")]
    assert database.execute("SELECT key, value FROM metrics").fetchall() == [("ami", 0.5)]
    versions = database.execute("SELECT source, storage_location FROM model_versions").fetchall()
    assert versions == [(f"{root}/models/m-{ID}/artifacts", f"models:/m-{ID}")]
    assert {place for (place,) in database.execute("SELECT artifact_location FROM experiments")} <= {root, f"{root}/0"}


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    "place",
    [
        *(
            "https://example.org/mlartifacts/x",
            "s3://bucket/mlartifacts",
            "/etc",
            "file:///etc",
            "runs:/x",
            "models:/evil/1",
            ".",
        ),
        *(
            f"{OLD}/../../x",
            f"{OLD}/%2e%2e/x",
            f"{OLD}/models/m-{ID}/artifacts/artifacts/weights",
            f"{OLD}/{ID}/artifacts/..",
        ),
    ],
)
def test_a_place_of_others_is_not_followed(
    adopt: Callable[..., tuple[list[str], sqlite3.Connection]], place: str
) -> None:
    tables = (("runs", "artifact_uri"), ("model_versions", "source"), ("experiments", "artifact_location"))
    lines, database = adopt(*(f"UPDATE {table} SET {column} = '{place}'" for table, column in tables))
    elsewhere = f"{(paths.home() / 'mlartifacts').as_uri()}/elsewhere"
    for table, column in tables:
        assert {found for (found,) in database.execute(f"SELECT {column} FROM {table}")} == {elsewhere}
    assert len(lines) == 1


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    "change",
    [
        lambda sql: sql.replace("source", "SOURCE"),
        lambda sql: sql.replace("artifact_uri VARCHAR(200)", "artifact_uri VARCHAR(200) AS ('file:///etc')"),
        lambda sql: (
            sql.replace("PRIMARY KEY", "UNIQUE (source) ON CONFLICT IGNORE, PRIMARY KEY")
            if "model_versions" in sql
            else sql
        ),
    ],
    ids=["capitals", "generated", "conflicts"],
)
def test_the_schema_of_others_is_not_taken_over(
    adopt: Callable[..., tuple[list[str], sqlite3.Connection]], change: Callable[[str], str]
) -> None:
    lines, database = adopt("UPDATE model_versions SET source = '/etc'", by_hand=change)
    places = [
        place
        for column, table in (("source", "model_versions"), ("artifact_uri", "runs"))
        for (place,) in database.execute(f"SELECT {column} FROM {table}")
    ]
    root = (paths.home() / "mlartifacts").as_uri()
    assert all(place is None or place.startswith(root) for place in places), places
    assert lines
    assert not [
        sql
        for (sql,) in database.execute("SELECT sql FROM sqlite_master")
        if "file:///etc" in str(sql) or "IGNORE" in str(sql)
    ]


@pytest.mark.usefixtures("begun")
def test_orders_to_a_server_are_left_out_and_named(adopt: Callable[..., tuple[list[str], sqlite3.Connection]]) -> None:
    lines, database = adopt(
        "INSERT INTO webhooks (webhook_id, name, url, status) VALUES ('w', 'w', 'https://example.org', 'ACTIVE')",
        "CREATE TRIGGER back AFTER INSERT ON runs BEGIN UPDATE runs SET artifact_uri = 'https://example.org'; END",
        "CREATE TABLE evil (x)",
    )
    assert len(lines) == 1
    assert "webhooks" in lines[0]
    assert database.execute("SELECT * FROM webhooks").fetchall() == []
    assert database.execute("SELECT name FROM sqlite_master WHERE name IN ('back', 'evil')").fetchall() == []


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(5000), "view", "long"])
def test_a_history_that_cannot_be_taken_over_leaves_an_empty_one(
    home: Path, tmp_path: Path, request: pytest.FixtureRequest, content: bytes | str
) -> None:
    if content != b"no database":  # of which nothing is there beforehand, either
        request.getfixturevalue("begun")
    file = tmp_path / "x.db"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS run_uuid FROM n"
        made = f"CREATE VIEW runs AS {endless}" if content == "view" else "CREATE TABLE runs (run_uuid, name)"
        with closing(sqlite3.connect(file)) as database, database:
            database.execute(made)
            if content == "long":
                database.execute("INSERT INTO runs VALUES ('x', zeroblob(20000000))")
    lines = adopt_history(file)
    assert len(lines) == (content != b"")
    with closing(sqlite3.connect(paths.home() / "mlflow.db")) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (0,)
