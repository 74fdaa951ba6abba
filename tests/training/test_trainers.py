"""Declarations of trainers: what they learn from, and what a study searches; a new one is one file."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.errors import refused
from tests.training.test_training import words_task
from traube._cli.main import app
from traube._core.errors import Conflict
from traube.models.transformer import Transformer
from traube.tasks import sources
from traube.tasks.source import Source
from traube.training import TRAINERS, find_trainers, searched_trainers
from traube.training.trainer import NetworkAtStep

TOY = """
from traube.papers.german.trainers.wwm import Wwm

class Toy(Wwm):
    name = "toy"

TRAINER = Toy
"""


def test_a_new_trainer_comes_with_a_plugin(install: Callable[..., None]) -> None:
    install("toys", trainers=TOY)
    assert set(find_trainers()) == {*TRAINERS, "toy"}


def test_two_trainers_of_a_name_are_an_error(install: Callable[..., None]) -> None:
    install("toys", trainers=TOY.replace('"toy"', '"wwm"'))
    with refused(Conflict, "wwm"):
        find_trainers()


@pytest.fixture
def sources_of() -> dict[bool, Source]:
    """A source by whether it has splits to train on."""
    return {source.has_training_splits: source for source in sources().values()}


def test_a_trainer_says_what_it_learns_from(sources_of: dict[bool, Source]) -> None:
    kinds = {name: trainer.learns_from for name, trainer in TRAINERS.items()}
    assert {name for name, kind in kinds.items() if kind == "texts"} == {"wwm", "tsdae"}
    assert {name for name, kind in kinds.items() if kind == "splits"} == {"cob", "triplet", "untrained", "qs3m"}
    for trainer in TRAINERS.values():
        assert trainer.explain_unsuited(sources_of[True]) is None
    assert TRAINERS["wwm"].explain_unsuited(sources_of[False]) is None
    reason = TRAINERS["cob"].explain_unsuited(sources_of[False])
    assert (
        reason
        == f"{sources_of[False].name} has no labeled splits for training and for validation, which cob learns from"
    )


def test_values_that_are_searched_or_a_papers_are_those_of_the_recipe() -> None:
    assert searched_trainers() == ["cob"]  # what is not trained has nothing to search, though its recipe is the same
    for trainer in TRAINERS.values():
        assert set(trainer.searched) <= set(type(trainer.defaults).model_fields)
        papers = trainer.with_values(**trainer.paper).recipe.model_dump()
        usual = trainer.defaults.model_dump()
        assert [name for name in usual if usual[name] != papers[name]] == list(trainer.paper)


def test_the_command_line_lists_the_trainers_and_which_defaults_are_traubes_own() -> None:
    rows = json.loads(CliRunner().invoke(app, ["trainers", "--json"]).output)
    assert [row["trainer"] for row in rows] == list(TRAINERS)
    assert [row["trainer"] for row in rows if row["tune"] == "yes"] == searched_trainers()
    listed = CliRunner().invoke(app, ["trainers", "qs3m", "--json"]).output
    rows = {row["value"]: (row["default"], row["paper's"]) for row in json.loads(listed)}
    assert rows["epochs"] == ("12.0", "3") and rows["pairs"] == ("balanced", "")


def test_a_network_at_a_step_is_a_model_for_the_engine(base: Transformer) -> None:
    """Its vectors are those of the network that it is given, not of the base model's weights."""
    texts = words_task().texts
    network = Transformer(base.card, "cpu").network
    same = NetworkAtStep(base, 3, base.with_network(network).encode_batches)
    assert (same.name, same.fingerprint) == (base.name, "step-3")
    assert np.allclose(same.encode(texts), base.encode(texts), atol=1e-6)
    for parameter in network[0].auto_model.parameters():
        parameter.data.mul_(1.5)
    assert not np.allclose(same.encode(texts), base.encode(texts), atol=1e-3)
