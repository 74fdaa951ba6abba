"""The user's cards in `cards/`: YAML files, a task's or, with a key `model`, a model's."""

from pathlib import Path

from traube.foundation import paths

SUFFIXES = (".yaml", ".yml")


def task_files() -> list[Path]:
    """The cards of tasks."""
    return [path for path in _files() if not _is_model(path)]


def model_files() -> list[Path]:
    """The cards of models."""
    return [path for path in _files() if _is_model(path)]


def model_file(name: str) -> Path | None:
    """The card of the model of that name, if there is one."""
    if Path(name).name != name:  # it would lead elsewhere
        return None
    files = [path for suffix in SUFFIXES if (path := paths.cards() / f"{name}{suffix}").is_file()]
    return next((path for path in reversed(files) if _is_model(path)), None)


def _files() -> list[Path]:
    return sorted(path for path in paths.cards().glob("*") if path.suffix in SUFFIXES and path.is_file())


def _is_model(path: Path) -> bool:
    # told from its lines, because it need not be valid YAML to be one
    return any(line.startswith("model:") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
