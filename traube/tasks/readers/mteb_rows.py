"""MTEB's form of a clustering task: a row per split, with the lists `sentences` and `labels`.

A card in `cards/` names a local file or a data set of the Hugging Face hub (`cards/README.md`).
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, model_validator
from typing_extensions import override

from traube._core import paths
from traube._core.config import PathName
from traube._core.disk import read_kept_json
from traube._core.errors import Malformed, Unavailable, Unknown, first_line
from traube._core.files import locked, write_json
from traube._core.frames import TEXT
from traube._core.hashing import is_revision
from traube._core.inputs import is_file
from traube.tasks.reading import as_text, format_of, read_rows
from traube.tasks.source import CardSource
from traube.tasks.task import TaskCard, make_split


class RowsCard(TaskCard):
    """A task card that says where the rows are.

    By default the revision is the one that was downloaded first.
    """

    rows: PathName | None = None
    dataset: str | None = Field(None, pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    part: str = Field("test", pattern=r"^[\w.-]+$", description="which subset of the data set: how its files begin")

    @model_validator(mode="after")
    def _either(self) -> "RowsCard":
        if (self.rows is None) == (self.dataset is None):
            raise ValueError("give either `rows` or `dataset`")
        return self

    def plain(self) -> TaskCard:
        """Return the fields that every task has; a data set itself says where it comes from."""
        card = super().plain()
        hub = f"https://huggingface.co/datasets/{self.dataset}"
        return card if card.source or not self.dataset else card.model_copy(update={"source": hub})


class MtebRows(CardSource[RowsCard]):
    """Splits that come ready-made."""

    form = RowsCard
    key = "rows"

    def files(self) -> list[Path]:
        """Return the local file, or the downloaded files of the data set.

        Raises
        ------
        Unavailable
            If the data set has not been downloaded yet.
        """
        if self.settings.rows:
            return super().files()
        if (folder := _from_cache(self.settings)) is None:
            here = f"{self.settings.dataset} is not on this machine"
            raise Unavailable(f"{here}; `traube run --task {self.name}` downloads it")
        forms = ("*.jsonl", "*.jsonl.gz", "*.parquet")
        files = sorted(p for form in forms for p in folder.rglob(form) if p.name.startswith(self.settings.part))
        if not files:
            raise Unavailable(f"{self.settings.dataset} has no file {self.settings.part}*.jsonl, .jsonl.gz or .parquet")
        return files

    @override
    def missing(self) -> str | None:
        try:
            absent = [p for p in self.files() if not is_file(p)]
        except Unavailable as error:
            return str(error)
        return f"{self.path}: {absent[0]} is not there" if absent else None

    @override
    def fetch(self) -> None:
        card = self.settings
        if not card.dataset or _from_cache(card):
            return
        from huggingface_hub import snapshot_download

        try:
            folder = snapshot_download(
                card.dataset,
                repo_type="dataset",
                revision=card.revision or _downloads().get(_key(card)),
                allow_patterns=[f"{card.part}*", f"*/{card.part}*"],
            )
            with locked(_downloads_file()):  # the folder's name is the commit
                write_json(_downloads_file(), {**_downloads(), _key(card): Path(folder).name})
        except (OSError, ValueError) as error:
            where = f"{card.dataset} cannot be downloaded from the Hugging Face hub"
            raise Unavailable(f"{where} ({first_line(error)})") from None

    def read(self) -> pd.DataFrame:
        """Return a record per text.

        The columns are text, split and `level:<name>` per level, None where the text has no such level.

        Labels that are lists are levels: `level_0`, `level_1`, ...
        """
        rows: list[tuple[str, list[Any], list[Any]]] = []
        for path in self.files():
            if format_of(path) not in ("jsonl", "parquet"):
                raise Malformed(f"{path}: expected jsonl, jsonl.gz or parquet")
            table = read_rows(path)
            for name in ("sentences", "labels"):
                if name not in table.columns:
                    there = f"expected sentences and labels, found {', '.join(table.columns)}"
                    raise Unknown(f"{path}: there is no column '{name}'; {there}")
            table.require_rows()
            rows += zip(table.places, table.columns["sentences"], table.columns["labels"], strict=True)
            for place, texts, labels in rows[-len(table) :]:
                if not isinstance(texts, list) or not isinstance(labels, list):
                    fault = "sentences and labels must be lists; for one text per row use a card with `file`"
                    raise Malformed(f"{place}: {fault}")
                if len(texts) != len(labels):
                    raise Malformed(f"{place}: {len(texts)} sentences but {len(labels)} labels")

        depth = max((len(label) for _, _, labels in rows for label in labels if isinstance(label, list)), default=0)
        names = [f"level:level_{i}" for i in range(depth)] or ["level:label"]
        digits = len(str(len(rows) - 1))
        records = []
        for i, (place, texts, labels) in enumerate(rows):
            for text, label in zip(texts, labels, strict=True):
                levels = [*(label if isinstance(label, list) else [label]), *[None] * len(names)][: len(names)]
                named = (as_text(level, place, "labels") for level in levels)
                records.append((as_text(text, place, "sentences") or "", f"row_{i:0{digits}d}", *named))
        return pd.DataFrame(records, columns=["text", "split", *names], dtype=TEXT)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return one split per row and level; where labels are lists, without the texts that lack the level."""
        names = [name for name in records if str(name).startswith("level:")]
        splits = []
        for split, group in records.groupby("split", sort=False):
            for name in names:
                there = group[group[name].notna()] if len(names) > 1 else group
                splits.append(make_split(there, str(split), str(name).removeprefix("level:"), label=str(name)))
        return pd.concat(splits, ignore_index=True)


def _key(card: RowsCard) -> str:
    return f"{card.dataset}@{card.revision}" if card.revision else str(card.dataset)


def _from_cache(card: RowsCard) -> Path | None:
    """Return the folder of a complete download, or None: a folder in the hub's cache alone may be incomplete."""
    from huggingface_hub import snapshot_download

    if revision := _downloads().get(_key(card)):
        with suppress(OSError):
            options = {"repo_type": "dataset", "revision": revision, "local_files_only": True}
            return Path(snapshot_download(str(card.dataset), **options))
    return None


def _downloads_file() -> Path:
    return paths.home() / "datasets.json"


def _downloads() -> dict[str, str]:
    kept = read_kept_json(_downloads_file(), "data sets without a revision are looked up again")
    return {dataset: revision for dataset, revision in kept.items() if is_revision(revision)}


CARDS = {"rows": MtebRows, "dataset": MtebRows}
