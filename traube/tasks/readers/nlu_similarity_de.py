"""German utterances to a home assistant, in pairs, with scores from 0 to 5."""

from pathlib import Path

import pandas as pd

from traube.core.paths import raw
from traube.tasks.reading import as_score, plain_or_gzipped, read_rows
from traube.tasks.scored_pairs import PairCard, PairSource


class NluSimilarityDe(PairSource):
    """The pairs with a score: 1,374 were shown, 247 skipped. One annotator judged each once, so nothing can be said of
    agreement.
    """

    def files(self) -> list[Path]:
        return [plain_or_gzipped(raw() / "sts_de" / "nlu_similarity_de" / "NLU-Data-Home-Domain-similarity-de.csv")]

    def read(self) -> pd.DataFrame:
        rows = read_rows(self.files()[0])
        columns = ("sentence1", "sentence2", "similarity_score")
        first, second, score = ([text or "" for text in rows.texts(name)] for name in columns)
        scores = [as_score(value, place) for value, place in zip(score, rows.places, strict=True)]
        return pd.DataFrame({"text_a": first, "text_b": second, "score": scores})


def sources() -> list[PairSource]:
    card = PairCard(
        name="nlu_similarity_de",
        description="German utterances to a home assistant: 1,127 pairs, scored by one annotator.",
        language="de",
        licence="CC BY 4.0",
        citation="T-Systems on site services, NLU-Evaluation-Data-de-en (2022)",
        source="https://github.com/t-systems-on-site-services-gmbh/NLU-Evaluation-Data-de-en",
        scale=(0.0, 5.0),
    )
    return [NluSimilarityDe(card)]
