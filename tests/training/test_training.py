"""Adaptive pre-training: what is masked and damaged, what is left, and a training that was killed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.errors import refused
from tests.training.killing import kill, run_until_killed
from traube._core.errors import Failed, Incompatible, Invalid
from traube._core.progress import SILENT
from traube.models import load_model
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.papers.cob.trainers.cob import Cob
from traube.papers.german.trainers.tsdae import Tsdae, damage
from traube.papers.german.trainers.wwm import IGNORED, MaskedTexts, Wwm, choose
from traube.tasks.task import Task, TaskCard, index_texts, make_split
from traube.training import Entry, Trainer
from traube.training._trainers.triplet import Triplet
from traube.training.clusterings import take_subset
from traube.training.loop import find_last_step

RECIPE = {"epochs": 3, "batch": 4, "accumulate": 2, "learning_rate": 1e-3, "evaluate_every": 2}


def words_task() -> Task:
    """Sixteen texts on two topics, all in a test split; and half of them in two train splits, a quarter in a validation split."""
    texts = [f"the {a} {b} {c}" for a in ("cat", "dog") for b in ("a", "the") for c in ("cat", "dog", "star", "soup")]
    records = pd.DataFrame({"text": texts, "topic": ["cats"] * 8 + ["dogs"] * 8})
    corpus, indexed = index_texts(records)
    splits = [
        make_split(indexed, "all", "topic", label="topic"),
        make_split(indexed[::2], "train_0", "topic", label="topic", subset="train"),
        make_split(indexed[::4], "train_1", "topic", label="topic", subset="train"),
        make_split(indexed[1::4], "validation", "topic", label="topic", subset="validation"),
    ]
    return Task(TaskCard(name="words"), corpus, pd.concat(splits, ignore_index=True))


def untimed(curve: list[Entry]) -> list[Entry]:
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in curve]


# masking


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=40), st.integers(0, 1000))
def test_words_are_chosen_whole_and_up_to_the_target(sizes: list[int], seed: int) -> None:
    words = np.concatenate([[-1], np.repeat(np.arange(len(sizes)), sizes), [-1]]).astype(np.int32)
    chosen = choose(words, np.random.default_rng(seed))
    taken = set(words[chosen].tolist())
    assert taken and -1 not in taken  # a text without a masked token would have no loss
    assert len(chosen) == sum(sizes[w] for w in taken)
    assert len(chosen) <= max(1, round(0.15 * sum(sizes))) or len(taken) == 1


def test_of_the_chosen_tokens_eight_in_ten_are_masked_and_one_replaced(base: Transformer) -> None:
    tokenizer = base.network.tokenizer
    examples = MaskedTexts(tokenizer, ["the cat the dog a star soup bread query the cat dog"] * 4000, 64, seed=0)
    made = [examples[i] for i in range(4000)]
    before = np.concatenate([labels[labels != IGNORED] for _, labels in made])
    after = np.concatenate([tokens[labels != IGNORED] for tokens, labels in made])
    assert np.mean(after == tokenizer.mask_token_id) == pytest.approx(0.8, abs=0.02)
    # one in ten stays, and of one in ten that is replaced a few by themselves
    assert np.mean(after == before) == pytest.approx(0.1 + 0.1 / len(examples.ordinary), abs=0.02)
    assert not set(after) & set(tokenizer.all_special_ids) - {tokenizer.mask_token_id}


def test_an_example_depends_on_seed_epoch_and_number_alone(base: Transformer) -> None:
    texts = ["the cat", "a dog", "star soup bread"]
    one, other = (MaskedTexts(base.network.tokenizer, texts, 64, seed=1) for _ in range(2))
    forward = [one[i] for i in range(9)]
    backward = [other[i] for i in reversed(range(9))][::-1]
    for (a, b), (c, d) in zip(forward, backward, strict=True):
        assert np.array_equal(a, c) and np.array_equal(b, d)
    lengths = [len(forward[i][0]) for i in range(3)]
    assert sorted(lengths) == sorted(len(forward[i][0]) for i in range(3, 6))  # every text once an epoch


def test_the_loss_is_that_of_the_whole_model(base: Transformer) -> None:
    network = Transformer(base.card, "cpu").network
    examples = MaskedTexts(network.tokenizer, ["the cat a dog", "star soup bread"], 64, seed=0)
    learner = Wwm().make_learner(network, examples).eval()
    batch = examples.collate([examples[0], examples[1]])
    assert float(learner(batch)) == pytest.approx(float(learner.model(**batch).loss), rel=1e-5)


def test_the_head_learns_alone_first(base: Transformer) -> None:
    network = Transformer(base.card, "cpu").network
    wwm = Wwm.with_values(batch=4, head_epochs=40, head_learning_rate=1e-2)
    examples = wwm.make_examples(network, words_task(), words_task().texts)
    learner = wwm.make_learner(network, examples).eval()
    batch = examples.collate([examples[i] for i in range(16)])
    before = {name: value.clone() for name, value in learner.encoder.state_dict().items()}
    loss = float(learner(batch))
    wwm.prepare(learner, examples, SILENT)
    assert float(learner(batch)) < 0.9 * loss
    assert all(torch.equal(value, before[name]) for name, value in learner.encoder.state_dict().items())
    of_encoder = list(learner.encoder.parameters())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in of_encoder)  # it learns from now on


# damage


@settings(deadline=None)
@given(st.lists(st.sampled_from(["Der", "Krieg", "der", "Trolle,", "größe", "4)"]), min_size=1), st.integers(0, 1000))
def test_a_damaged_text_has_some_of_the_words_in_their_order(words: list[str], seed: int) -> None:
    left = damage(" ".join(words), np.random.default_rng(seed)).split()
    assert left
    remaining = iter(words)
    assert all(word in remaining for word in left)


def test_six_words_of_ten_are_deleted() -> None:
    text = " ".join(["Wort"] * 20_000)
    assert len(damage(text, np.random.default_rng(0)).split()) / 20_000 == pytest.approx(0.4, abs=0.02)


# training


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [Wwm, Tsdae])
def test_what_is_left_is_a_model_that_says_where_it_comes_from(
    trainer: type, base: Transformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = words_task()
    left = trainer.with_values(**RECIPE).fit(task, base, tmp_path)
    assert [entry["step"] for entry in left.curve] == [0, 2, 4, 6]
    assert left.curve[-1]["loss"] < left.curve[1]["loss"]
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path))
    model = load_model(left.last.name)
    assert model.encode(task.texts).shape == (16, 32)
    assert model.fingerprint != base.fingerprint
    about = json.loads((left.last / "checkpoint.json").read_text())
    assert (about["trainer"], about["task"], about["base_fingerprint"]) == (trainer.name, "words", base.fingerprint)
    assert about["config"]["seed"] == 42
    assert not list(tmp_path.rglob("*.bin")) and not list(tmp_path.rglob("*.pt"))
    again: list[object] = []
    assert trainer.with_values(**RECIPE).fit(task, base, tmp_path, watch=again.append).curve == left.curve
    assert again == []  # nothing was computed


def _kill_at_step_4(entry: Entry) -> None:
    if entry["step"] == 4:
        kill()


def _train_until_killed(trainer: type[Trainer], epochs: int, encoder: str, folder: Path) -> None:
    base = Transformer(ModelCard(name="tiny", kind="transformer", model=encoder), "cpu")
    trainer.with_values(**RECIPE | {"epochs": epochs}).fit(words_task(), base, folder, watch=_kill_at_step_4)


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "epochs"), [(Wwm, 3), (Tsdae, 3), (Cob, 24), (Triplet, 1)])  # six steps each
def test_a_training_that_was_killed_goes_on_to_the_same_result(
    trainer: type[Trainer], epochs: int, base: Transformer, tmp_path: Path
) -> None:
    recipe = {**RECIPE, "epochs": epochs}
    whole = trainer.with_values(**recipe).fit(words_task(), base, tmp_path / "whole")
    run_until_killed(_train_until_killed, trainer, epochs, str(base.card.model), tmp_path / "cut")
    assert not (tmp_path / "cut" / whole.last.name).exists()
    seen: list[dict[str, float | None]] = []
    resumed = trainer.with_values(**recipe).fit(words_task(), base, tmp_path / "cut", watch=seen.append)
    assert [entry["step"] for entry in seen] == [4, 6]  # of the evaluation at 4 nothing was saved
    assert untimed(resumed.curve) == untimed(whole.curve)
    assert [entry["seconds"] for entry in resumed.curve] == sorted(entry["seconds"] for entry in resumed.curve)
    one, other = (load_file(c.last / "model.safetensors") for c in (whole, resumed))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def _stop_at_step_4(entry: Entry) -> None:
    if entry["step"] == 4:
        raise InterruptedError


@pytest.mark.slow
@pytest.mark.parametrize("restores", [True, False])
def test_a_trainer_that_restores_weights_by_another_method_is_refused(
    restores: bool, base: Transformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the training would go on from its beginning, with the steps of the middle."""

    def get(self: transformers.Trainer, name: str) -> Any:
        is_renamed = name == "_load_from_checkpoint" and not restores
        return (lambda *_, **__: None) if is_renamed else object.__getattribute__(self, name)

    monkeypatch.setattr(transformers.Trainer, "__getattribute__", get)
    trainer = Wwm.with_values(**RECIPE)
    with pytest.raises(InterruptedError):
        trainer.fit(words_task(), base, tmp_path, watch=_stop_at_step_4)
    if restores:
        seen: list[Entry] = []
        trainer.fit(words_task(), base, tmp_path, watch=seen.append)
        assert [entry["step"] for entry in seen] == [4, 6]
        return
    with refused(Incompatible, "transformers", transformers.__version__):
        trainer.fit(words_task(), base, tmp_path)


def test_a_step_that_was_half_saved_is_passed_over(tmp_path: Path) -> None:
    """The Trainer writes its state last; a kill before that leaves a folder that cannot be gone on from."""
    assert find_last_step(tmp_path) is None
    for step, state in ((2, '{"global_step": 2}'), (4, '{"global'), (6, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"")
        if state:
            (folder / "trainer_state.json").write_text(state)
    assert find_last_step(tmp_path) == str(tmp_path / "checkpoint-2")
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-2"]


def test_what_other_split_sets_train_on_is_not_seen() -> None:
    """In another split set the folds change places: its training texts are those that are scored."""
    task = words_task()
    swapped = {"test": "train", "train": "test", "validation": "validation"}
    other = task.splits.assign(split_set="fold_2", part=task.splits["part"].map(swapped))
    both = Task(task.card, task.corpus, pd.concat([task.splits, other], ignore_index=True))
    assert Cob().select_texts(both, ()) == Cob().select_texts(task, ())
    for subset in ("train", "validation"):
        pd.testing.assert_frame_equal(take_subset(both, subset).corpus, take_subset(task, subset).corpus)


def test_another_recipe_has_another_name() -> None:
    def name(extra: bool = False, **changes: object) -> str:
        return Wwm.with_values(**changes).name_checkpoints("words", "tiny", extra)

    assert (name(), name(seed=1)) == ("wwm__words__tiny.s42", "wwm__words__tiny.s1")  # the second is a repeat
    assert len({name(), name(seed=1), name(epochs=3), name(epochs=4), name(extra=True)}) == 5


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_training(base: Transformer, tmp_path: Path) -> None:
    with refused(Failed, "1e+30"):
        Wwm.with_values(**RECIPE | {"learning_rate": 1e30}).fit(words_task(), base, tmp_path)
    assert not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]


WRONG: dict[str, tuple[str, ...]] = {
    "epochs": ("-1", "1e99", "nan", "inf", "-inf", "three", "", "10001"),
    "batch": ("0", "-1", "1.5", "1e99", "x", "100001"),
    "accumulate": ("0", "-1", "1e99"),
    "learning_rate": ("0", "-1", "nan", "inf", "1e999", "fast"),
    "schedule": ("x", "", "1"),
    "warmup": ("1", "-0.1", "nan", "2"),
    "weight_decay": ("-1", "nan", "1e99"),
    "max_length": ("7", "-1", "1e99", "x"),
    "dropout": ("perhaps", "2", ""),
    "evaluate_every": ("-1", "1e99", "x"),
    "precision": ("fp8", ""),
    "seed": ("-1", "4294967296", "9" * 400, "1.5", "x"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_recipe_is_named(name: str) -> None:
    for value in WRONG[name]:
        with refused(Invalid, name, "wwm"):
            Wwm.with_values(**{name: value})


def test_a_recipe_may_be_given_in_words() -> None:
    assert Tsdae.with_values(epochs="3", pooling="cls").recipe.epochs == 3


@pytest.mark.slow
def test_dropout_can_be_off(base: Transformer, tmp_path: Path) -> None:
    """The loss of the first step is then that of the model as it is evaluated."""
    wwm, task = Wwm.with_values(**RECIPE | {"epochs": 0.5, "evaluate_every": 1, "dropout": "no"}), words_task()
    first = wwm.fit(task, base, tmp_path).curve[1]["loss"]
    network = wwm.make_network(base)
    examples = wwm.make_examples(network, task, task.texts)
    learner = wwm.make_learner(network, examples).eval()
    batches = [examples.collate([examples[i] for i in range(start, start + 4)]) for start in (0, 4)]
    with torch.no_grad():
        assert first == pytest.approx(np.mean([float(learner(batch)) for batch in batches]), rel=1e-5)
