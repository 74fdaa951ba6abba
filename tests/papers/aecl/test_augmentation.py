"""Texts that mean the same: what each operation does and never does, and where synonyms come from."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import refused
from traube._core.errors import Invalid, Malformed, Missing
from traube.models import load_model
from traube.models.transformer import Transformer
from traube.papers.aecl.augmentation import Contextual, Eda, Published, find_neighbors, split_words

SYNONYMS = {"cat": ["kitten", "tomcat"], "dog": ["hound"], "soup": ["broth"]}
TEXT = "The cat, a dog and the well-known soup: a cat again."
texts = st.lists(st.sampled_from(["cat", "dog", "soup", "the", "x1"]), min_size=1, max_size=30)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# EDA


def test_words_are_lower_case_and_without_punctuation() -> None:
    assert split_words("Don\u2019t: a WELL-known  Straße!") == ["dont", "a", "well", "known", "straße"]


@given(texts, st.integers(0, 99), st.sampled_from([0.1, 0.2, 0.5]))
def test_each_operation_changes_its_share_of_the_words(words: list[str], seed: int, share: float) -> None:
    eda, count = Eda(SYNONYMS, share), max(1, round(share * len(words)))
    able = sum(word in SYNONYMS for word in words)
    replaced = eda.replace(words, generator(seed))
    changed = [(a, b) for a, b in zip(words, replaced, strict=True) if a != b]
    assert len(changed) == min(count, able)
    assert all(b in SYNONYMS[a] for a, b in changed)

    added = Counter(eda.insert(words, generator(seed)))
    added.subtract(words)
    assert sum(added.values()) == min(count, able) and min(added.values(), default=0) >= 0

    assert Counter(eda.swap(words, generator(seed))) == Counter(words)

    kept = eda.delete(words, generator(seed))
    assert len(kept) == len(words) - min(count, len(words) - 1)
    rest = iter(words)
    assert all(word in rest for word in kept)  # in their order


def test_a_text_is_changed_by_one_operation_each_as_often() -> None:
    words = [f"w{i}" for i in range(10)]
    eda = Eda({word: [f"s{word}"] for word in words})
    found = [other.split() for other in eda([" ".join(words)] * 2000, 0)]
    new = [sum(word.startswith("s") for word in other) for other in found]
    kinds = Counter((len(other) - 10, count) for other, count in zip(found, new, strict=True))
    # of ten words two became synonyms, got one beside them, changed places, or went
    assert set(kinds) == {(0, 2), (2, 2), (0, 0), (-2, 0)}
    assert all(420 < count < 580 for count in kinds.values())


def test_the_seed_decides() -> None:
    eda = Eda(SYNONYMS)
    assert eda([TEXT] * 20, 1) == eda([TEXT] * 20, 1)
    assert eda([TEXT] * 20, 1) != eda([TEXT] * 20, 2)


@pytest.mark.parametrize("text", ["", " ", "...", "\u200b"])
def test_a_text_without_words_stays_as_it_is(text: str) -> None:
    assert Eda(SYNONYMS)([text], 0) == [text]


def test_a_text_of_one_word_is_never_empty() -> None:
    assert set(Eda({})(["word"] * 50, 0)) == {"word"}


# synonyms


def test_neighbors_are_words_of_the_texts_that_the_model_puts_near(minilm: Transformer) -> None:
    found = find_neighbors(["A doctor, a physician!", "the car; an automobile", "Bank 42"], minilm)
    assert found["doctor"][0] == "physician" and found["physician"][0] == "doctor"
    assert found["car"] == ["automobile"]
    assert "42" not in found and "bank" not in found


def test_the_neighbors_of_the_last_texts_are_kept(minilm: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, requested = minilm.encode, list[int]()
    monkeypatch.setattr(
        type(minilm), "encode", lambda self, words, *a, **k: requested.append(len(words)) or encode(words, *a, **k)
    )
    pets, cars = ["a cat and a kitten"], ["the car; an automobile"]
    first = find_neighbors(pets, minilm)
    assert find_neighbors(pets, minilm) == first and len(requested) == 1
    assert find_neighbors(cars, minilm) != first and len(requested) == 2
    assert find_neighbors(pets, minilm) == first and len(requested) == 3


def test_neighbors_need_no_other_words_and_no_corpus(minilm: Transformer) -> None:
    assert find_neighbors([], minilm) == find_neighbors(["word word", "..."], minilm) == {}
    with refused(Invalid, "tfidf"):
        find_neighbors(["a cat"], load_model("tfidf"))


# published


def test_published_texts_are_used_as_they_are() -> None:
    augment = Published({"a cat": "one cat", "a dog": "dog a"})
    assert augment(["a dog", "a cat", "a dog"], 0) == ["dog a", "one cat", "dog a"]
    with refused(Missing, "an owl", 1, 2):
        augment(["a cat", "an owl"], 0)


# contextual substitution


WHOLE = {"the", "cat", "dog", "soup", "star", "bread"}


def test_some_words_become_other_whole_words(masked_model: Path) -> None:
    texts = ["the cat the dog the soup the star a b", "", "the", "!?"] * 20
    found = Contextual(masked_model, share=0.3, length=32, batch=7)(texts, 0)
    assert found[1::4] == [""] * 20 and found[3::4] == ["!?"] * 20
    for other in found[::4]:
        changed = [(a, b) for a, b in zip(texts[0].split(), other.split(), strict=True) if a != b]
        assert len(changed) == 3
        assert all(b in WHOLE for _, b in changed)
    assert "the" not in found[2::4] and set(found[2::4]) <= WHOLE
    assert len(set(found[::4])) > 10


def test_the_seed_decides_what_is_drawn(masked_model: Path) -> None:
    texts = ["the cat the dog", "soup", "the star the bread the soup"] * 5
    once, again = (Contextual(masked_model, length=32)(texts, 3) for _ in range(2))
    assert once == again
    assert once != Contextual(masked_model, length=32)(texts, 4)


def test_a_text_that_is_cut_keeps_its_end(masked_model: Path) -> None:
    long = " ".join(["cat"] * 100)
    (found,) = Contextual(masked_model, share=0.99, length=12)([long], 0)
    assert len(found.split()) == 100
    assert found.split()[12:] == ["cat"] * 88


def test_a_model_without_a_head_for_masked_words_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    with refused(Malformed, tiny_bert):
        Contextual(tiny_bert)(["a cat"], 0)
    with refused(Missing, tmp_path):
        Contextual(tmp_path)(["a cat"], 0)
