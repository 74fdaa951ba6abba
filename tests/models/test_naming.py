"""Models as people name them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.errors import Refusal, refused
from tests.models.q4_files import install_package
from traube._core import paths
from traube._core.errors import Missing, Unknown
from traube._pipeline.default_model import choose_model
from traube._reports.languages import fit_languages
from traube.models import load_model
from traube.models.card import catalogue
from traube.models.naming import forget_model, name_model, near_hub_ids

E5 = "intfloat/multilingual-e5-small"


def test_a_name_is_a_name_and_an_id_of_the_catalogue_has_one() -> None:
    assert name_model("minilm") == "minilm"
    assert name_model(E5) == name_model(E5.upper()) == "multilingual_e5_small"


def test_a_model_of_the_hub_gets_a_card_where_one_may_be_written() -> None:
    with refused(Unknown, "traube models", "somebody/Some-Model"):
        name_model("somebody/Some-Model")
    assert name_model("somebody/Some-Model", write=True) == "some-model"
    assert name_model("somebody/Some-Model") == "some-model"
    assert load_model("some-model").card.model == "somebody/Some-Model"
    assert name_model("else/some-model", write=True) == "else_some-model"  # another one of that name
    forget_model("some-model")
    with refused(Unknown, "traube models", "somebody/Some-Model"):
        name_model("somebody/Some-Model")


def test_a_folder_is_a_model(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, cards: Path) -> None:
    monkeypatch.chdir(tiny_bert.parent)
    assert name_model("./tiny_bert", write=True) == name_model(str(tiny_bert)) == "tiny_bert"
    assert load_model("tiny_bert").fingerprint
    with refused(Missing, "./none"):
        name_model("./none", write=True)
    (cards / "mine.yaml").write_text((paths.generated_cards() / "tiny_bert.yaml").read_text())
    forget_model("tiny_bert")
    assert name_model("./tiny_bert") == "mine"


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ("minlm", (Unknown, "minlm", "minilm_32")),
        ("Multilingual-E5-small", (Unknown, "multilingual_e5_small", E5)),
        ("bge-m3", (Unknown, "traube models", E5)),
    ],
)
def test_a_near_miss_offers_what_may_be_meant(given: str, refusal: Refusal) -> None:
    with refused(*refusal):
        name_model(given, write=True)
    assert near_hub_ids("intfloat/multilingual-e5-smal")[0] == E5


def test_every_model_of_the_catalogue_that_reads_texts_says_for_which_languages() -> None:
    silent = {
        card.name for card in catalogue().values() if card.kind in ("packaged", "transformer") and not card.languages
    }
    assert not silent
    assert catalogue()["minilm"].languages == ("en",) and catalogue()["gbert_base"].languages == ("de",)
    assert catalogue()["minilm"].is_made_for(["en"]) and not catalogue()["minilm"].is_made_for(["de"])
    assert catalogue()["multilingual_e5_small"].is_made_for(["de", "fr"])
    assert catalogue()["tfidf"].is_made_for(["de"])  # fitted on the texts, whatever they are


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory of 8 GB, of which a suggested model takes a quarter."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * 10**9))


@pytest.mark.usefixtures("memory")
def test_models_of_another_language_are_named_with_those_that_were_left_out() -> None:
    fit = fit_languages(["de"], ["minilm", "tfidf", "gone"])
    assert fit.warning.startswith(
        "The texts are German, and minilm is made for English. Made for German and not tried: mxbai_embed_de_large_v1 (974 MB)"
    )
    assert fit.command("traube run -t x").startswith("traube run -t x -m mxbai_embed_de_large_v1 -m ")
    assert {"gbert_base", "cross_en_de_roberta"} <= {card.name for card in fit.left_out}
    assert "sentence_t5_base" not in {card.name for card in fit.left_out}  # English


def test_a_model_of_an_extra_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fit_languages(["de"], ["minilm"])
    assert fit.warning.endswith(" `pip install 'traube[multilingual]'` adds multilingual_e5_small_q4.")
    assert not {card.name for card in fit.left_out} & {"multilingual_e5_small_q4"}
    install_package(b"", tmp_path, monkeypatch)
    fit = fit_languages(["de"], ["minilm"])
    assert fit.left_out[0].name == "multilingual_e5_small_q4" and "pip install" not in fit.warning


def test_who_names_no_model_gets_that_of_the_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_model(["de"]).name == "minilm" and not choose_model(["de"]).reason  # nothing else is installed
    install_package(b"", tmp_path, monkeypatch)
    for languages in ([], ["en"]):  # unknown, and English
        assert choose_model(languages).name == "minilm" and not choose_model(languages).reason
    for languages in (["de"], ["ja"], ["en", "de"], ["fr", "en"]):
        assert choose_model(languages).name == "multilingual_e5_small_q4"
    assert choose_model(["de"]).reason == (
        "texts are German: multilingual_e5_small_q4 (weights of 4 bits, not the published model) in place of minilm, made for English"
    )


@pytest.mark.usefixtures("memory")
def test_where_nothing_is_wrong_or_known_nothing_is_said() -> None:
    fit = fit_languages(["de"], ["minilm", "gbert_base"])
    assert not fit.warning and fit.not_compared.startswith("Not compared, of the models made for German: mxbai")
    assert "gbert_base" not in {card.name for card in fit.left_out}
    every = fit_languages(["de"], catalogue())
    assert not every.not_compared and not every.command("traube run")
    unknown = fit_languages([], ["minilm"])  # too few letters to tell
    assert not unknown.warning and not unknown.not_compared
    assert not fit_languages(["de"], ["tfidf"]).warning
