"""Lexical richness of a text."""

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.errors import refused
from tests.papers.giccs.pin_lexical_richness import PINNED, library_values
from traube._core.errors import Invalid
from traube.papers.giccs.richness import lexical_tokens, mtld, richness, rttr

TOKENS = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=60)
LIBRARY = json.loads(PINNED.read_text("utf-8"))["texts"]


def test_tokens_are_what_stands_between_white_space() -> None:
    assert richness(["Ja,\tich  komme.\nJa,"]).tokens == 4


def test_types_and_measures_are_of_the_tokens_of_lexical_richness_and_tokens_are_not() -> None:
    found = richness(["Ja, ich", "komme um 8. ja,"])
    assert (found.tokens, found.lexical_tokens, found.types) == (6, 5, 4)
    assert found.rttr == pytest.approx(4 / 5**0.5)
    nothing = richness(["8 - 9"])
    assert (nothing.tokens, nothing.lexical_tokens) == (3, 0) and np.isnan([nothing.rttr, nothing.mtld]).all()


@pytest.mark.parametrize("given", LIBRARY, ids=lambda given: given["text"][:20])
def test_tokens_rttr_and_mtld_are_those_of_lexical_richness(given: dict) -> None:
    assert lexical_tokens(given["text"]) == given["tokens"]
    found = richness([given["text"]])
    assert (found.rttr, found.mtld) == (pytest.approx(given["rttr"]), pytest.approx(given["mtld"]))


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8") | st.sampled_from("aAbBß8-–—.,'_ "), min_size=1))
def test_any_text_has_the_tokens_and_measures_of_the_library_where_it_is_installed(text: str) -> None:
    pytest.importorskip("lexicalrichness", reason="needs the library: pip install lexicalrichness==0.5.1")
    assume(lexical_tokens(text))  # the library divides by the number of tokens
    assert library_values(text) == {
        "tokens": lexical_tokens(text),
        "rttr": pytest.approx(richness([text]).rttr),
        "mtld": pytest.approx(richness([text]).mtld),
    }


def test_lemmas_are_counted_where_spacy_is_there_and_left_out_where_it_is_not() -> None:
    assert richness(["Ja, ich komme."]).lemmas is None
    assert richness(["Ja, ich komme."], "no_such_model").lemmas is None


def test_mtld_worked_by_hand() -> None:
    # forwards: a, ab, aba is 2/3 <= .72: a stretch of three; then b, bc, bcb: another; then c d: all
    # different, no part. Backwards: d, dc, dcb, dcbc is 3/4, dcbcb is 3/5: a stretch of five; then
    # a b a: 2/3, another. So both ways have two.
    text = list("ababcbcd")
    assert mtld(text) == pytest.approx(8 / 2)
    # forwards: aa is 1/2: one stretch; b: no part. Backwards: b, ba, baa is 2/3: one stretch
    assert mtld(list("aab")) == 3
    # 3/4 at the end, both ways: (1 - .75) / (1 - .72) of a stretch
    assert mtld(list("abca")) == pytest.approx(4 / (0.25 / 0.28))


def test_a_text_of_different_words_is_one_stretch_and_of_one_word_many() -> None:
    assert mtld(list("abcdef")) == 6
    assert mtld(["a"] * 10) == 2  # every second token ends a stretch
    assert np.isnan(mtld([])) and np.isnan(rttr([]))
    with refused(Invalid, 0, 1):
        mtld(["a"], 1.0)


@given(TOKENS)
def test_measures_do_not_depend_on_which_words_they_are_nor_on_the_direction(tokens: list[str]) -> None:
    renamed = [f"{token}!" for token in tokens]
    assert mtld(tokens) == mtld(renamed) and rttr(tokens) == rttr(renamed)
    assert mtld(tokens) == pytest.approx(mtld(tokens[::-1]))
    assert 0 < rttr(tokens) <= len(tokens) ** 0.5 + 1e-9
    assert mtld(tokens) > 0


@given(TOKENS)
def test_rttr_is_types_over_the_root_of_tokens(tokens: list[str]) -> None:
    assert rttr(tokens) ** 2 * len(tokens) == pytest.approx(len(set(tokens)) ** 2)
