"""What `traube --help` shows."""

from typer.main import get_command

from traube.cli.main import PANELS, app


def test_every_command_is_in_one_panel() -> None:
    listed = [name for names in PANELS.values() for name in names]
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(commands)
    assert all(commands[name].rich_help_panel == panel for panel, names in PANELS.items() for name in names)
