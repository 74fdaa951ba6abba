"""The authors' own results, from which Table 3 can be computed again."""

import re
from pathlib import Path

import pandas as pd

from traube.foundation.errors import TraubeError
from traube.papers.german.tables import TASKS

_COLUMNS = dict(
    zip(
        ("BlurbsClusteringS2S", "BlurbsClusteringSP2P", "10kGNADClusteringS2S", "10kGNADClusteringP2P",
         "RedditClusteringS2S", "RedditClusteringP2P"),
        TASKS,
        strict=True,
    )
)  # fmt: skip


def authors_results(path: Path) -> pd.DataFrame:
    """The authors' csv of all models and methods: model (as they write it), method and the six
    tasks, x100.

    A spreadsheet counted the names of two models up, from `-v2` to `-v15`; they are all the `-v2`
    model.

    Raises
    ------
    TraubeError
        If the file is not that csv.
    """
    try:
        frame = pd.read_csv(path, encoding="utf-8-sig").rename(columns=lambda c: " ".join(c.split()))
        frame = frame.rename(columns=_COLUMNS)
        names = frame["transformer"].map(lambda n: re.sub(r"^(paraphrase-multilingual-.*-v)\d+$", r"\g<1>2", n))
        reducer = frame["dimensionality reduction"].replace("-", "none")
        frame = frame.assign(model=names, method=reducer + "/" + frame["clustering algorithm"])
        return frame[["model", "method"]].join(100 * frame[list(TASKS)])
    except (KeyError, ValueError, OSError) as error:
        raise TraubeError(f"{path}: not the authors' table of results ({error})") from None
