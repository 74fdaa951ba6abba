"""MLflow's tables of another version are named with the command that mends them; other errors pass."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resources.experiment import connect
from tests.errors import refused
from traube._core import paths
from traube._core.errors import Incompatible


def test_tables_of_another_mlflow_are_named_with_the_remedy(home: Path) -> None:
    uri = f"sqlite:///{paths.home() / 'mlflow.db'}"
    home.mkdir(parents=True, exist_ok=True)
    made = connect(uri).id
    assert connect(uri).id == made  # this version's pass
    with closing(sqlite3.connect(paths.home() / "mlflow.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0000000000ab'")
    copy = paths.home() / "of_another.db"  # a store that no earlier client of this process knows
    copy.write_bytes((paths.home() / "mlflow.db").read_bytes())
    with refused(Incompatible, copy, "mlflow db upgrade"):
        connect(f"sqlite:///{copy}")


def test_an_error_of_another_kind_is_not_taken_for_it(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    broken = home / "broken.db"
    broken.write_bytes(b"no database" * 100)
    with pytest.raises(Exception, match="not a database") as error:
        connect(f"sqlite:///{broken}")
    assert "another MLflow" not in str(error.value)
