"""Texts, labels and embeddings as people pass them, and the errors for all else."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from traube._core.errors import TraubeError
from traube.tasks._task import make_task
from traube.tasks._texts import read_embeddings, read_labels, read_texts

TEXTS = ["a goal", "the moon", "a star"]
FRAME = pd.DataFrame({"body": TEXTS, "year": [1, 2, 3]}, index=["x", "y", "z"])


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple(TEXTS),
        (text for text in TEXTS),  # read to its end
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        FRAME["body"],
        FRAME["body"].astype("category"),
        FRAME["body"].astype("string[pyarrow]"),
        FRAME,
        pa.array(TEXTS),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pa.table({"body": TEXTS, "year": [1, 2, 3]}),
    ],
    ids=lambda given: type(given).__name__,
)
def test_texts_come_as_people_have_them(given: Any) -> None:
    assert read_texts(given, "here").values == TEXTS


def test_the_index_of_what_was_passed_is_kept() -> None:
    assert (
        read_texts(FRAME, "here").index.tolist() == read_texts(FRAME["body"], "here").index.tolist() == ["x", "y", "z"]
    )
    assert read_texts(TEXTS, "here").index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_text_is_a_blank_one(missing: object) -> None:
    assert read_texts(["a", missing, "b"], "here").values == ["a", "", "b"]
    assert read_texts(pd.Series(["a", missing, "b"]), "here").values == ["a", "", "b"]
    assert read_texts(pa.array(["a", None, "b"]), "here").values == ["a", "", "b"]


def test_of_a_table_with_several_columns_of_text_one_has_to_be_named() -> None:
    table = FRAME.assign(area=["sport", "space", "space"])
    with pytest.raises(
        TraubeError, match=r"^here: columns body, area hold texts: name the one to take, text_column=...$"
    ):
        read_texts(table, "here")
    assert read_texts(table, "here", "body").values == TEXTS
    assert read_texts(table, "here", labels="area").values == TEXTS  # the labels' column is none of texts
    with pytest.raises(TraubeError, match=r"^here: none of year is text: name the one to take"):
        read_texts(FRAME[["year"]], "here")
    with pytest.raises(TraubeError, match=r"^unknown column 'bodi': did you mean body"):
        read_texts(table, "here", "bodi")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "one text",
            "here: texts is of type str: pass a list of str, a NumPy array, a pandas Series, an Arrow column, or a table",
        ),
        ({"text": ["a"]}, "here: texts is of type dict: pass a list of str"),
        (3, "here: texts is of type int: pass a list of str"),
        (None, "here: texts is of type NoneType: pass a list of str"),
        (np.eye(3), "here: texts is of type ndarray: pass .*; embeddings go into embeddings="),
        (["a", 3], "here: text 1 is of type int: embeddings go into embeddings="),
        (["a", b"b"], "here: text 1 is of type bytes: pass str"),
        (["a", ["b"]], "here: text 1 is of type list"),
    ],
)
def test_what_is_no_text_is_one_type_error_that_says_what_to_pass(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^{message}"):
        read_texts(given, "here")


def test_a_column_can_be_named_of_a_table_only() -> None:
    with pytest.raises(TypeError, match=r"^here: text_column names a column, and texts is of type list, no table$"):
        read_texts(TEXTS, "here", "body")


@pytest.mark.parametrize("given", [[1, 2, None], np.array([1, 2, np.nan]), pd.Series([1, 2, None], dtype="Int64")])
def test_labels_of_any_kind_are_names(given: Any) -> None:
    assert [None if label is None else label[0] for label in read_labels(given, "here")] == ["1", "2", None]


def test_labels_may_be_a_column_of_the_table() -> None:
    table = FRAME.assign(area=["sport", "space", "space"])
    (split,) = make_task(table, "area").test_splits()
    assert split.labels is not None and split.labels.tolist() == ["sport", "space", "space"]
    with pytest.raises(TraubeError, match=r"^unknown column 'aria': did you mean area"):
        make_task(table, "aria", text_column="body")
    with pytest.raises(TypeError, match=r"^make_task: labels is of type str: pass a list with a label for each text"):
        make_task(TEXTS, "area")
    with pytest.raises(TypeError, match=r"^make_task: labels is of type DataFrame"):
        make_task(TEXTS, table)


@pytest.mark.parametrize("given", [np.eye(3), np.eye(3).tolist(), sparse.csr_matrix(np.eye(3)), sparse.eye_array(3)])
def test_embeddings_may_be_dense_or_sparse(given: Any) -> None:
    values = read_embeddings(given, "here", 3)
    assert values.shape == (3, 3) and values.dtype == np.float32


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            np.ones(3),
            TypeError,
            "here: embeddings is of type ndarray: pass an array of numbers with a row for each text",
        ),
        ("minilm", TypeError, "here: embeddings is of type str: pass an array"),
        (TEXTS, TypeError, "here: embeddings is of type list: pass an array"),
        (np.ones((2, 4)), TraubeError, "here: there are 3 texts and 2 embeddings: pass one for each text"),
        (np.full((3, 4), np.nan), TraubeError, "here: embeddings hold NaN or infinity"),
    ],
)
def test_embeddings_that_are_none_are_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^{message}"):
        read_embeddings(given, "here", 3)
