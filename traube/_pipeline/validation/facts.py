"""Facts: the columns of a corpus, a splits or a pairs table that rules speak of, computed beforehand."""

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traube._pipeline.validation.rules import SPLIT, Table
from traube.tasks._scored_pairs import PairCard
from traube.tasks._task import NULLABLE, SPLIT_COLUMNS, TaskCard


def compute_corpus_facts(card: TaskCard, rows: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    """Return the facts that the rules of a corpus (text_id, text) speak of: DataFrame characters, mojibake; a row a text."""
    text = rows["text"].astype("string[pyarrow]")
    return pd.DataFrame({"characters": text.str.strip().str.len(), "mojibake": find_mojibake(text)})


def find_mojibake(texts: pd.Series) -> pd.Series:
    """Return whether each text looks like UTF-8 that was read as something else; null where there is no text."""
    from ftfy.badness import BADNESS_RE, is_bad

    # Arrow's regular expressions search fifty times as fast as Python's, but know neither white space and comments in a
    # pattern nor, behind \w and \s, characters outside ASCII
    compact = re.sub(r"(\[[^\]]*\])|#[^\n]*|\s", lambda match: match[1] or "", BADNESS_RE.pattern)
    pattern = compact.replace(r"\w", r"[\w\pL\pN]").replace(r"\s", r"[\s\v\x1c-\x1f\pZ]")
    hits = pc.match_substring_regex(pa.array(texts, from_pandas=True), pattern)  # pandas 2 would have Python's search
    suspected = pd.Series(hits.to_numpy(zero_copy_only=False), texts.index, dtype="boolean")
    suspects = texts[suspected.fillna(False)]
    bad = pd.Series([is_bad(text) for text in suspects], suspects.index, dtype="boolean")
    return suspected & bad.reindex(texts.index, fill_value=True)


def compute_split_facts(card: TaskCard, splits: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    """Return the facts that the rules of a splits table (`SPLIT_COLUMNS`) speak of, a row for each item.

    A value is null where a fact does not apply.
    """
    split = list(SPLIT)
    label = splits["label"].astype("string")
    rows = splits.assign(label=label.mask(label.str.strip() == ""))
    test = rows[rows["part"] == "test"]
    test_split = test.groupby(split, sort=False)
    classes = test_split["label"].transform("nunique")
    trained = rows["part"].isin(["train", "validation"])
    seen = trained.groupby([rows["split_set"], rows["text_id"]]).transform("any")
    expect_labels = rows["label"].notna().any() or card.declared.classes is not None
    facts = {
        "complete": rows[[c for c in SPLIT_COLUMNS if c not in NULLABLE]].notna().all(axis=1),
        "text_known": rows["text_id"].map(set(corpus["text_id"]).__contains__).astype(bool),  # isin is slow on strings
        "labeled": rows["label"].notna() if expect_labels else None,
        "splits_in_set": rows["split_set"].map(test.groupby("split_set")["split"].nunique()).fillna(0),
        "rows_in_split": test_split["text_id"].transform("size"),
        "classes_in_split": classes.where(classes > 0),  # a split without labels has no number of classes
        "times_in_split": rows.groupby([*split, "part", "text_id"], sort=False)["item"].transform("size"),
        "labels_of_text": rows.groupby(["split_set", "level", "text_id"], sort=False)["label"].transform("nunique"),
        "rows_of_class": test.groupby([*split, "label"], sort=False)["item"].transform("size"),
        "seen_in_training": seen[test.index],
    }
    return pd.DataFrame(facts, index=rows.index)


def compute_pair_facts(card: PairCard, pairs: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    """Return the facts that the rules of a pairs table (`PAIR_COLUMNS`) speak of, a row for each pair.

    A value is null where a fact does not apply. `text` holds both texts, for people.
    """
    texts = corpus.drop_duplicates("text_id").set_index("text_id")["text"]
    first, second = (pairs[name].map(texts) for name in ("text_id_a", "text_id_b"))
    ids = pairs[["text_id_a", "text_id_b"]].astype("string").fillna("")
    both = ids.min(axis=1) + " " + ids.max(axis=1)  # in whatever order
    in_subset = pairs.groupby([pairs["part"], both], sort=False)["score"]
    trained = pairs["part"].isin(["train", "validation"])
    facts = {
        "texts_known": first.notna() & second.notna(),
        "in_scale": pairs["score"].between(*card.scale),
        "scores_in_subset": pairs.groupby("part", sort=False)["score"].transform("nunique"),
        "times_in_subset": in_subset.transform("size"),
        "scores_of_texts": in_subset.transform("nunique"),
        "pair_seen": trained.groupby(both).transform("any")[~trained],
        "text": first.fillna("(unknown)") + " | " + second.fillna("(unknown)"),
    }
    return pd.DataFrame(facts, index=pairs.index)


FACTS: dict[Table, Callable[[Any, pd.DataFrame, pd.DataFrame], pd.DataFrame]] = {
    "corpus": compute_corpus_facts,
    "splits": compute_split_facts,
    "pairs": compute_pair_facts,
}
