"""Options that several commands share, so that they have one name and one explanation."""

from typing import Annotated

import typer

from traube._cli.given import name_given_model, name_given_models, name_given_task, name_given_tasks, write_given_models
from traube._core.spending import set_budget

MOST_SEED = 2**32 - 1  # what numpy takes

Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        callback=name_given_tasks,
        help="Task or file; repeat for more. Default: those of params.yaml.",
    ),
]
BothTasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        callback=name_given_tasks,
        help="Task or file; repeat for more. Default: all that both share.",
    ),
]
OnlyTasks = Annotated[
    list[str] | None,
    typer.Option("--task", "-t", callback=name_given_tasks, help="Only this task or file; repeat for more."),
]
TaskName = Annotated[
    str, typer.Argument(callback=name_given_task, help="Task, or file that was evaluated.", show_default=False)
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        callback=write_given_models,
        help="Name, Hugging Face id, folder or URL#MODEL; repeat for more. Default: params.yaml's.",
    ),
]
OnlyModels = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", callback=name_given_models, help="Only this model; repeat for more."),
]
ModelName = Annotated[
    str, typer.Argument(callback=name_given_model, help="Model; `traube models` lists them.", show_default=False)
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="Method, like umap/hdbscan or kmeans; repeat for more. Default: the protocol's.",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", min=0, max=MOST_SEED, help="Seed; repeat for more. Default: the protocol's."),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        "-p",
        help="Protocol of params.yaml. Default: its choice, or own for own tasks.",
    ),
]
OnlyProtocol = Annotated[str | None, typer.Option("--protocol", "-p", help="Only this protocol. Default: all.")]
Metric = Annotated[
    str | None, typer.Option(help="Metric, like ari or acc/noise_dropped. Default: each task's main one.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        callback=set_budget,
        min=0,
        help="Most that endpoints may cost, in dollars; without a price, in tokens.",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log instead of progress bars.")]
Details = Annotated[bool, typer.Option("--details", help="Add the statistics that tests and ranks rest on.")]
Separator = Annotated[
    str | None, typer.Option(help="Character between the fields of FILE, or tab. Default: found in it.")
]
Quote = Annotated[str | None, typer.Option(help="Character around fields of FILE, or none. Default: found in it.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first row of FILE is no header.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of FILE, like cp1252. Default: found in it.")]
Sheet = Annotated[str | None, typer.Option(help="Sheet: name, or number from 1 on. Default: the first with rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
