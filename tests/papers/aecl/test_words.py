"""Words, their vectors, and what is made of them: SIF vectors and spectral codes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from tests.errors import refused
from traube._core.errors import NotInstalled
from traube.models.transformer import Transformer
from traube.papers.aecl.stcc import compute_spectral_codes, embed_spectrally
from traube.papers.aecl.words import GLOVE, Sif, Words, make_word_vectors, split_words

TEXTS = [
    "goal ball net",
    "ball net match",
    "goal match",
    "match net goal ball",
    "moon star",
    "star orbit",
    "orbit moon sun",
]
TOPICS = [0, 0, 0, 0, 1, 1, 1]


def words(vectors: np.ndarray) -> Words:
    return Words({"cat": 0, "dog": 1}, np.array([3, 1]), vectors)


def test_words_are_split_in_any_script_and_empty_texts_have_none() -> None:
    assert split_words("Die Katze, die 2 Hüte trug!") == ["die", "katze", "die", "2", "hüte", "trug"]
    assert split_words(" .,- ") == []


def test_sif_is_the_weighted_mean_without_what_all_texts_share() -> None:
    vectors = np.array([[1.0, 0.0], [0.5, 1.0]], dtype=np.float32)
    texts = ["cat cat", "cat dog", ""]
    means = []
    for text in texts:  # Arora et al. 2017, algorithm 1
        total = np.zeros(2)
        for word in text.split():
            share = {"cat": 3, "dog": 1}[word] / 4
            total += 0.1 / (0.1 + share) * vectors[{"cat": 0, "dog": 1}[word]]
        means.append(total / max(1, len(text.split())))
    first = np.linalg.svd(np.array(means))[2][0]
    rest = np.array([mean - first * (first @ mean) for mean in means])
    sif = Sif.fit(words(vectors), texts, 0.1)
    assert sif.of(texts) == pytest.approx((rest - rest.min(axis=0)) / np.ptp(rest, axis=0), abs=1e-6)
    assert sif.of(["unknown"]) == pytest.approx(sif.of([""]))


def test_texts_without_any_word_have_vectors_all_the_same() -> None:
    nothing = Words({"": 0}, np.array([0]), np.ones((1, 3), np.float32))
    assert np.array_equal(Sif.fit(nothing, ["", "."], 0.1).of(["."]), np.zeros((1, 3)))


def test_words_that_share_texts_are_near_and_others_are_not(base: Transformer) -> None:
    numbers = Words.of(TEXTS, "encoder", base.network, 0).numbers
    vectors = make_word_vectors(TEXTS, numbers, 0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near, far = unit[numbers["moon"]] @ unit[numbers["star"]], unit[numbers["moon"]] @ unit[numbers["goal"]]
    assert near > 0.3 > 0.1 > far


def test_an_encoders_word_is_the_mean_of_its_tokens(base: Transformer) -> None:
    found = Words.of(["cat dog"], "encoder", base.network, 0)
    table = base.network[0].auto_model.get_input_embeddings().weight.detach().numpy()
    tokens = [base.network.tokenizer.convert_tokens_to_ids(word) for word in ("cat", "dog")]
    assert found.vectors == pytest.approx(table[tokens])


def test_words_that_glove_has_get_its_vectors_and_others_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: Transformer
) -> None:
    data = tmp_path / GLOVE / "data"
    data.mkdir(parents=True)
    pd.DataFrame({"index": ["the", "dog", "cat"]}).to_parquet(data / "glove_6B_index.parquet")
    np.save(data / "glove_6B_50d_emb.npy", np.arange(150, dtype=np.float32).reshape(3, 50))
    (data.parent / "__init__.py").write_text("raise RuntimeError('the code of the package runs')")
    monkeypatch.setattr("traube.papers.aecl.words.find_package", lambda name: None)
    with refused(NotInstalled, "traube[glove]"):
        Words.of(["The cat"], "glove", base.network, 0)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    words = Words.of(["The cat, the zyzzyva!"], "glove", base.network, 0)
    assert (words.numbers, words.counts.tolist()) == ({"cat": 0, "the": 1}, [1, 2])
    assert words.vectors[:, 0].tolist() == [100, 0] and words.of_text("cat zyzzyva") == [0]
    drawn = Words.of(["The cat, the zyzzyva!"], "glove", base.network, 0, draws_unknown=True)
    assert np.array_equal(drawn.vectors[[drawn.numbers["cat"], drawn.numbers["the"]]], words.vectors)
    assert 0 < np.abs(drawn.vectors[drawn.numbers["zyzzyva"]]).max() <= 0.25
    none = Words.of(["zyzzyva"], "glove", base.network, 0)
    assert none.of_text("zyzzyva") == [] and not none.vectors.any() and none.vectors.shape == (1, 50)


def test_components_of_a_graph_come_before_anything_else() -> None:
    from scipy import sparse
    from scipy.sparse.csgraph import laplacian

    random = np.random.default_rng(0)
    blocks = [sparse.csr_matrix(np.triu(random.random((8, 8)), 1)) for _ in range(12)]
    graph = sparse.csr_matrix(sparse.block_diag([block + block.T for block in blocks]))
    points = embed_spectrally(graph, 20, random)
    within = points.reshape(12, 8, 20)
    assert np.allclose(within[:, :, :11], within[:, :1, :11])  # 11 of eigenvalue 0, constant on a component
    assert np.linalg.matrix_rank(within[:, 0, :11]) == 11
    normed, roots = laplacian(graph, normed=True, return_diag=True)
    exact = np.linalg.eigvalsh(normed.toarray())[1:21]
    vectors = points * roots[:, None]
    assert np.einsum("ij,ij->j", vectors, normed @ vectors) == pytest.approx(exact, abs=1e-5)
    assert embed_spectrally(graph, 5, random).shape == (96, 5)  # fewer than there are components


def test_a_bit_of_the_codes_tells_texts_apart_that_share_no_word() -> None:
    codes = compute_spectral_codes(TEXTS * 3, 3, 5, 0)
    assert codes.shape == (21, 3) and codes.dtype == bool
    assert max(adjusted_rand_score(TOPICS * 3, bit) for bit in codes.T) > 0.5
    assert np.array_equal(codes, compute_spectral_codes(TEXTS * 3, 3, 5, 0))
    assert compute_spectral_codes(["a", "b"], 3, 5, 0).tolist() == [[False], [False]]
