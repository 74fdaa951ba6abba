"""The champions of tasks, as the registry had them when it changed last: what the library shows without a registry."""

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from traube._storage import Document, Storage


class Champion(BaseModel):
    """A task's champion, and who challenges it."""

    model_config = ConfigDict(frozen=True)
    task: str = Field(description="Task.")
    model: str = Field("", description="Model of the champion; empty before there is one.")
    method: str = Field("", description="Method of the champion.")
    version: str = Field("", description="Its version of the registered model.")
    since: str = Field("", description="When it became champion, in UTC.")
    by_hand: str = Field("", description="Day on which a person made it champion; empty where tests did.")
    chosen: str = Field("", description="Why it is champion: what the tests said, or when a person promoted it.")
    score: float | None = Field(None, description="Its score, times 100.")
    measure: str = Field(
        "", description="Metric, level of the labels (or the mean over all splits) and protocol of the scores."
    )
    by: float | None = Field(None, description="Points by which it scored higher than `against`, significant or not.")
    against: str = Field("", description="The champion that it was compared with.")
    challenger: str = Field("", description="The best newcomer.")
    challenger_score: float | None = Field(None, description="Its score, times 100.")
    reason: str = Field("", description="Why it is held.")

    @property
    def formatted(self) -> dict[str, str]:
        """The values as people read them: numbers with two decimals, and no text where there is none."""
        values = self.model_dump().items()
        return {name: f"{value:.2f}" if isinstance(value, float) else value or "" for name, value in values}

    @property
    def formatted_since(self) -> str:
        """The day on which it became champion, and whether a person decided."""
        return f"{self.since[:10]}{', by hand' if self.by_hand else ''}"


CHAMPIONS = {name: field.description or "" for name, field in Champion.model_fields.items()}  # columns, and meanings


class Champions(Document):
    """The champion of each task, and the models that were champions before."""

    kind: ClassVar[str] = "champions"
    key: str = "champions"
    now: tuple[Champion, ...] = ()
    models: Mapping[str, tuple[str, ...]] = {}  # that are or were champion, by task

    @property
    def table(self) -> pd.DataFrame:
        """One row for each task, in the columns of `CHAMPIONS`."""
        table = pd.DataFrame([champion.model_dump() for champion in self.now], columns=list(CHAMPIONS))
        return table.astype(dict.fromkeys(("score", "by", "challenger_score"), float))

    @property
    def served(self) -> dict[str, str]:
        """The model of each task's champion, by task."""
        return {champion.task: champion.model for champion in self.now if champion.model}


def read_champions(storage: Storage) -> Champions:
    """Return the champions of a storage, none if it has no registry."""
    return storage.get_document(Champions, "champions") or Champions()
