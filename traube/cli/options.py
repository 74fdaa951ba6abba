"""Options that several commands share, so that they have one name and one explanation."""

from typing import Annotated

import typer

from traube.cli.given import name_given_model, name_given_models, name_given_task, name_given_tasks, write_given_models

MOST_SEED = 2**32 - 1  # what numpy takes

Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        callback=name_given_tasks,
        help="A task, or a file of texts; repeat for more. Default: those of params.yaml.",
    ),
]
BothTasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        callback=name_given_tasks,
        help="A task, or a file; repeat for more. Default: all that both are scored on.",
    ),
]
OnlyTasks = Annotated[
    list[str] | None,
    typer.Option("--task", "-t", callback=name_given_tasks, help="Only this task, or file; repeat for more."),
]
TaskName = Annotated[
    str, typer.Argument(callback=name_given_task, help="A task, or a file that was evaluated.", show_default=False)
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        callback=write_given_models,
        help="A model: a name of `traube models`, ORG/MODEL of the Hugging Face hub, or a folder; repeat for more. "
        "Default: those of params.yaml.",
    ),
]
OnlyModels = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", callback=name_given_models, help="Only this model; repeat for more."),
]
ModelName = Annotated[str, typer.Argument(callback=name_given_model, help="A model.", show_default=False)]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="A method, like umap/hdbscan, or kmeans for none/kmeans; repeat for more. Default: the protocol's.",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", min=0, max=MOST_SEED, help="A seed; repeat for more. Default: the protocol's."),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        "-p",
        help="A protocol of params.yaml. Default: the one chosen there; for tasks of your own, `own`.",
    ),
]
OnlyProtocol = Annotated[str | None, typer.Option("--protocol", "-p", help="Only this protocol. Default: all.")]
Metric = Annotated[
    str | None, typer.Option(help="A metric, like ari or acc/noise_dropped. Default: each task's main one.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log instead of progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
