"""`traube --help` and `traube COMMAND --help`."""

import shlex
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.conftest import Traube
from traube._cli.main import PANELS, RENAMED, app

WORDS = 12  # of an option's text, at most


def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield a command and all below it, by the words that call them."""
    yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{name} {part}")


COMMANDS = dict(walk(get_command(app), "traube"))


def test_every_command_is_in_one_panel() -> None:
    """The library's by its own list; what a plug-in or a platform adds says where it stands."""
    group = get_command(app)
    listed = [name for names in PANELS.values() for name in names]
    panels = {name: group.commands[name].rich_help_panel for name in group.list_commands(None)}  # type: ignore[attr-defined]
    assert len(listed) == len({*listed}) and {*listed} <= panels.keys()
    assert all(panels[name] == panel for panel, names in PANELS.items() for name in names)
    added = {name: panel for name, panel in panels.items() if name not in listed}
    assert added.keys() >= {"dev", "train", "annotate", "multiple-choice"}
    assert {*added.values()} <= {"Training", "Platform", "Pairs and annotation"}
    assert len(list(groupby(panels.values()))) == len({*panels.values()})  # panel by panel


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_a_sentence_and_two_examples_that_parse(name: str) -> None:
    command = COMMANDS[name]
    first, examples = command.help.split("\n\n")[:2]
    assert first.endswith(".") and ". " not in first
    heading, _, *lines = examples.splitlines()
    assert heading == "Examples" and len(lines) >= 2
    for line in lines:
        assert line.startswith(f"{name} ") or line == name
        parse(shlex.split(line.partition(" && ")[0]))


def parse(words: list[str]) -> None:
    """Read a line with the parser of the command that it calls, which is not run."""
    names = [" ".join(words[:n]) for n in range(1, len(words) + 1)]
    name = [name for name in names if name in COMMANDS][-1]
    command, arguments = COMMANDS[name], words[len(name.split()) :]
    context = command.make_context(name, [], resilient_parsing=True)
    context.resilient_parsing = False  # from here on an unknown option is an error
    values, extra, _ = command.make_parser(context).parse_args(arguments)
    assert extra == []
    missing = [parameter.name for parameter in command.params if parameter.required and not values[parameter.name]]
    assert missing == [], name


def test_an_example_with_a_wrong_option_would_not_pass() -> None:
    parse(["traube", "run", "tickets.csv", "--dry-run"])
    with pytest.raises(Exception, match="--dry"):
        parse(["traube", "run", "tickets.csv", "--dry"])
    with pytest.raises(AssertionError, match="traube compare"):
        parse(["traube", "compare", "minilm"])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_text_of_an_option_is_short(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.name in ("install_completion", "show_completion"):  # typer's own
            continue
        text = getattr(parameter, "help", None) or ""
        assert 0 < len(text.split()) <= WORDS, f"{parameter.name}: {len(text.split())} words: {text}"


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_earlier_name_works_for_a_version_and_is_not_listed(traube: Traube, old: str, new: str) -> None:
    earlier, now = traube(old, "--help"), traube(new, "--help")
    assert earlier.exit_code == 0 and earlier.stdout == now.stdout
    assert earlier.stderr == f"`traube {old}` is now `traube {new}`\n" and now.stderr == ""
    assert old not in get_command(app).commands  # type: ignore[attr-defined]
