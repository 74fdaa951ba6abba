"""The German benchmark's splits as its authors published them, in MTEB's form; those of Reddit were never released.

They are tasks of their own, beside those drawn from raw data: the splits differ, and so do the numbers.
"""

from pathlib import Path

import pandas as pd

from traube.core.paths import raw
from traube.tasks.readers.mteb_rows import MtebRows, RowsCard
from traube.tasks.reading import plain_or_gzipped
from traube.tasks.source import Source
from traube.tasks.task import Declared


class GermanRows(MtebRows):
    """One published data set, from a file under raw data or from the hub.

    Attributes
    ----------
    levels : of the splits in order, each with the number of splits that have it
    """

    def __init__(
        self, name: str, mteb: str, revision: str, levels: tuple[tuple[str, int], ...], declared: Declared, licence: str
    ) -> None:
        card = RowsCard(
            name=f"{name.replace('-clustering', '').replace('-', '_')}_mteb",
            family="german",
            description=f"{mteb}, the splits that the authors released.",
            language="de",
            licence=licence,
            citation="Wehrli et al. (KONVENS 2023)",
            mteb=mteb,
            declared=declared,
            dataset=f"slvnwhrl/{name}",
            revision=revision,
        )
        super().__init__(Path(name), card)
        self.levels = levels
        self.local = f"{name}.jsonl"

    def files(self) -> list[Path]:
        """The file `slvnwhrl/<name>.jsonl`, also .gz, of the raw data, or the downloaded files."""
        local = plain_or_gzipped(raw() / "slvnwhrl" / self.local)
        return [local] if local.is_file() else super().files()

    def fetch(self) -> None:
        """Download it, unless it lies under raw data."""
        if not plain_or_gzipped(raw() / "slvnwhrl" / self.local).is_file():
            super().fetch()

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """The splits as they are, each at its level."""
        splits = super().draw(records)
        levels = [level for level, count in self.levels for _ in range(count)]
        by_split = dict(zip(splits["split"].unique(), levels, strict=False))
        return splits.assign(level=splits["split"].map(by_split).fillna(levels[-1]))


def sources() -> list[Source]:
    # the order of the levels is judged from public scores of each split
    blurbs = (("coarse", 10), ("fine", 18)), Declared(splits=28, rows=(177, 16_425), classes=(4, 93)), "CC BY-NC 4.0"
    articles = (("category", 10),), Declared(splits=10, rows=(1_436, 9_962), classes=(9, 9)), "CC BY-NC-SA 4.0"
    released = (  # with the revisions that MTEB's metadata name
        ("blurbs-clustering-s2s", "BlurbsClusteringS2S", "22793b6a6465bf00120ad525e38c51210858132c", *blurbs),
        ("blurbs-clustering-p2p", "BlurbsClusteringP2P", "a2dd5b02a77de3466a3eaa98ae586b5610314496", *blurbs),
        ("tenkgnad-clustering-s2s", "TenKGnadClusteringS2S", "6cddbe003f12b9b140aec477b583ac4191f01786", *articles),
        ("tenkgnad-clustering-p2p", "TenKGnadClusteringP2P", "5c59e41555244b7e45c9a6be2d720ab4bafae558", *articles),
    )
    return [GermanRows(*data_set) for data_set in released]
