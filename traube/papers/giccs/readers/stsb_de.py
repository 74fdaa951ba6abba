"""The STS benchmark in German: two machine translations, by DeepL and by AWS, of the same pairs."""

from pathlib import Path

import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed
from traube._core.paths import raw
from traube.papers.giccs import TASKS
from traube.tasks.reading import as_score, find_file, read_lines
from traube.tasks.scored_pairs import PairCard, PairSource
from traube.tasks.source import catalogue_card

FILES = {"train": "train", "dev": "validation", "test": "test"}  # word in a file's name, and its subset


class StsbDe(PairSource):
    """One translation, whose files' names begin with the translator's."""

    def __init__(self, name: str, translator: str) -> None:
        super().__init__(catalogue_card(TASKS, name, PairCard))
        self.translator = translator.lower()

    @override
    def files(self) -> list[Path]:
        folder = raw() / "sts_de" / "stsb_de"
        return [find_file(folder / f"{self.translator}_stsb_de_{name}.csv") for name in FILES]

    def read(self) -> pd.DataFrame:
        """Return the scores and sentences of the lines: score, tab, sentence, tab, sentence.

        The files have no quoting convention: a quotation mark is part of a sentence, so lines are split by hand. (A
        reader of CSV joins rows of DeepL's files, from one mark to the next, and finds 1,344 of 1,379 test pairs.)
        """
        rows = []
        for path, subset in zip(self.files(), FILES.values(), strict=True):
            for number, line in enumerate(read_lines(path), start=1):
                fields = line.split("\t")
                if len(fields) != 3:
                    expected = "score, sentence, sentence with tabs between"
                    raise Malformed(f"{path}:{number}: {len(fields)} fields instead of {expected}")
                rows.append((as_score(fields[0], f"{path}:{number}"), fields[1].strip(), fields[2].strip(), subset))
        return pd.DataFrame(rows, columns=["score", "text_a", "text_b", "part"])


def sources() -> list[PairSource]:
    """Return the German STS benchmark in both translations."""
    return [StsbDe("stsb_de", "DeepL"), StsbDe("stsb_de_aws", "AWS")]
