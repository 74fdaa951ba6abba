"""A bad input as a case: the files, the command, and how it is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.errors import Refusal

Content = str | bytes | Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """
    Attributes
    ----------
    name : of the test
    files : what lies below the root, by path: text, bytes, or what makes it
    command : the arguments of `traube`; `{root}` stands for the root
    refusal : kind of the error, and what the one line names; `SystemExit` where typer refuses
    """

    name: str
    files: Mapping[str, Content]
    command: tuple[str, ...]
    refusal: Refusal

    def put(self, root: Path) -> None:
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content, encoding="utf-8")

    def arguments(self, root: Path) -> list[str]:
        return [word.replace("{root}", str(root)) for word in self.command]
