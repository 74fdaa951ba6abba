"""Pair tasks: what their readers make of raw data, and what they refuse."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from tests import giccs_like
from tests.errors import Refusal, refused
from traube._core.errors import Invalid, Malformed, TooFew, Unavailable, Unknown
from traube.tasks import PAIRS, card_errors, get_source, load_pairs, sources
from traube.tasks.scored_pairs import PairCard, has_history, join_histories, locate_texts, make_pairs, select_pairs

DEEPL = (
    '3.2\tEin Schild sagt "kein Tauchen".\tEin Junge taucht.\n'
    '1.0\tEr sagte: "Nein.\tSie sagte: Ja.\n'  # a mark that never ends
    "5.0\tEine Kuh frisst.\tEine Kuh frisst Gras.\n"
)


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TRAUBE_RAW, with a small STS benchmark and a small set of utterances in their original forms."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    stsb = tmp_path / "sts_de" / "stsb_de"
    stsb.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        with gzip.open(stsb / f"deepl_stsb_de_{part}.csv.gz", "wt", encoding="utf-8") as file:
            file.write(DEEPL)
    nlu = tmp_path / "sts_de" / "nlu_similarity_de"
    nlu.mkdir()
    (nlu / "NLU-Data-Home-Domain-similarity-de.csv").write_text(
        'uuid,sentence1,sentence2,similarity_score\nu1,Licht an,"Mach das Licht an, bitte",5\nu2,Licht aus,Musik an,0\n',
        encoding="utf-8",
    )
    return tmp_path


def test_quotation_marks_of_stsb_are_part_of_sentences_and_join_no_rows(raw: Path) -> None:
    task = load_pairs("stsb_de")
    assert task.rows["part"].value_counts().to_dict() == {"train": 3, "validation": 3, "test": 3}
    assert 'Ein Schild sagt "kein Tauchen".' in task.texts and 'Er sagte: "Nein.' in task.texts
    test = select_pairs(task, "test")
    assert test.rows["score"].tolist() == [3.2, 1.0, 5.0]
    first, second = locate_texts(test)
    assert [(task.texts[a], task.texts[b]) for a, b in zip(first, second, strict=True)][2] == (
        "Eine Kuh frisst.",
        "Eine Kuh frisst Gras.",
    )
    assert len(task.corpus) == 6  # each text once, however many pairs hold it


@pytest.mark.parametrize(
    ("line", "refusal"),
    [("3.2\tnur einer\n", (Malformed, "_test.csv:1", 2)), ("viel\ta\tb\n", (Malformed, "viel", "_test.csv:1"))],
)
def test_a_broken_line_of_stsb_is_named(raw: Path, line: str, refusal: Refusal) -> None:
    (raw / "sts_de" / "stsb_de" / "deepl_stsb_de_test.csv").write_text(line)
    with refused(*refusal):
        load_pairs("stsb_de")


def test_absent_raw_data_is_unavailable_and_its_origin_is_reported(raw: Path) -> None:
    with refused(Unavailable, "stsb_de_aws", "aws_stsb_de_train.csv"):
        load_pairs("stsb_de_aws")
    with refused(Unavailable, "giccs.csv", "https://doi.org/10.5281/zenodo.7266256"):
        load_pairs("giccs")


def test_the_sample_is_read_as_giccs_is(raw: Path) -> None:
    giccs_like.write(raw)
    task = load_pairs("giccs")
    assert len(task.rows) == 40 and task.rows["dialogue"].nunique() == 8
    assert set(task.rows["source"]) == {giccs_like.SOURCE}
    assert task.rows["n_turns"].value_counts().to_dict() == {"3": 20, "5": 20}
    assert task.rows["domain"].nunique() == 4
    assert task.rows.groupby("dialogue")["score"].mean().tolist() == pytest.approx([0.5] * 8)
    first, second = locate_texts(task)
    assert task.texts[first[0]] == "Soll es italienische Küche sein?"  # the last turn
    assert task.texts[second[0]] == "Möchten Sie italienisch essen gehen?"
    assert task.rows["history"][0] == "Wie kann ich helfen?\nIch suche ein Lokal für heute Abend."


def test_other_names_of_giccs_columns_are_mapped_by_a_file_beside_it(raw: Path) -> None:
    folder = raw / "giccs"
    folder.mkdir()
    (folder / "giccs.tsv").write_text(
        "id\tTurn 1\tTurn 2\tTurn 3\tParaphrase\tSim\tBereich\n7\tHallo\tJa?\tWo ist das?\tWo liegt das?\t0.9\thotel\n",
        encoding="utf-8",
    )
    with refused(Unknown, "utterance"):
        load_pairs("giccs")
    (folder / "columns.yaml").write_text(
        "turns: [Turn 1, Turn 2, Turn 3]\ntext_b: Paraphrase\nscore: Sim\ngroups: {domain: Bereich}\ndialogue: id\n",
        encoding="utf-8",
    )
    pairs = load_pairs("giccs").rows
    reported = pairs.loc[0, ["history", "n_turns", "dialogue", "domain", "source"]].tolist()
    assert reported == ["Hallo\nJa?", "3", "7", "hotel", ""]
    for groups in ("Bereich", "{Bereich: Bereich}"):  # which of the two it is, is not said
        said = f"turns: [Turn 1, Turn 2, Turn 3]\ntext_b: Paraphrase\nscore: Sim\ngroups: {groups}\n"
        (folder / "columns.yaml").write_text(said, encoding="utf-8")
        with refused(Invalid, "line 4", "groups", "Bereich"):
            load_pairs("giccs")


def test_history_is_joined_to_both_sides(raw: Path) -> None:
    giccs_like.write(raw)
    alone = load_pairs("giccs")
    joined = join_histories(alone)
    assert has_history(alone.rows)
    first, second = locate_texts(joined)
    before = "Wie kann ich helfen? Ich suche ein Lokal für heute Abend."
    assert joined.texts[first[0]] == f"{before} Soll es italienische Küche sein?"
    assert joined.texts[second[0]] == f"{before} Möchten Sie italienisch essen gehen?"
    unchanged = ["pair", "score", "part", "dialogue", "history", "domain", "source", "n_turns"]
    pd.testing.assert_frame_equal(joined.rows[unchanged], alone.rows[unchanged])


def test_a_table_of_ones_own_is_a_pair_task_by_its_card(raw: Path, cards: Path) -> None:
    (cards / "mine.csv").write_text("one,other,points,kind\na b,a c,5,x\nd e,f g,0,y\n", encoding="utf-8")
    card = "pairs: mine.csv\ntext_a: one\ntext_b: other\nscore: points\nscale: [0, 5]\ngroups: kind\nlanguage: de\n"
    (cards / "mine.yaml").write_text(card, encoding="utf-8")
    assert "mine" in sources(PAIRS) and "mine" not in sources()
    assert load_pairs("mine").rows[["score", "kind"]].to_numpy().tolist() == [[5, "x"], [0, "y"]]
    with refused(Unknown, "traube pairs -t mine"):
        get_source("mine")
    with refused(Unknown, "traube run -t tweet"):
        load_pairs("tweet")


@pytest.mark.parametrize(
    ("keys", "table"),
    [
        ("", "a;o;s\nGröße, für alle;Maß;1\nÖl;Käse;0\n;Fett;1\n"),
        ("separator: tab\nquote: none\n", "a\to\ts\nGröße, für alle\tMaß\t1\nÖl\tKäse\t0\n"),
        ("header: false\n", "Größe, für alle|Maß|1\nÖl|Käse|0\n"),
    ],
)
def test_pairs_are_read_however_they_are_written(cards: Path, keys: str, table: str) -> None:
    names = ("column_1", "column_2", "column_3") if "header" in keys else ("a", "o", "s")
    (cards / "mine.csv").write_bytes(table.encode("cp1252"))
    (cards / "mine.yaml").write_text("pairs: mine.csv\ntext_a: {}\ntext_b: {}\nscore: {}\n".format(*names) + keys)
    pairs = load_pairs("mine")
    assert pairs.texts == ["Größe, für alle", "Öl", "Maß", "Käse"] and pairs.rows["score"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("card", "table", "refusal"),
    [
        ("text_b: o\nscore: s\n", "a,o,s\nx,y,1\n", (Invalid, "text_a")),
        ("text_a: a\ntext_b: o\nscore: s\nscroe: t\n", "a,o,s\nx,y,1\n", (Invalid, "line 5")),
        ("text_a: a\ntext_b: other\nscore: s\n", "a,o,s\nx,y,1\n", (Unknown, "line 3", "text_b", "other")),
        ("text_a: a\ntext_b: o\nscore: s\n", "a,o,s\nx,y,much\n", (Malformed, "much", "mine.csv:2")),
        ("text_a: a\ntext_b: o\nscore: s\n", "a,o,s\nx,y,1\nx,y,3\n", (Malformed, "pair 1")),
        ("text_a: a\ntext_b: o\nscore: s\n", "a,o,s\nx,,1\n", (Malformed, "mine.csv", 1)),
        ("text_a: a\ntext_b: o\nscore: s\npart: a\n", "a,o,s\nx,y,1\n", (Malformed, 0)),
        ("text_a: a\ntext_b: o\nscore: s\ngroups: score\n", "a,o,s\nx,y,1\n", (Invalid, "own")),
        ("turns: a\ntext_b: o\nscore: s\n", "a,o,s\n,y,1\n", (TooFew, "mine.csv:2")),
    ],
)
def test_a_fault_of_a_card_or_its_table_is_one_line(cards: Path, card: str, table: str, refusal: Refusal) -> None:
    (cards / "mine.csv").write_text(table, encoding="utf-8")
    (cards / "mine.yaml").write_text("pairs: mine.csv\n" + card, encoding="utf-8")
    assert refusal[0] is not Invalid or card_errors()
    with refused(*refusal):
        load_pairs("mine")


def test_turns_are_lines_or_a_list_in_json_and_may_begin_with_a_bracket(cards: Path) -> None:
    rows = [
        {"turns": ["Hallo", "Wer da?"], "other": "Wer ist da?", "score": 1},
        {"turns": '["Hallo", "Wer da?"]', "other": "Wer ist da?", "score": 1},
        {"turns": "[lacht]\nWer da?", "other": "Wer ist da?", "score": 1},
    ]
    (cards / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (cards / "mine.yaml").write_text("pairs: mine.jsonl\nturns: turns\ntext_b: other\nscore: score\n", encoding="utf-8")
    assert load_pairs("mine").rows["history"].tolist() == ["Hallo", "Hallo", "[lacht]"]


def test_a_part_without_pairs_is_refused_and_existing_parts_are_listed() -> None:
    records = pd.DataFrame({"text_a": ["a"], "text_b": ["b"], "score": [0.5]})
    task = make_pairs(PairCard(name="one"), records)
    assert len(select_pairs(task, "test").rows) == 1 and not has_history(task.rows)
    with refused(TooFew, "train", "test"):
        select_pairs(task, "train")


def test_the_data_version_follows_the_content() -> None:
    records = pd.DataFrame({"text_a": ["a", "c"], "text_b": ["b", "d"], "score": [0.5, 1]})
    version = make_pairs(PairCard(name="one"), records).data_version
    assert version == make_pairs(PairCard(name="one"), records.copy()).data_version
    assert version != make_pairs(PairCard(name="one"), records.assign(score=[0.5, 0.9])).data_version
