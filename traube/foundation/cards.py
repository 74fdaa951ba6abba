"""The user's cards in `cards/`: YAML files, a task's or, with a key `model`, a model's."""

from pathlib import Path

from traube.foundation import paths


def task_files() -> list[Path]:
    """The cards of tasks."""
    return [path for path in _files() if not _is_model(path)]


def model_files() -> list[Path]:
    """The cards of models."""
    return [path for path in _files() if _is_model(path)]


def _files() -> list[Path]:
    return sorted(path for path in paths.cards().glob("*") if path.suffix in (".yaml", ".yml") and path.is_file())


def _is_model(path: Path) -> bool:
    # told from its lines, because it need not be valid YAML to be one
    return any(line.startswith("model:") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
