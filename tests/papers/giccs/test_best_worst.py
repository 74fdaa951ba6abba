"""Best-worst scaling: tuples that are drawn, and judgments that are read."""

from collections import Counter
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import Refusal, refused
from tests.giccs_like import simulate_judgments
from traube._core.errors import Conflict, Invalid, Malformed
from traube.metrics.correlation import spearman
from traube.papers.giccs.agreement import alpha, counting_scores, split_half
from traube.papers.giccs.best_worst import Columns, draw_tuples, read_expert, read_judgments, scores_table

HEADER = "annotator,item_1,item_2,item_3,best,worst\n"


def write(folder: Path, text: str, name: str = "answers.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@given(n=st.integers(3, 14), size=st.integers(2, 5), per_item=st.floats(0.3, 3), seed=st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_every_design_is_balanced_and_that_of_its_seed(n: int, size: int, per_item: float, seed: int) -> None:
    items, size = [f"i{i}" for i in range(n)], min(size, n)
    tuples = draw_tuples(items, size, per_item, seed=seed)
    assert len(tuples) == max(1, min(comb(n, size), round(per_item * n)))
    assert all(len(set(one)) == size for one in tuples)
    assert len({frozenset(one) for one in tuples}) == len(tuples)
    times = Counter(item for one in tuples for item in one)
    assert max(times[i] for i in items) - min(times[i] for i in items) <= 1
    assert tuples == draw_tuples(items, size, per_item, seed=seed)


@pytest.mark.parametrize(("n", "size", "per_item"), [(12, 9, 8), (12, 3, 8), (9, 6, 5), (6, 3, 1.7)])
def test_dense_designs_are_found_too(n: int, size: int, per_item: float) -> None:
    for seed in range(6):
        tuples = draw_tuples([f"i{i}" for i in range(n)], size, per_item, seed=seed)
        times = Counter(item for one in tuples for item in one).values()
        assert len({frozenset(one) for one in tuples}) == round(per_item * n) and max(times) - min(times) <= 1


def test_giccs_design_is_complete() -> None:
    tuples = draw_tuples(list("abcde"), 3)  # 2 N = 10 = C(5, 3)
    assert {frozenset(one) for one in tuples} == {frozenset(one) for one in combinations("abcde", 3)}
    assert set(Counter("".join("".join(one) for one in tuples)).values()) == {6}
    pairs = Counter(pair for one in tuples for pair in combinations(sorted(one), 2))
    assert set(pairs.values()) == {3}
    assert tuples != draw_tuples(list("abcde"), 3, seed=1)  # another order
    assert [tuple(sorted(one)) for one in tuples] != tuples  # and items are not shown in theirs


def test_items_meet_each_other_about_as_often() -> None:
    items = [f"i{i}" for i in range(40)]
    tuples = draw_tuples(items, 4, 2)
    met = Counter(frozenset(pair) for one in tuples for pair in combinations(one, 2))
    rng = np.random.default_rng(0)  # without balance: as many pairs, drawn at random
    random = Counter(frozenset(pair) for _ in tuples for pair in combinations(rng.choice(items, 4, False).tolist(), 2))
    ours, theirs = (sum(times > 1 for times in counts.values()) for counts in (met, random))
    assert ours < theirs / 3 and max(met.values()) <= 2 < max(random.values())


def test_a_thousand_items_are_no_trouble() -> None:
    tuples = draw_tuples([f"i{i}" for i in range(1_000)], 4, 2)
    assert set(Counter(item for one in tuples for item in one).values()) == {8}


@pytest.mark.parametrize(
    ("items", "size", "per_item", "refusal"),
    [
        (["a", "b", "a"], 2, 2, (Conflict, "a", 2)),
        (["a", "b"], 3, 2, (Invalid, 3, 2)),
        (["a", "b"], 1, 2, (Invalid, 1)),
        (["a", "b"], 2, 0, (Invalid, 0)),
        (["a", "b"], 2, float("nan"), (Invalid, 0)),
        (["a", "b"], 2, float("inf"), (Invalid, 0)),
    ],
)
def test_what_cannot_be_designed_is_refused(items: list[str], size: int, per_item: float, refusal: Refusal) -> None:
    with refused(*refusal):
        draw_tuples(items, size, per_item)


def test_each_faulty_row_is_reported_in_one_line_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        HEADER
        + "anna,a,b,c,a,c\n"  # line 2
        + "anna,a,b,d,a,a\n"
        + "anna,a,c,d,a,e\n"
        + "anna,b,c,d,,b\n"
        + "anna,b,c,e,b,\n"
        + "anna,c,b,a,c,a\n"  # line 7: the tuple of line 2
        + "anna,b,d,b,b,d\n"
        + "anna,b,,e,b,e\n"
        + ",a,d,e,a,e\n"
        + "ben,a,b,c,c,a\n"  # line 11
        + "ben,x,y,z,x,z\n",
    )
    tuples = [tuple(one) for one in combinations("abcde", 3)]
    answers = read_judgments([file], tuples=tuples)
    assert [fault.removeprefix(f"{file}:") for fault in answers.faults] == [
        "3: 'a' is best and worst at once",
        "4: 'e' (worst) is none of the tuple's items (a, c, d)",
        "5: the answer for 'best' is missing",
        "6: the answer for 'worst' is missing",
        f"7: 'anna' judged this tuple before, at {file}:2; the first counts",
        "8: the tuple shows 'b' twice",
        "9: an item of the tuple is missing",
        "10: the annotator is missing",
        "12: the tuple (x, y, z) is none of the design's",
    ]
    judged = answers.judgments
    assert len(judged) == 2 and judged.items == ("a", "b", "c")
    assert counting_scores(judged).tolist() == [0.5, 0.5, 0.5]


def test_sound_rows_have_no_faults_and_duplicates_are_found_across_files(tmp_path: Path) -> None:
    one = write(tmp_path, HEADER + "anna,a,b,c,a,c\n", "one.csv")
    other = write(tmp_path, HEADER + "ben,a,b,c,a,c\n", "other.csv")
    assert read_judgments([one, other]).faults == ()
    again = read_judgments([one, other, write(tmp_path, HEADER + "ben,c,b,a,b,c\n", "again.csv")])
    assert len(again.judgments) == 2 and "judged this tuple before" in again.faults[0]


def test_columns_may_have_other_names_and_ids_may_be_marked_as_texts(tmp_path: Path) -> None:
    file = write(tmp_path, "best,worst,option1\nhope,fear,dust\nfear,dust,milk\n", "anna.csv")
    columns = Columns(annotator=None, items=("best", "worst", "option1"))
    judged = read_judgments([file], columns).judgments
    assert judged.items == ("dust", "fear", "hope", "milk") and len(judged) == 2
    file = write(tmp_path, HEADER + "anna,'+a, b ,c,'+a,b\n")
    assert read_judgments([file]).judgments.items == ("+a", "b", "c")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("annotator,best,worst\nanna,a,b\n", (Malformed, "item_1", "item_2")),
        ("annotator,item_1,item_2,worst\nanna,a,b,b\n", (Malformed, "best")),
        (HEADER + "anna,a,b,c,a,a\n", (Malformed, 1)),
        ("", (Malformed,)),
    ],
)
def test_a_file_that_cannot_be_used_at_all_is_refused(tmp_path: Path, text: str, refusal: Refusal) -> None:
    with refused(*refusal):
        read_judgments([write(tmp_path, text)])


def test_tuples_of_several_sizes_are_refused(tmp_path: Path) -> None:
    three = write(tmp_path, HEADER + "anna,a,b,c,a,c\n")
    two = write(tmp_path, "annotator,item_1,item_2,best,worst\nanna,a,b,a,b\n", "two.csv")
    with refused(Malformed, 2, 3):
        read_judgments([three, two])


def test_the_table_of_scores_says_what_they_are_made_of(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + "anna,a,b,c,a,c\nben,a,b,c,a,b\n")
    judged = read_judgments([file]).judgments
    table = scores_table(judged, counting_scores(judged))
    assert table.to_dict("list") == {
        "item": ["a", "b", "c"],
        "score": [1.0, 0.25, 0.25],
        "best": [2, 0, 0],
        "worst": [0, 1, 1],
        "judgments": [2, 2, 2],
    }


def test_an_expert_says_yes_or_no(tmp_path: Path) -> None:
    assert read_expert(write(tmp_path, "item,above\na,yes\nb,No\n")) == {"a": True, "b": False}
    with refused(Malformed, ":3", "above", "maybe"):
        read_expert(write(tmp_path, "item,above\na,yes\nb,maybe\n"))
    with refused(Conflict, ":3", "a", "0.5"):
        read_expert(write(tmp_path, "item,above\na,yes\na,no\n"))


def test_from_design_to_scores_the_truth_is_found_again_the_better_the_less_noise(tmp_path: Path) -> None:
    truth = {f"i{i:02d}": i / 40 for i in range(40)}
    tuples = draw_tuples(list(truth), 4, 2)
    found = {}
    for noise in (0.0, 0.2, 2.0):
        file = tmp_path / f"{noise}.csv"
        simulate_judgments(truth, tuples, 5, noise).to_csv(file, index=False)
        judged = read_judgments([file], tuples=tuples).judgments
        found[noise] = (
            spearman(counting_scores(judged), list(truth.values())),
            alpha(judged),
            split_half(judged, 20).mean(),
        )
    assert found[0.0][1] == 1 and found[0.0][0] > 0.95  # eight tuples of four tell no more
    assert found[2.0][0] < min(found[0.2][0], found[0.0][0])  # (a little noise tells ties apart)
    for worse, better in ((2.0, 0.2), (0.2, 0.0)):
        assert found[worse][1:] < found[better][1:]
        assert found[worse][2] < found[better][2]
