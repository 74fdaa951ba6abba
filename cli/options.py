"""Options that several commands share: spelt and explained once."""

from typing import Annotated

import typer

Tasks = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="Task; may be given several times. Default: params.yaml.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="Model; may be given several times. Default: params.yaml.")
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Reducer/clusterer, like umap/hdbscan. Default: the protocol's.")
]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", min=0, help="Seed; may be given several times. Default: the protocol's.")
]
ProtocolName = Annotated[
    str | None, typer.Option("--protocol", "-p", help="Protocol of params.yaml. Default: the one chosen there.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log instead of progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
