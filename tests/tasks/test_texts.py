"""Texts, labels and embeddings as people pass them, and the errors for all else."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from scipy import sparse

from tests.errors import Refusal, refused
from traube._core.errors import Invalid, Malformed, Unknown
from traube.tasks.task import make_task
from traube.tasks.texts import read_embeddings, read_labels, read_texts

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


class Exported:
    """Data of a library that Traube does not know: nothing but the Arrow PyCapsule interface."""

    def __init__(self, data: pa.Table | pa.ChunkedArray) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


ARROW = pa.table({"body": TEXTS, "year": [1, 2, 3], "area": ["sport", None, "space"]})


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_tables_and_columns_of_any_library_come_by_arrow(kind: pa.DataType) -> None:
    column = pa.chunked_array([TEXTS[:1], [], TEXTS[1:]]).cast(pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    assert read_texts(Exported(column), "here").values == TEXTS
    assert read_texts(Exported(pa.table({"body": column, "year": [1, 2, 3]})), "here").values == TEXTS
    assert read_labels(Exported(column), "here") == TEXTS
    assert read_labels("body", "here", Exported(pa.table({"body": column}))) == TEXTS


def test_a_table_by_arrow_has_columns_and_errors_as_one_of_pandas() -> None:
    assert read_texts(Exported(ARROW), "here", "body").values == TEXTS
    assert read_texts(Exported(ARROW), "here", labels="area").values == TEXTS
    assert read_labels("area", "here", Exported(ARROW)) == ["sport", None, "space"]
    with refused(Invalid, "here", "body, area"):
        read_texts(Exported(ARROW), "here")
    with refused(Unknown, "bodi", "body"):
        read_texts(Exported(ARROW), "here", "bodi")
    assert read_texts(Exported(ARROW[:0]), "here", "body").values == []
    numbers = Exported(ARROW.select(["year"]))
    assert read_embeddings(numbers, "here").tolist() == [[1], [2], [3]]
    with refused(TypeError, "int", 0):
        read_texts(Exported(ARROW["year"]), "here")


def test_a_stream_that_can_be_read_once_gives_texts_and_labels() -> None:
    reader = ARROW.select(["body", "area"]).to_reader()
    with pytest.warns(UserWarning, match="1 of 3 texts"):
        (split,) = make_task(reader, "area").test_splits()
    assert split.labels is not None and split.labels.tolist() == ["sport", "space"]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"body": TEXTS, "year": [1, 2, 3]})
    assert read_texts(table, "here").values == read_texts(table["body"], "here").values == TEXTS
    assert read_labels("year", "here", table) == read_labels(table["year"], "here") == ["1", "2", "3"]
    assert read_embeddings(polars.DataFrame(np.eye(3)), "here", 3).tolist() == np.eye(3).tolist()
    assert read_embeddings(polars.Series([[1.0, 2.0], [3.0, 4.0]]), "here").tolist() == [[1, 2], [3, 4]]


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select * from (values ('a goal', 1), ('the moon', 2), ('a star', 3)) t(body, year)")
    assert read_texts(relation, "here").values == TEXTS
    assert read_labels("year", "here", relation) == ["1", "2", "3"]


def test_names_of_columns_may_be_numbers_for_labels_as_for_texts() -> None:
    table = pd.DataFrame({0: TEXTS, 1: ["sport", "space", "space"], 2: [5, 6, 7]})
    for column, labels in ((0, 1), (np.int64(0), np.int64(1)), (None, 1)):
        (split,) = make_task(table, labels, text_column=column).test_splits()
        assert split.labels is not None and split.labels.tolist() == ["sport", "space", "space"]
    for wrong in (3, -1):
        with refused(Unknown, wrong):
            make_task(table, wrong, text_column=0)
    with refused(TypeError, "int"):
        make_task(TEXTS, 1)


def test_true_names_no_column_that_is_called_1() -> None:
    table = pd.DataFrame({0: TEXTS, 1: ["sport", "space", "space"]})
    with refused(Unknown, "True"):
        read_texts(table, "here", True)
    with refused(TypeError, "bool"):
        make_task(table, True, text_column=0)
    assert read_texts(pd.DataFrame({True: TEXTS, False: TEXTS}), "here", True).values == TEXTS


@for_all(st.lists(st.text(st.characters(exclude_categories=[]), max_size=8)))
def test_half_an_emoji_is_replaced_and_all_else_stays(texts: list[str]) -> None:
    """Python's strings may hold surrogates, such as half an emoji that was cut; files in UTF-8 may not."""
    found = read_texts(texts, "here").values
    assert found == read_labels(texts, "here")
    for text, kept in zip(texts, found, strict=True):
        kept.encode()
        assert kept == text if not any("\ud800" <= c <= "\udfff" for c in text) else len(kept) <= len(text)


def test_halves_of_an_emoji_that_stand_together_are_joined() -> None:
    assert read_texts(["goal \ud83c\udf47!", "goal \ud83c!", "\udf47 goal"], "here").values == [
        *("goal \U0001f347!", "goal \ufffd!", "\ufffd goal")
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", [None, ["sport", "sport", "space"]])
def test_nothing_is_left_out_of_whole_texts(labels: list[str] | None) -> None:
    assert make_task(TEXTS, labels).texts == TEXTS


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_texts_without_words_or_labels_are_left_out_and_counted(missing: object) -> None:
    with pytest.warns(UserWarning, match="^texts: 2 of 5 texts are blank or have no label: left out$"):
        task = make_task([*TEXTS, " ", "a comet"], ["sport", "space", "space", "space", missing])
    (split,) = task.test_splits()
    assert task.texts == TEXTS
    assert split.labels is not None and split.labels.tolist() == ["sport", "space", "space"]
    with refused(Malformed, 2, 3):
        make_task(TEXTS, ["sport", missing, missing])
    with refused(Malformed, 3, 2):
        make_task(TEXTS, ["sport", "space"])


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
    with refused(Invalid, "here", "text_column="):
        read_texts(table, "here")
    assert read_texts(table, "here", "body").values == TEXTS
    assert read_texts(table, "here", labels="area").values == TEXTS  # the labels' column is none of texts
    with refused(Invalid, "here"):
        read_texts(FRAME[["year"]], "here")
    with refused(Unknown, "bodi", "body"):
        read_texts(table, "here", "bodi")
    with refused(TypeError, "here", "list", "text_column"):
        read_texts(TEXTS, "here", "body")


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ("one text", (TypeError, "here", "str")),
        ({"text": ["a"]}, (TypeError, "here", "dict")),
        (3, (TypeError, "here", "int")),
        (None, (TypeError, "here", "NoneType")),
        (np.eye(3), (TypeError, "here", "ndarray")),
        (["a", 3], (TypeError, "here", "int", 1)),
        (["a", b"b"], (TypeError, "here", "bytes", 1)),
        (["a", ["b"]], (TypeError, "here", "list", 1)),
    ],
)
def test_what_is_no_text_is_one_type_error_that_says_what_to_pass(given: Any, refusal: Refusal) -> None:
    with refused(*refusal):
        read_texts(given, "here")


@pytest.mark.parametrize("given", [[1, 2, None], np.array([1, 2, np.nan]), pd.Series([1, 2, None], dtype="Int64")])
def test_labels_of_any_kind_are_names(given: Any) -> None:
    assert [None if label is None else label[0] for label in read_labels(given, "here")] == ["1", "2", None]


def test_labels_may_be_a_column_of_the_table() -> None:
    table = FRAME.assign(area=["sport", "space", "space"])
    (split,) = make_task(table, "area").test_splits()
    assert split.labels is not None and split.labels.tolist() == ["sport", "space", "space"]
    with refused(Unknown, "aria", "area"):
        make_task(table, "aria", text_column="body")
    with refused(TypeError, "make_task", "str"):
        make_task(TEXTS, "area")
    with refused(TypeError, "make_task", "DataFrame"):
        make_task(TEXTS, table)


@pytest.mark.parametrize("given", [np.eye(3), np.eye(3).tolist(), sparse.csr_matrix(np.eye(3)), sparse.eye_array(3)])
def test_embeddings_may_be_dense_or_sparse(given: Any) -> None:
    values = read_embeddings(given, "here", 3)
    assert values.shape == (3, 3) and values.dtype == np.float32


ROWS = [[1.0, 2.0], [0.5, -1.0], [3.0, 4.0]]


def make_tensors() -> dict[str, Any]:
    import torch

    return {
        "with a gradient": torch.tensor(ROWS, requires_grad=True),
        "of 16 bits": torch.tensor(ROWS).bfloat16(),
        "list of tensors": [torch.tensor(row, requires_grad=True) for row in ROWS],
        "column of tensors": pd.Series([torch.tensor(row) for row in ROWS]),
    }


@pytest.mark.parametrize("kind", list(make_tensors()))
def test_embeddings_may_be_tensors(kind: str) -> None:
    assert read_embeddings(make_tensors()[kind], "here", 3).tolist() == ROWS


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(ROWS),
        pd.Series(ROWS, index=["x", "y", "z"]),
        pd.Series([np.array(row) for row in ROWS]),
        pd.DataFrame({"vector": ROWS}),
        pa.array(ROWS),
        pa.chunked_array([ROWS]),
        pa.table({"vector": ROWS}),
        pa.table({"x": [row[0] for row in ROWS], "y": [row[1] for row in ROWS]}),
        Exported(pa.table({"vector": ROWS})),
        Exported(pa.chunked_array([ROWS])),
    ],
    ids=lambda given: type(given).__name__,
)
def test_embeddings_may_be_columns_of_lists_or_tables_of_numbers(given: Any) -> None:
    assert read_embeddings(given, "here", 3).tolist() == ROWS


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (np.ones(3), (TypeError, "here", "ndarray")),
        ("minilm", (TypeError, "here", "str")),
        (TEXTS, (TypeError, "here", "list")),
        ([[1.0, 2.0], [1.0], [2.0]], (TypeError, "here", "list")),
        (pd.Series([[1.0], None, [2.0]]), (TypeError, "here", "Series")),
        (pd.Series(["a", "b", "c"]), (TypeError, "here", "Series")),
        (pa.table({"x": ["a", "b", "c"]}), (TypeError, "here", "Table")),
        (np.ones((2, 4)), (Malformed, "here", 3, 2)),
        (np.full((3, 4), np.nan), (Malformed, "here", "NaN")),
    ],
)
def test_embeddings_that_are_none_are_refused(given: Any, refusal: Refusal) -> None:
    with refused(*refusal):
        read_embeddings(given, "here", 3)
