"""The splits that the authors of the German benchmark released, in MTEB's form."""

from pathlib import Path

import pandas as pd

from traube._core import paths
from traube.papers.german import TASKS
from traube.tasks.readers.mteb_rows import MtebRows, RowsCard
from traube.tasks.reading import find_file
from traube.tasks.source import Source, catalogue_card


class GermanRows(MtebRows):
    """A data set that the authors of the German benchmark published, from a file under raw data or from the hub.

    Those of Reddit were never released. These are tasks of their own, beside those drawn from raw data: the splits
    differ, and so do the numbers.
    """

    def __init__(self, name: str, *levels: tuple[str, int]) -> None:
        card = catalogue_card(TASKS, name, RowsCard)
        repository = str(card.dataset).rpartition("/")[2]
        super().__init__(Path(repository), card)
        self.levels = levels  # of the splits in order, each with the number of splits that have it
        self.local = f"{repository}.jsonl"

    def files(self) -> list[Path]:
        """Return the file `slvnwhrl/<name>.jsonl`, also .gz, of the raw data, or the downloaded files."""
        local = find_file(paths.raw() / "slvnwhrl" / self.local)
        return [local] if local.is_file() else super().files()

    def fetch(self) -> None:
        """Download the data set, unless it lies under raw data."""
        if not find_file(paths.raw() / "slvnwhrl" / self.local).is_file():
            super().fetch()

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return the splits as they are, each at its level."""
        splits = super().draw(records)
        levels = [level for level, count in self.levels for _ in range(count)]
        by_split = dict(zip(splits["split"].unique(), levels, strict=False))
        return splits.assign(level=splits["split"].map(by_split).fillna(levels[-1]))


def sources() -> list[Source]:
    """Return the German tasks as MTEB publishes them."""
    # the order of the levels is judged from public scores of each split
    return [
        GermanRows("blurbs_s2s_mteb", ("coarse", 10), ("fine", 18)),
        GermanRows("blurbs_p2p_mteb", ("coarse", 10), ("fine", 18)),
        GermanRows("tenkgnad_s2s_mteb", ("category", 10)),
        GermanRows("tenkgnad_p2p_mteb", ("category", 10)),
    ]
