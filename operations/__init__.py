"""The platform's commands: those that need Dagster and MLflow. They come with a checkout or the image, and join the
command `traube` by the entry points of pyproject.toml.
"""

LOCATION = "definitions"  # the module that Dagster loads, by the name that it has in workspace.yaml
