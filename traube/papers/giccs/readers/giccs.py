"""GiCCS, and utterances to an assistant: tables of pairs with a score."""

from pathlib import Path
from typing import Any

import pandas as pd
from typing_extensions import override

from traube._core.config import parse, read_yaml
from traube._core.errors import Invalid
from traube._core.paths import raw
from traube.papers.giccs import TASKS
from traube.tasks._readers.pair_table import PairTable, PairTableCard
from traube.tasks._reading import as_score, find_file, read_rows
from traube.tasks._scored_pairs import PairCard, PairSource
from traube.tasks._source import catalogue_card


class Giccs(PairSource):
    """GiCCS (Zenodo record 7266256), whose columns may have any names.

    TRAUBE_RAW/giccs/giccs.csv (or .tsv, .jsonl) has the columns `dialogue` (turns, a line each), `utterance`, `score`,
    `domain` and `source`. Where some have other names, a file columns.yaml beside it says which, like::

        text_b: Kandidat
        groups: {domain: Thema, source: Quelle}
    """

    @override
    def files(self) -> list[Path]:
        folder = raw() / "giccs"
        tables = [find_file(folder / f"giccs.{kind}") for kind in ("csv", "tsv", "jsonl")]
        table = next((path for path in tables if path.is_file()), tables[0])
        columns = folder / "columns.yaml"
        return [table, columns] if columns.is_file() else [table]

    @override
    def read(self) -> pd.DataFrame:
        table, *columns = self.files()
        groups = ["domain", "source"]
        value: dict[str, Any] = {"turns": "dialogue", "text_b": "utterance", "score": "score", "groups": groups}
        path = columns[0] if columns else table
        stated, lines = read_yaml(path) if columns else ({}, {})
        card_fields = self.card.model_dump(include={"name", "scale"})
        card = parse(PairTableCard, {**value, **stated, **card_fields, "pairs": str(table)}, path, lines)
        if other := [name for name in card.groups if name not in groups]:
            raise Invalid(
                f"{path}: line {lines.get(('groups',), 1)}: groups: '{other[0]}' is none of GiCCS': write which column "
                "holds which, like {domain: Thema, source: Quelle}"
            )
        records = PairTable(path, card, lines).read()
        return records.assign(**{group: "" for group in self.card.groups if group not in records})

    @override
    def missing(self) -> str | None:
        reason = super().missing()
        columns = "dialogue (turns, a line each), utterance, score, domain, source; others by columns.yaml"
        return f"{reason}; its columns: {columns}" if reason else None


class NluSimilarityDe(PairSource):
    """German utterances to a home assistant: the pairs with a score.

    1,374 pairs were shown, 247 skipped. Each pair was judged once, by one annotator, so agreement cannot be computed.
    """

    @override
    def files(self) -> list[Path]:
        return [find_file(raw() / "sts_de" / "nlu_similarity_de" / "NLU-Data-Home-Domain-similarity-de.csv")]

    @override
    def read(self) -> pd.DataFrame:
        rows = read_rows(self.files()[0])
        columns = ("sentence1", "sentence2", "similarity_score")
        first, second, score = ([text or "" for text in rows.texts(name)] for name in columns)
        return pd.DataFrame({"text_a": first, "text_b": second, "score": list(map(as_score, score, rows.places))})


def sources() -> list[PairSource]:
    """Return the pair tasks that are read from tables."""
    nlu, giccs = (catalogue_card(TASKS, name, PairCard) for name in ("nlu_similarity_de", "giccs"))
    return [NluSimilarityDe(nlu), Giccs(giccs)]
