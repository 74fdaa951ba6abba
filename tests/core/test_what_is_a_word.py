"""Words in any script: marks belong to their letters, and scripts without spaces have words as well."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from traube._core import words
from traube._core.words import split_words
from traube._grouping.describe import find_keywords
from traube.models import load_model, present_version
from traube.models.lexical import BUCKETS, _make_vectorizer

COMPOSED = st.characters(
    whitelist_categories=("L", "N", "P", "Zs"), min_codepoint=32, max_codepoint=0x52F, blacklist_characters="\u0130"
)
TEXTS = st.lists(st.text(COMPOSED, min_size=1, max_size=40), min_size=2, max_size=6)


# scripts with spaces


@given(st.text(st.characters(min_codepoint=1, max_codepoint=0x24F)))
def test_latin_texts_have_the_words_of_scikit_learns_analyzer(text: str) -> None:
    assert split_words(text) == CountVectorizer().build_analyzer()(text)


@pytest.mark.slow
@given(TEXTS)
def test_vectors_of_composed_latin_greek_and_cyrillic_are_those_of_scikit_learn(texts: list[str]) -> None:
    texts = [*texts, "naïve Überraschung Ελλάδα Москва"]
    for kind, usual in (("bow", CountVectorizer), ("tfidf", TfidfVectorizer)):
        ours, theirs = _make_vectorizer(kind), usual(dtype=np.float32)
        assert (ours.fit_transform(texts) != theirs.fit_transform(texts)).nnz == 0
        assert ours.vocabulary_ == theirs.vocabulary_
    hashed = load_model("hashed")._parts[0].transform(texts)
    assert (hashed != HashingVectorizer(n_features=BUCKETS, dtype=np.float32).transform(texts)).nnz == 0
    topics = _make_vectorizer("lda").fit([*texts, "the house"])
    assert topics.vocabulary_ == CountVectorizer(stop_words="english").fit([*texts, "the house"]).vocabulary_


@pytest.mark.parametrize(
    "text",
    [
        "रोटी बनाने का तरीका",  # Hindi: vowel signs, and a sign that joins consonants
        "রুটির আটা নরম",  # Bengali
        "ரொட்டி மாவு மென்மையானது",  # Tamil
        "خُبْزٌ مِنَ العَجِينِ",  # Arabic with vowels
        "שָׁלוֹם עוֹלָם",  # Hebrew with points
        unicodedata.normalize("NFD", "Müller möchte Bücher"),
        unicodedata.normalize("NFD", "những người Việt"),
    ],
)
def test_letters_keep_their_marks(text: str) -> None:
    assert split_words(text) == [unicodedata.normalize("NFC", word).lower() for word in text.split()]


@given(st.lists(st.sampled_from(["Müller", "Bücher", "façade", "Ångström", "été", "điện"]), min_size=1))
def test_decomposed_words_are_the_composed_ones(parts: list[str]) -> None:
    text = " ".join(parts)
    assert split_words(unicodedata.normalize("NFD", text)) == split_words(text)


def test_key_words_of_decomposed_texts_and_of_hindi_are_whole() -> None:
    german = ["Bücher über Vögel", "Bücher und Vögel", "Käse mit Brötchen", "Brötchen und Käse"]
    decomposed = [unicodedata.normalize("NFD", text) for text in german]
    assert find_keywords(decomposed, np.array([0, 0, 1, 1])) == find_keywords(german, np.array([0, 0, 1, 1]))
    hindi = ["रोटी का आटा", "रोटी और आटा", "क्रिकेट मैच में", "क्रिकेट का मैच"]
    found = find_keywords(hindi, np.array([0, 0, 1, 1]))
    assert set(found[0]) == {"रोटी", "आटा"} and {"क्रिकेट", "मैच"} <= set(" ".join(found[1]).split())


# scripts without spaces

SENTENCES = {
    "zh": ("新手机的电池", "手机"),
    "ja": ("新しいスマートフォンの画面", "スマートフォン"),
    "th": ("ซื้อโทรศัพท์ใหม่", "โทรศัพท์"),
    "km": ("គណៈកម្មាធិការបានពិភាក្សា", "ពិភាក្សា"),
    "my": ("ဘတ်ဂျက်ကိုဆွေးနွေး", "ဘတ်ဂျက်"),
    "lo": ("ກອງປະຊຸມຄະນະກຳມະການ", "ປະຊຸມ"),
}


@pytest.mark.parametrize("code", SENTENCES)
def test_the_dictionaries_of_icu_know_the_words(code: str) -> None:
    pytest.importorskip("icu4py")
    text, word = SENTENCES[code]
    assert word in split_words(text)


def test_without_them_n_grams_of_characters_stand_for_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "has_segmenter", lambda: False)
    assert split_words("新手机的电池") == ["新手", "手机", "机的", "的电", "电池"]
    assert split_words("スマートフォンの画面") == ["スマートフォン", "の画", "画面"]  # Katakana is a word as it is
    assert all(len(re.findall(r"\w", gram)) <= 4 for gram in split_words(SENTENCES["th"][0]))
    found = find_keywords(["手机电池", "新手机", "火车站", "坐火车"], np.array([0, 0, 1, 1]))
    assert (found[0][0], found[1][0]) == ("手机", "火车")
    assert split_words("iPhone手机 and 5G网络, été") == ["iphone", "手机", "and", "5g", "网络", "été"]


def test_other_words_are_another_version_of_models_of_words() -> None:
    for name in ("bow", "tfidf", "lsa", "hashed"):
        assert load_model(name).numerics["words"] == present_version("words")
