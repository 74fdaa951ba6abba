"""Lexical baselines are fitted on the texts given: their vectors hold for one corpus only."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.errors import refused
from traube._core.errors import TooFew
from traube._pipeline.embed import embed_task
from traube._pipeline.workbench import Workbench
from traube._storage import ArtifactRow, Storage
from traube.models import ModelCard, fingerprint_on, load_model, model_of
from traube.models.lexical import Lexical
from traube.tasks.task import Task

LEXICAL = ["bow", "tfidf", "lsa", "jaccard", "lda"]


def dense(values: object) -> np.ndarray:
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def test_bag_of_words_counts_words() -> None:
    assert dense(load_model("bow").encode(["cat dog cat", "dog owl"])).tolist() == [[2, 1, 0], [0, 1, 1]]


def test_tfidf_rows_have_length_one_and_rare_words_weigh_more() -> None:
    vectors = dense(load_model("tfidf").encode(["cat dog", "dog owl"]))  # cat, dog, owl
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert vectors[0, 0] > vectors[0, 1] > vectors[0, 2] == 0


def test_lsa_puts_texts_with_common_words_close(tiny_task: Task) -> None:
    vectors = dense(load_model("lsa").encode(tiny_task.texts))
    assert vectors.shape[0] == len(tiny_task.texts) and vectors.shape[1] <= 128
    similarity = vectors @ vectors.T
    bread, football = (np.array([word in t for t in tiny_task.texts]) for word in (("dough"), ("goal")))
    assert similarity[np.ix_(bread, bread)].mean() > 2 * similarity[np.ix_(bread, football)].mean()


def test_tokens_stand_between_white_space_as_they_are() -> None:
    vectors = dense(load_model("jaccard").encode(["The cat, the cat.", "the\tcat."]))
    assert vectors.sum(axis=1).tolist() == [4, 2]  # The | cat, | the | cat.
    assert (vectors @ vectors.T)[0, 1] == 2


def test_topics_are_shares_that_stop_words_and_words_of_one_place_do_not_change(tiny_task: Task) -> None:
    few = model_of(ModelCard(name="few", kind="lda", dimensions=3))
    topics = dense(few.encode([*tiny_task.texts, "the and of", "once"]))
    assert topics.shape == (len(tiny_task.texts) + 2, 3)
    assert topics.sum(axis=1) == pytest.approx(1)
    assert topics[:-2].max(axis=1).mean() > 0.8  # a text is mostly of one topic
    assert topics[-2:] == pytest.approx(1 / 3)  # nothing is known of these


def test_there_are_no_more_topics_than_texts() -> None:
    assert dense(load_model("lda").encode(["brine and salt", "salt and brine", "cheese"])).shape == (3, 3)


@pytest.mark.parametrize("name", LEXICAL)
def test_the_same_texts_have_the_same_vectors_in_float32(name: str, tiny_task: Task) -> None:
    first, second = (dense(load_model(name).encode(tiny_task.texts)) for _ in range(2))
    assert first.dtype == np.float32
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", LEXICAL)
def test_the_fingerprint_on_a_corpus_changes_with_the_corpus(name: str) -> None:
    model = load_model(name)
    assert model.corpus_bound
    assert fingerprint_on(model, "corpus 1") == fingerprint_on(load_model(name), "corpus 1")
    assert len({model.fingerprint, fingerprint_on(model, "corpus 1"), fingerprint_on(model, "corpus 2")}) == 3


def test_models_differ_in_their_fingerprints() -> None:
    names = [*LEXICAL, "lda_inverted"]
    assert len({load_model(name).fingerprint for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        *((name, ["...", "!"]) for name in ("bow", "tfidf", "lsa", "lda")),
        ("jaccard", [" ", "\t"]),
        ("lsa", ["cat dog"]),
        ("lda", ["cat dog", "owl"]),  # words that all occur once
    ],
)
def test_texts_of_which_a_model_learns_nothing_are_one_clear_error(name: str, texts: list[str]) -> None:
    with refused(TooFew, name):
        load_model(name).encode(texts)


def test_both_readings_of_topics_share_a_matrix(tmp_path: Path, tiny_task: Task) -> None:
    bench = Workbench.at(tmp_path)
    first, encoded = bench.encoded(tiny_task, load_model("lda"))
    second, again = bench.encoded(tiny_task, load_model("lda_inverted"))
    assert (encoded, again) == (len(tiny_task.texts), 0) and first.path == second.path
    texts = bench.vectors_of_texts(tiny_task.texts, load_model("lda"))
    assert np.array_equal(texts.load(), first.load())


@pytest.mark.parametrize("name", ["bow", "lsa"])  # a sparse and a dense matrix
@pytest.mark.parametrize("keep", [None, 0, 100])
def test_a_damaged_matrix_of_a_corpus_is_made_again(
    name: str, keep: int | None, tmp_path: Path, tiny_task: Task
) -> None:
    storage = Storage(tmp_path)

    def encode() -> tuple[np.ndarray, int]:
        vectors, encoded = embed_task(tiny_task, load_model(name), storage)
        return dense(vectors.load()), encoded

    vectors, encoded = encode()
    assert encoded == len(tiny_task.texts)
    if keep is not None:
        (row,) = storage.read_rows(ArtifactRow, kind="matrix")
        path = storage.get_path(row.files["matrix"])
        path.write_bytes(path.read_bytes()[:keep])
    again, encoded = encode()
    assert np.array_equal(again, vectors)
    assert encoded == (0 if keep is None else len(tiny_task.texts))


@pytest.mark.parametrize("model", LEXICAL)
@pytest.mark.parametrize("features", [None, 20])
def test_what_is_kept_of_a_fit_gives_the_same_vectors(tiny_task: Task, model: str, features: int | None) -> None:
    fitted_on = model_of(load_model(model).card.model_copy(update={"features": features, "similarity": None}))
    new = ["goal keeper Penalty, match", "nova nova galaxy", "of no known word"]
    fitted = Lexical(fitted_on.card).fit_words(tiny_task.texts)
    assert not any(" " in word for word in fitted.vocabulary)
    expected, found = fitted_on.encode_new(tiny_task.texts, new), fitted.encode(new)
    assert found.dtype == np.float32 and sparse.issparse(found) == sparse.issparse(expected)
    assert dense(found) == pytest.approx(dense(expected), abs=1e-5)  # of lda; SciPy's psi and scikit-learn's differ
