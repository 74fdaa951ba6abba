"""Multiple choice by likelihood, with tiny causal models that are built, and one that is trained, here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests import giccs_like
from tests.errors import Refusal, refused
from traube._core.errors import Failed, Invalid, Malformed, Missing, TooLarge
from traube.models.causal import CausalModel
from traube.papers.giccs.likelihood import likelihoods
from traube.papers.giccs.multiple_choice import ANSWER, Question, choose, list_questions, score_options, write_prompt
from traube.tasks import load_pairs
from traube.tasks.task import Task

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

TEXTS = [text for d in giccs_like.DIALOGUES for text in (*d.turns, *d.candidates)]
OPTIONS = ["Der Zug fährt.", "Wann beginnt der Krimi?", "Nein", "Wann beginnt der Krimi heute Abend?"]


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """`words` : a token a word. `bytes` : pairs of bytes, as GPT-2's. `joined` : pairs of characters across blanks, so
    that the prompt's end and an answer's beginning can become one token."""
    from transformers import PreTrainedTokenizerFast

    model, trainer = {
        "words": (models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(special_tokens=["[UNK]", "[BOS]"])),
        "bytes": (models.BPE(), trainers.BpeTrainer(vocab_size=400, special_tokens=["[BOS]"])),
        "joined": (
            models.BPE(unk_token="[UNK]"),
            trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]", "[BOS]"]),
        ),
    }[kind]
    made = Tokenizer(model)
    if kind == "words":
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind == "bytes":
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    corpus = [*TEXTS, *OPTIONS, write_prompt(Question(("eins", "zwei"), ("a", "b"), (0, 1))), *[f"{ANSWER} D"] * 50]
    made.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="[BOS]")


def network(words: PreTrainedTokenizerFast, seed: int = 0) -> GPT2LMHeadModel:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=len(words), n_positions=512, n_embd=32, n_layer=2, n_head=2, initializer_range=0.5,
                   resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    )  # fmt: skip


def plain(model: CausalModel, before: str, after: str) -> float:
    """The sum of log probabilities, one sequence at a time and nothing shared."""
    ids = model.tokenize(f"{before} {after}" if before else after)
    begin = max(len(model.tokenize(before)), 1)
    with torch.inference_mode():
        logs = torch.log_softmax(model.model(torch.tensor([ids])).logits[0].double(), dim=-1)
    return float(sum(logs[i - 1, ids[i]] for i in range(begin, len(ids))))


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The hand-written sample."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    return load_pairs("giccs")


@pytest.mark.parametrize("kind", ["words", "bytes", "joined"])
@pytest.mark.parametrize("before", [ANSWER, f"Dialog:\nÄußerung 1: Wann beginnt der Film?\n{ANSWER} ", ""])
def test_a_shared_prefix_changes_nothing(kind: str, before: str) -> None:
    words = tokenizer(kind)
    model = CausalModel(network(words), words)
    found = [likelihood.log for likelihood in likelihoods(model, before, OPTIONS)]
    assert found == pytest.approx([plain(model, before.rstrip(), option) for option in OPTIONS], abs=1e-4)
    alone = [likelihoods(model, before, [option])[0].log for option in OPTIONS]
    assert found == pytest.approx(alone, abs=1e-4)


def test_without_a_prompt_and_a_first_token_nothing_is_shared() -> None:
    words = tokenizer("words")
    words.bos_token = None
    model = CausalModel(network(words), words)
    options = [OPTIONS[0], OPTIONS[1]]
    found = [likelihood.log for likelihood in likelihoods(model, "", options)]
    assert found == pytest.approx([plain(model, "", option) for option in options], abs=1e-4)


def test_a_model_that_keeps_no_keys_and_values_is_scored_all_the_same() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    words = tokenizer("words")
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=len(words), hidden_size=16, state_size=4, num_hidden_layers=1, expand=1)
    model = CausalModel(MambaForCausalLM(config), words)
    found = [likelihood.log for likelihood in likelihoods(model, f"eins zwei {ANSWER}", OPTIONS)]
    assert found == pytest.approx([plain(model, f"eins zwei {ANSWER}", option) for option in OPTIONS], abs=1e-4)


def test_what_is_shared_goes_through_the_model_once() -> None:
    words = tokenizer("words")
    model = CausalModel(network(words), words)
    sizes: list[tuple[int, ...]] = []
    model.model.register_forward_pre_hook(lambda _, args, kwargs: sizes.append(tuple(args[0].shape)), with_kwargs=True)
    likelihoods(model, "eins zwei drei " * 50 + ANSWER, OPTIONS)
    assert sizes == [(1, 152), (4, 6)]  # [BOS], 150 words and "Antwort:"; then the longest option


def test_likelihoods_of_all_next_tokens_sum_to_one() -> None:
    words = tokenizer("words")
    model = CausalModel(network(words), words)
    vocabulary = [word for word in words.get_vocab() if word not in ("[BOS]", "[UNK]")]
    found = likelihoods(model, ANSWER, [*vocabulary, "nie-gesehen"])  # what is unknown is one token too
    total = sum(np.exp(likelihood.log) for likelihood in found)
    ids = model.tokenize(ANSWER)
    with torch.inference_mode():
        logits = model.model(torch.tensor([ids])).logits[0, -1].double()
    first = torch.softmax(logits, dim=-1)[words.bos_token_id]  # never said, and possible
    assert total == pytest.approx(1 - float(first), abs=1e-5)


def test_lengths_are_those_of_the_answer_with_its_blank() -> None:
    words = tokenizer("words")
    likelihood = likelihoods(CausalModel(network(words), words), ANSWER, ["Wann beginnt der Krimi?", "Nein"])
    assert [(one.tokens, one.bytes) for one in likelihood] == [(4, 24), (1, 5)]


@pytest.mark.parametrize(
    ("before", "options", "refusal"),
    [
        (ANSWER, ["ja", " "], (Invalid, "' '")),
        ("eins " * 600, ["ja"], (TooLarge, 512)),
    ],
)
def test_what_cannot_be_scored_is_refused(before: str, options: list[str], refusal: Refusal) -> None:
    words = tokenizer("words")
    with refused(*refusal):
        likelihoods(CausalModel(network(words), words, "tiny"), before, options)


def test_broken_weights_are_refused() -> None:
    words = tokenizer("words")
    broken = network(words)
    torch.nn.init.constant_(broken.transformer.wte.weight, float("nan"))
    with refused(Failed, "NaN"):
        likelihoods(CausalModel(broken, words), ANSWER, OPTIONS)


def test_a_saved_model_is_loaded_again_and_anything_else_is_one_line(tmp_path: Path) -> None:
    words = tokenizer("words")
    model = network(words)
    model.save_pretrained(tmp_path / "tiny")
    words.save_pretrained(tmp_path / "tiny")
    loaded = CausalModel.load(str(tmp_path / "tiny"), local=True)
    before = likelihoods(CausalModel(model, words), ANSWER, OPTIONS)
    assert [one.log for one in likelihoods(loaded, ANSWER, OPTIONS)] == pytest.approx(
        [one.log for one in before], abs=1e-5
    )
    with refused(Missing, "absent"):
        CausalModel.load(str(tmp_path / "absent"), local=True)
    from transformers import BertConfig, BertForMaskedLM

    masked = BertForMaskedLM(
        BertConfig(vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    masked.save_pretrained(tmp_path / "masked")
    words.save_pretrained(tmp_path / "masked")
    with refused(Malformed, tmp_path / "masked"):
        CausalModel.load(str(tmp_path / "masked"), local=True)
    (tmp_path / "empty").mkdir()
    with refused(Missing, "empty"):
        CausalModel.load(str(tmp_path / "empty"), local=True)


def test_the_prompt_is_the_papers() -> None:
    requested = Question(("Hallo.", "Ja?", "Wo ist das?"), ("Wo liegt das?", "Nein."), (1.0, 0.0))
    assert write_prompt(requested).splitlines() == [
        "Dialog:",
        "Äußerung 1: Hallo.",
        "Äußerung 2: Ja?",
        "Äußerung 3: Wo ist das?",
        "Frage: Wählen Sie die Äußerung, die der letzten Äußerung im Dialog am ähnlichsten ist.",
        "Auswahl:",
        "A. Wo liegt das?",
        "B. Nein.",
        "Antwort:",
    ]
    assert write_prompt(requested, context=False).splitlines()[1:3] == ["Äußerung 1: Wo ist das?", QUESTION_LINE]


QUESTION_LINE = "Frage: Wählen Sie die Äußerung, die der letzten Äußerung im Dialog am ähnlichsten ist."


def test_dialogues_become_questions(sample: Task) -> None:
    requested = list_questions(sample)
    assert [question.turns for question in requested] == [d.turns for d in giccs_like.DIALOGUES]
    assert [question.options for question in requested] == [d.candidates for d in giccs_like.DIALOGUES]
    assert all(question.gold[0] == max(question.gold) for question in requested)


def test_the_four_scores_are_what_they_say() -> None:
    words = tokenizer("words")
    model = CausalModel(network(words), words)
    requested = Question(("Hallo.", "Wann beginnt der Film?"), tuple(OPTIONS), (0, 1, 0, 0))
    scores = score_options(model, requested)
    sums = [plain(model, write_prompt(requested), option) for option in OPTIONS]
    assert scores["sum"] == pytest.approx(sums, abs=1e-4)
    assert scores["per_token"] == pytest.approx(
        [s / len(o.split()) for s, o in zip(sums, OPTIONS, strict=True)], abs=1e-4
    )
    in_bytes = [s / len(f" {o}".encode()) for s, o in zip(sums, OPTIONS, strict=True)]
    assert scores["per_byte"] == pytest.approx(in_bytes, abs=1e-4)
    alone = [plain(model, ANSWER, option) for option in OPTIONS]
    assert scores["pmi"] == pytest.approx([s - a for s, a in zip(sums, alone, strict=True)], abs=1e-4)


@pytest.mark.slow
def test_a_model_that_learned_the_answers_is_right_and_one_that_did_not_is_at_chance(sample: Task) -> None:
    words = tokenizer("words")
    model = CausalModel(network(words, seed=1), words, "tiny")
    before = choose(sample, model)
    assert before["chance"].tolist() == pytest.approx([0.2] * len(before))
    assert (before["questions"] == 4).all() and set(before["score"]) == {"sum", "per_token", "per_byte", "pmi"}
    assert before["accuracy"].mean() < 0.6

    train(
        model,
        [f"{write_prompt(q, context)} {q.options[0]}" for q in list_questions(sample) for context in (True, False)],
    )
    after = choose(sample, model)
    assert (after.loc[after["score"].isin(["sum", "per_token", "per_byte"]), "accuracy"] == 1).all()
    assert (after.loc[after["accuracy"] == 1, "error"] == 0).all()
    assert list(after.drop_duplicates(["n_turns", "context"])[["n_turns", "context"]].itertuples(index=False, name=None)) == [
        (3, True), (3, False), (5, True), (5, False),
    ]  # fmt: skip


def train(model: CausalModel, texts: list[str]) -> None:
    """Learn the last twenty tokens of some texts by heart."""
    ids = [model.tokenize(text) for text in texts]
    width = max(map(len, ids))
    tokens = torch.tensor([[0] * (width - len(one)) + one for one in ids])
    there = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in ids])
    labels = torch.full_like(tokens, -100)
    labels[:, -20:] = tokens[:, -20:]
    positions = (there.cumsum(dim=1) - 1).clamp(min=0)
    optimizer: Any = torch.optim.AdamW(model.model.parameters(), 1e-2)
    model.model.train()
    for _ in range(60):
        loss = model.model(tokens, attention_mask=there, position_ids=positions, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.model.eval()


def test_a_dialogue_with_one_candidate_is_no_question(sample: Task) -> None:
    alone = Task(sample.card, sample.corpus, sample.rows.head(1))
    with refused(Malformed, 1):
        list_questions(alone)
    assert isinstance(sample.rows, pd.DataFrame)
