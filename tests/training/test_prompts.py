"""A base model's prompt and precision are trained with, and kept: what is left gives the vectors that were watched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from tests.errors import check_error
from tests.made import make_module
from traube._core import paths
from traube._core.errors import Invalid
from traube.models import ModelCard, checkpoints, load_model
from traube.models.transformer import Transformer, get_prompt
from traube.papers.cob.trainers.cob import Cob
from traube.papers.german.trainers.tsdae import Tsdae
from traube.papers.german.trainers.wwm import IGNORED, Wwm
from traube.tasks.task import Task, TaskCard, index_texts, make_split
from traube.training import clusterings
from traube.training._trainers.triplet import Triplet
from traube.training.clusterings import make_text_encoder

PROMPT = "query the "
TEXTS = ["cat soup", "dog star", "soup bread", "the star", "a cat a dog", "bread star"]


@pytest.fixture
def task() -> Task:
    corpus, records = index_texts(pd.DataFrame({"text": TEXTS, "label": [str(i % 2) for i in range(6)]}))
    splits = [
        make_split(records, subset, "l", label="label", subset=subset) for subset in ("train", "validation", "test")
    ]  # type: ignore[arg-type]
    return Task(TaskCard(name="tiny"), corpus, pd.concat(splits, ignore_index=True)).validate()


def of_card(tiny_bert: Path, tmp_path: Path, **more: Any) -> Transformer:
    """A base whose card says the prompt."""
    return Transformer(ModelCard(name="tiny", model=str(tiny_bert), prompt=PROMPT, **more), "cpu")


def of_folder(tiny_bert: Path, tmp_path: Path, **more: Any) -> Transformer:
    """A base whose folder says the prompt, and that it is not pooled."""
    from sentence_transformers import SentenceTransformer

    modules = [make_module("Transformer", str(tiny_bert)), make_module("Pooling", 32, include_prompt=False)]
    network = SentenceTransformer(modules=modules, prompts={"x": PROMPT}, default_prompt_name="x", device="cpu")
    network.save(str(tmp_path / "base"), create_model_card=False)
    return Transformer(ModelCard(name="tiny", model=str(tmp_path / "base"), **more), "cpu")


BASES = [of_card, of_folder]


@pytest.mark.slow
@pytest.mark.parametrize("made", BASES)
@pytest.mark.parametrize("trainer", [Wwm, Tsdae])
def test_without_a_step_the_vectors_do_not_move(
    trainer: Any, made: Any, task: Task, tiny_bert: Path, tmp_path: Path
) -> None:
    base = made(tiny_bert, tmp_path)
    left = trainer.with_values(epochs=0.0, batch=2).fit(task, base, paths.checkpoints())
    for folder in (left.last, left.best):
        assert np.array_equal(load_model(folder.name, "cpu").encode(TEXTS), base.encode(TEXTS))


def test_the_precision_is_kept(task: Task, tiny_bert: Path, tmp_path: Path) -> None:
    base = of_card(tiny_bert, tmp_path, precision="bf16")
    left = Wwm.with_values(epochs=0.0).fit(task, base, paths.checkpoints())
    again = load_model(left.last.name, "cpu")
    assert np.array_equal(again.encode(TEXTS), base.encode(TEXTS))
    assert load_model(left.last.name, "cpu", precision="fp32").fingerprint != again.fingerprint
    about = left.last / "checkpoint.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "precision": "int8"}))
    (error,) = checkpoints.errors().values()
    check_error(error, Invalid, about, "precision", "'int8'", "fp32", "bf16", "auto")


@pytest.mark.parametrize("made", BASES)
def test_masking_sees_the_prompt_and_leaves_it_alone(made: Any, task: Task, tiny_bert: Path, tmp_path: Path) -> None:
    trainer = Wwm()
    network = trainer.make_network(made(tiny_bert, tmp_path))
    examples = trainer.make_examples(network, task, TEXTS)
    prompt = network.tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    for i, text in enumerate(TEXTS):
        assert examples.tokens[i].tolist() == network.tokenizer(PROMPT + text)["input_ids"]
        for epoch in range(5):
            _, labels = examples.make(i, np.random.default_rng(epoch))
            assert (labels[1 : 1 + len(prompt)] == IGNORED).all()
            assert (labels != IGNORED).any()


@pytest.mark.slow
@pytest.mark.parametrize("made", BASES)
def test_denoising_sees_the_prompt(made: Any, task: Task, tiny_bert: Path, tmp_path: Path) -> None:
    trainer = Tsdae.with_values(epochs=1.0, batch=2)
    network = trainer.make_network(made(tiny_bert, tmp_path))
    damaged, whole = trainer.make_examples(network, task, TEXTS).collate([("cat", "cat soup")])
    assert whole["input_ids"].tolist() == [network.tokenizer(PROMPT + "cat soup")["input_ids"]]
    assert damaged["input_ids"].tolist() == [network.tokenizer(PROMPT + "cat")["input_ids"]]
    left = trainer.fit(task, made(tiny_bert, tmp_path / "again"), paths.checkpoints())
    assert get_prompt(load_model(left.last.name, "cpu").network) == PROMPT


@pytest.mark.slow
@pytest.mark.parametrize("made", BASES)
@pytest.mark.parametrize("trainer", [Cob, Triplet])
@pytest.mark.parametrize("head", ["tanh", "none"])
def test_trainers_on_clusterings_see_what_the_checkpoint_will(
    trainer: Any, head: str, made: Any, task: Task, tiny_bert: Path, tmp_path: Path
) -> None:
    chosen = trainer.with_values(epochs=0.0, head=head)
    base = made(tiny_bert, tmp_path)
    network = chosen.make_network(base)
    network.eval()
    seen = make_text_encoder(network, TEXTS, chosen.recipe).eval().vectors(range(len(TEXTS)))
    left = chosen.fit(task, base, paths.checkpoints())
    assert np.abs(load_model(left.last.name, "cpu").encode(TEXTS) - seen).max() < 1e-6
    bare = Transformer(base.card.model_copy(update={"prompt": ""}), "cpu")
    assert np.abs(bare.encode(TEXTS) - base.encode(TEXTS)).max() > 1e-3  # the prompt does matter


def test_vectors_below_a_head_are_of_weights_and_pooling(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bases at one path, one after the other, and two poolings: none is given the other's vectors."""
    chosen = Cob.with_values(layers=0)

    def vectors_of(pooling: str, *, other_words: bool = False) -> NDArray[np.float32]:
        card = ModelCard(name="tiny", model=str(tiny_bert), pooling=pooling)  # type: ignore[arg-type]
        network = chosen.make_network(Transformer(card, "cpu"))
        if other_words:
            network[0].auto_model.embeddings.word_embeddings.weight.data.normal_()
        return make_text_encoder(network, TEXTS, chosen.recipe).vectors(range(len(TEXTS)))  # the heads are equal

    mean = vectors_of("mean")
    assert not np.allclose(vectors_of("cls"), mean)
    assert not np.allclose(vectors_of("mean", other_words=True), mean)
    assert np.array_equal(vectors_of("mean"), mean)
    monkeypatch.delattr(clusterings, "Encoded")
    assert np.array_equal(vectors_of("mean"), mean)  # where nothing differs, nothing is encoded again
    assert len(clusterings._KEPT) == 1
