"""What `traube --help` shows."""

import pytest
from typer.main import get_command

from tests.cli.conftest import Traube
from traube.cli.main import PANELS, RENAMED, app


def test_every_command_is_in_one_panel() -> None:
    listed = [name for names in PANELS.values() for name in names]
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(commands)
    assert all(commands[name].rich_help_panel == panel for panel, names in PANELS.items() for name in names)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_earlier_name_works_for_a_version_and_is_not_listed(traube: Traube, old: str, new: str) -> None:
    earlier, now = traube(old, "--help"), traube(new, "--help")
    assert earlier.exit_code == 0 and earlier.stdout == now.stdout
    assert earlier.stderr == f"`traube {old}` is now `traube {new}`\n" and now.stderr == ""
    assert old not in get_command(app).commands  # type: ignore[attr-defined]
