"""Options that several commands share, so that they have one name and one explanation."""

from typing import Annotated

import typer

MOST_SEED = 2**32 - 1  # what numpy takes

Tasks = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="A task; repeat for more. Default: those of params.yaml.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="A model; repeat for more. Default: those of params.yaml.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="A method, like umap/hdbscan; repeat for more. Default: the protocol's."),
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
Metric = Annotated[
    str | None, typer.Option(help="A metric, like ari or acc/noise_dropped. Default: each task's main one.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log instead of progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
