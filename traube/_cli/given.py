"""Tasks and models as people give them on the command line: by name, as a file, an id of the hub, or a folder.

Commands see names alone: these functions are the callbacks of the options that all commands share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traube._cli.printing import err, escape
from traube._core.errors import Invalid

if TYPE_CHECKING:
    from traube.tasks.reading import TableFormat


@dataclass(frozen=True)
class GivenTask:
    """A task as it was given: by its name, or as a file."""

    name: str
    languages: tuple[str, ...] | None = None  # of the texts in a file, if it was read


def name_given_task(given: str | None) -> str | None:
    """Return the name of a task, or of the one that is made of a file."""
    return given and name_tasks([given])[0]


def name_given_tasks(given: list[str] | None) -> list[str] | None:
    """Return the names of several tasks, as `name_given_task` does for one."""
    return name_tasks(given) if given else None


def name_given_model(given: str | None) -> str | None:
    """Return the name of a model; a model of the hub and a folder have one once a command has evaluated them."""
    return given and (name_given_models([given]) or [given])[0]


def name_given_side(given: str) -> str:
    """Return the name of a model and perhaps a method: `ORG/MODEL:umap/hdbscan`; see `name_given_model`."""
    model, colon, method = given.partition(":")
    return f"{name_given_model(model)}{colon}{method}"


def name_given_models(given: list[str] | None) -> list[str] | None:
    """Return the names of several models, as `name_given_model` does for one.

    A name that no card has stays as it is, since the model may have been scored once.
    """
    from traube._core.errors import Unknown
    from traube.models.naming import name_model

    def name(one: str) -> str:
        try:
            return name_model(one)
        except Unknown:
            return one

    return [name(one) for one in given] if given else None


def write_given_models(given: list[str] | None) -> list[str] | None:
    """Return the names of models as `name_given_models` does, and write missing cards.

    A card is written for a model of the hub, or a folder, that has none.
    """
    if not given:
        return None
    from traube.models.naming import name_model

    return [name_model(one, write=True) for one in given]


def write_given_model(given: str | None) -> str | None:
    """Return the name of one model as `write_given_models` does for several."""
    return given and (write_given_models([given]) or [given])[0]


def make_format(
    separator: str | None, quote: str | None, no_header: bool, encoding: str | None, sheet: str | None
) -> "TableFormat":
    """Return how a file is written, as far as options of the command line say it."""
    from pydantic import ValidationError

    from traube.tasks.reading import TableFormat

    given = {"separator": separator, "quote": quote, "encoding": encoding, "sheet": sheet}
    try:
        return TableFormat.model_validate(given | {"header": False if no_header else None})
    except ValidationError as error:
        fault = error.errors()[0]
        raise Invalid(f"--{fault['loc'][0]}: {fault['msg']}") from None


def name_tasks(given: Sequence[str]) -> list[str]:
    """Return the names of tasks, some of which are given as files."""
    return [task.name for task in find_tasks(given)]


def find_tasks(
    given: Sequence[str],
    text: str | None = None,
    labels: Sequence[str] = (),
    form: "TableFormat | None" = None,
    reread: bool = False,
) -> list[GivenTask]:
    """Return tasks, some of which are given as files.

    Parameters
    ----------
    given : sequence of str
        Names of tasks, paths, or `-` for standard input.
    text : str, optional
        Column of the files that holds the texts, as in `make_task_of`.
    labels : sequence of str, optional
        Columns of the files that hold labels, as in `make_task_of`.
    form : TableFormat, optional
        How the files are written, as in `make_task_of`.
    reread : bool, default=False
        Look at a file again that has a task.
    """
    from traube.tasks.files import find_task, make_task_of, names_file
    from traube.tasks.piped import is_piped, save_piped

    tasks = []
    for one in given:
        if is_piped(one):
            file, known = save_piped(one, [*filter(None, [text]), *labels], form), None
        elif names_file(one):
            file = Path(one).expanduser()
            known = None if reread else find_task(file)
        else:
            tasks.append(GivenTask(one))
            continue
        if known is not None:
            tasks.append(GivenTask(known))
            continue
        made = make_task_of(file, text, labels, form)
        err.print(escape(made.about))
        tasks.append(GivenTask(made.name, made.languages))
    return tasks
