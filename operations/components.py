"""Cards as Dagster's components: a `defs.yaml` in the cards' folder, which is a defs folder of Dagster's at the same time.

`attributes` are the keys of a card. Traube's commands read the same file as a card: both know the same tasks and models.
"""

from dataclasses import replace
from typing import Any, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict
from typing_extensions import override

from assets import task_assets
from assets.ownership import with_owners_and_code
from assets.used import find_used
from definitions import build_defs
from traube._core import paths
from traube._core.cards import is_component, name_card, task_files
from traube._core.errors import Invalid
from traube.models import load_model
from traube.tasks import get_source


class Card(BaseModel):
    """The attributes of a component: the keys of any card, which Traube's readers check."""

    model_config = ConfigDict(extra="allow")


class CardComponent(dg.Component):
    """A component whose attributes are a card; its folder has the card's name."""

    @classmethod
    @override
    def get_model_cls(cls) -> type[BaseModel]:
        return Card

    @classmethod
    @override
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> Self:
        folder = context.path
        if folder.parent.resolve() != paths.cards().resolve():
            raise Invalid(f"{folder}: not in the folder of the cards: set TRAUBE_CARDS to {folder.parent}")
        return cls()


class TraubeTask(CardComponent):
    """A task, by its card: the assets from its raw data to its scores."""

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        name = context.path.name
        return dg.Definitions(assets=with_owners_and_code(task_assets(get_source(name, None), find_used([name]))))


class TraubeModel(CardComponent):
    """A model, by its card: a partition of each task, once params.yaml names the model."""

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        load_model(context.path.name)  # refuses a broken card
        return dg.Definitions()


class WatchedFolder(BaseModel):
    """The attributes of a watched folder."""

    model_config = ConfigDict(extra="forbid")
    path: str


class TraubeFolder(CardComponent):
    """A folder whose model folders become checkpoints, as one of `watch` in params.yaml does."""

    @classmethod
    @override
    def get_model_cls(cls) -> type[BaseModel]:
        return WatchedFolder

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions()  # the benchmark's sensor reads it at each tick


class TraubeBenchmark(dg.Component, dg.Model, dg.Resolvable):
    """All else: other tasks, leaderboard, registry, reports, jobs, sensors, schedules and resources."""

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        brought = [name_card(path) for path in task_files() if is_component(path)]
        return build_defs(replace(find_used(brought), brought=brought))
