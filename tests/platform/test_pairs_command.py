"""`traube pairs`: models' similarities beside gold scores."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests import giccs_like
from traube._cli.main import app
from traube._core import paths
from traube._storage import open_storage
from traube.models.causal import CausalModel
from traube.papers.giccs.multiple_choice import Choices, read_choices
from traube.tasks import load_pairs

Traube = Callable[..., Result]


@pytest.fixture
def traube(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traube:
    """Call the command, with the hand-written sample as raw data, and a pair task of the user's own."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nold soup,old hat,0.4\n")
    (cards / "mine.yaml").write_text(
        "pairs: mine.csv\ntext_a: a\ntext_b: b\nscore: score\ndescription: My own pairs.\n"
    )
    return lambda *arguments: CliRunner().invoke(app, ["pairs", *arguments], env={"COLUMNS": "140"})


def test_a_language_model_chooses_and_what_it_chose_is_kept(traube: Traube, tmp_path: Path) -> None:
    folder = tiny_language_model(tmp_path / "tiny")
    result = CliRunner().invoke(app, ["multiple-choice", str(folder), "-t", "giccs", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {(row["n_turns"], row["context"]) for row in rows} == {(t, c) for t in (3, 5) for c in (True, False)}
    assert all(row["chance"] == pytest.approx(0.2) and row["questions"] == 4 for row in rows)
    storage = open_storage(paths.home())
    kept = read_choices(storage, load_pairs("giccs"))
    assert kept["accuracy"].tolist() == [row["accuracy"] for row in rows] and set(kept["model"]) == {str(folder)}
    (choices,) = storage.read_documents(Choices)
    assert choices.fingerprint == CausalModel.load(str(folder)).fingerprint
    wrong = CliRunner().invoke(app, ["multiple-choice", str(tmp_path), "-t", "giccs"])
    assert wrong.exit_code == 1 and tmp_path.name in "".join(wrong.stderr.split())


def tiny_language_model(folder: Path) -> Path:
    """An untrained GPT-2 of one layer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    texts = [text for d in giccs_like.DIALOGUES for text in (*d.turns, *d.candidates)]
    made.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[UNK]", "[BOS]"]))
    words = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="[BOS]")
    GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_embd=8, n_layer=1, n_head=1)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def test_without_a_task_pair_tasks_are_listed_with_what_is_missing(traube: Traube) -> None:
    said = " ".join(traube().stdout.split())
    assert "mine: My own pairs." in said and "giccs: GiCCS" in said
    assert "stsb_de: The STS benchmark in German" in said and "missing: " in said


def test_what_cannot_be_computed_is_a_dash_and_null(traube: Traube) -> None:
    """Three pairs that share no word: all cosines are 0; and too few for an interval."""
    shown = traube("-t", "mine", "-m", "bow")
    assert shown.exit_code == 0 and "nan" not in shown.stdout
    (row,) = json.loads(traube("-t", "mine", "-m", "bow", "--json").stdout)
    assert row["pearson_low"] is None


def test_models_are_compared_with_and_without_history(traube: Traube) -> None:
    result = traube("-t", "giccs", "-m", "tfidf", "-m", "bow", "--groups", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {(row["model"], row["history"]) for row in rows} == {(m, h) for m in ("tfidf", "bow") for h in (True, False)}
    whole = [row for row in rows if row["group"] == "all"]
    assert len(whole) == 4 and all(row["pairs"] == 40 and row["dialogues"] == 8 for row in whole)
    assert all(row["spearman_low"] < row["spearman"] < row["spearman_high"] for row in whole)
    assert {row["value"] for row in rows if row["group"] == "n_turns"} == {"3", "5"}
    shown = traube("-t", "giccs", "-m", "tfidf").stdout
    assert "joined" in shown and f"{whole[0]['pearson']:.3f} [" in shown


def test_pairs_without_a_history_are_scored_once(traube: Traube) -> None:
    result = traube("-t", "mine", "-m", "bow", "--comparison", "euclidean", "--json")
    assert [row["comparison"] for row in json.loads(result.stdout)] == ["euclidean"]
    assert "history" not in traube("-t", "mine", "-m", "bow").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-t", "min"], "unknown task 'min': did you mean mine?"),
        (["-t", "mine", "-m", "bow", "--subset", "train"], "no pair is of the subset 'train'"),
    ],
)
def test_what_cannot_be_done_is_one_line(traube: Traube, arguments: list[str], said: str) -> None:
    result = traube(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr and "Traceback" not in result.output
