"""The platform's commands: those that need Dagster and MLflow. They come with a checkout or the image, and join the
command `traube` by the entry points of pyproject.toml.
"""
