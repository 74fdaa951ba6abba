"""10kGNAD: articles of the Austrian newspaper Der Standard in nine categories, as the German benchmark draws them."""

from pathlib import Path

import pandas as pd

from traube.paths import raw
from traube.task import Declared, TaskCard
from traube.tasks.reading import csv_rows, plain_or_gzipped
from traube.tasks.source import Source
from traube.tasks.splitting import random_fractions

SPLITS = 10
PARTS = ("train.csv", "test.csv")  # upstream's classification task; for clustering they are one collection


class TenKGnad(Source):
    """Sub-headline and body of each article. The csv files hold no titles, so there is no S2S task."""

    def files(self) -> list[Path]:
        """The parts that are there: random samples can be drawn from either alone."""
        paths = [plain_or_gzipped(raw() / "10kgnad" / part) for part in PARTS]
        return [p for p in paths if p.is_file()] or paths

    def read(self) -> pd.DataFrame:
        rows = [row for path in self.files() for _, row in csv_rows(path, separator=";", quote="'", width=2)]
        return pd.DataFrame(rows, columns=["category", "text"])[["text", "category"]]

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Ten random samples of at least a tenth of the articles."""
        return pd.concat(random_fractions(records, SPLITS, "category", prefix="sample"), ignore_index=True)


def sources() -> list[Source]:
    card = TaskCard(
        name="tenkgnad_p2p",
        family="german",
        description="Ten random samples of German news articles in nine categories.",
        language="de",
        licence="CC BY-NC-SA 4.0",
        citation="Wehrli et al. (KONVENS 2023); Schabus et al., One Million Posts (SIGIR 2017)",
        mteb="TenKGnadClusteringP2P",
        source="https://github.com/tblock/10kGNAD (train.csv and test.csv)",
        # Bounds, from a tenth of the test part to all articles: either part may be absent.
        declared=Declared(splits=SPLITS, rows=(103, 10_273), classes=(9, 9)),
    )
    return [TenKGnad(card)]
