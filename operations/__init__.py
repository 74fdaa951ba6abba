"""The platform's commands, which need Dagster and MLflow; they join `traube` by the entry points of pyproject.toml."""

LOCATION = "definitions"  # the module that Dagster loads, by the name that it has in workspace.yaml
