"""`traube annotate`: from items to forms, and from answers to scores."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.giccs_like import simulate_judgments
from traube._cli.main import app
from traube.papers.giccs.annotation_sheets import draw_designs, read_items
from traube.papers.giccs.best_worst import read_design

Traube = Callable[..., Result]
TRUTH = dict(zip("abcde", (1.0, 0.75, 0.5, 0.25, 0.0), strict=True))


@pytest.fixture
def traube(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traube:
    """Call the command in a folder that holds the items of two dialogues."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"{d}{c}", f"text {c}", d, "3" if d == "d1" else "5") for d in ("d1", "d2") for c in TRUTH]
    with Path("items.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("item", "text", "group", "turns"), *rows])
    return lambda *arguments: CliRunner().invoke(app, ["annotate", *arguments])


def answer(name: str, noise: float, annotators: int = 5) -> None:
    """Answers of annotators who see the truth with some noise."""
    items = read_items(Path("items.csv"))
    simulate_judgments({item: TRUTH[item[-1]] for item in items}, draw_designs(items, 3), annotators, noise).to_csv(
        name, index=False
    )


def test_a_design_is_written_with_two_sheets_for_each_annotator(traube: Traube) -> None:
    result = traube("design", "items.csv", "--size", "3", "-n", "4", "--language", "de", "--best", "Am nächsten?")
    assert result.exit_code == 0, result.output
    assert "20 tuples of 3 of 10 items, 80 judgments by 4 annotators" in result.stdout
    assert len(read_design(Path("annotation/design.csv"))) == 20
    assert (
        len(list(Path("annotation").glob("annotator_*.html")))
        == len(list(Path("annotation").glob("annotator_*.csv")))
        == 4
    )
    form = Path("annotation/annotator_1.html").read_text()
    assert "Am nächsten?" in form and "am wenigsten ähnlich" in form


def test_scores_and_agreement_of_perfect_annotators_are_perfect(traube: Traube) -> None:
    answer("answers.csv", noise=0)
    result = traube("score", "answers.csv", "--items", "items.csv", "--by", "turns", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert [row["group"] for row in said["reliability"]] == ["all", "turns 3", "turns 5"]
    for row in said["reliability"]:
        assert row["alpha"] == row["strong_best"] == row["strong_worst"] == 1
        assert row["split_half"] == pytest.approx(1)
    with Path("scores.csv").open() as file:
        scores = {row["item"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == {f"{d}{c}": truth for d in ("d1", "d2") for c, truth in TRUTH.items()}


def test_the_first_faulty_rows_are_reported_all_are_written_to_a_file_and_the_rest_counts(traube: Traube) -> None:
    answer("answers.csv", noise=0.3)
    with Path("answers.csv").open("a") as file:
        file.write("eve,d1a,d2b,d1c,d1a,d1c\n" + "eve,d1a,d1b,d1c,d1a,d1a\n" * 15)
    traube("design", "items.csv", "--size", "3")
    result = traube("score", "answers.csv", "--design", "annotation/design.csv", "--repetitions", "2")
    assert result.exit_code == 0, result.output
    assert "answers.csv:102: the tuple (d1a, d2b, d1c) is none of the design's" in result.stderr
    assert "6 more rows, all in scores.faults.txt" in result.stderr
    assert len(Path("scores.faults.txt").read_text().splitlines()) == 16
    assert "100 judgments; scores written to scores.csv" in result.stdout


def test_the_curve_rises_and_an_expert_is_heard(traube: Traube) -> None:
    answer("answers.csv", noise=1.0, annotators=8)
    Path("expert.csv").write_text("item,above\nd1a,yes\nd1e,yes\n")
    said = json.loads(traube("score", "answers.csv", "--curve", "--expert", "expert.csv", "--json").stdout)
    assert [row["annotators"] for row in said["curve"]] == [1, 2, 4]
    rhos = [row["split_half"] for row in said["curve"]]
    assert rhos == sorted(rhos)
    assert [row["item"] for row in said["expert"]] == ["d1e"]
    corrected = json.loads(traube("score", "answers.csv", "--curve", "--spearman-brown", "--json").stdout)
    assert all(b["split_half"] > a["split_half"] for a, b in zip(said["curve"], corrected["curve"], strict=True))


def test_value_scores_and_their_halves_stand_beside_counts(traube: Traube) -> None:
    answer("answers.csv", noise=0.3)
    plain = json.loads(traube("score", "answers.csv", "--curve", "--repetitions", "3", "--json").stdout)
    counts = Path("scores.csv").read_text()
    assert "value" not in counts and "value_split_half" not in plain["reliability"][0]
    arguments = ("score", "answers.csv", "--curve", "--repetitions", "3", "--value")
    said = json.loads(traube(*arguments, "--json").stdout)
    with Path("scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(0 < float(row["value"]) < 1 for row in rows)
    without = [",".join(v for k, v in row.items() if k != "value") for row in rows]
    assert without == counts.splitlines()[1:]
    for before, after in zip(plain["reliability"] + plain["curve"], said["reliability"] + said["curve"], strict=True):
        assert after["value_split_half"] > 0 and {**after, **before} == after
    shown = traube(*arguments).stdout
    assert "split half (value)" in " ".join(shown.split()) and "compliance: annotators order" in shown


def test_a_file_that_cannot_be_used_does_not_take_the_others_along(traube: Traube) -> None:
    """A German spreadsheet writes semicolons; the design lies beside the answers; one file is no text."""
    answer("answers.csv", noise=0)
    Path("semicolons.csv").write_text(
        "\ufeff" + Path("answers.csv").read_text().replace(",", ";").replace("simulated", "s")
    )
    Path("binary.csv").write_bytes(b"annotator,item_1,item_2,best,worst\n\0\xfc")
    traube("design", "items.csv", "--size", "3")
    result = traube("score", "answers.csv", "semicolons.csv", "binary.csv", "annotation/design.csv")
    assert result.exit_code == 0, result.output
    reported = " ".join(result.stderr.split())
    assert "binary.csv:2: " in reported and "'best'" in reported
    assert "200 judgments" in result.stdout and "all 10 20 10 200" in " ".join(result.stdout.split())


def test_judgments_that_are_in_no_group_are_counted(traube: Traube) -> None:
    answer("answers.csv", noise=0)
    Path("halves.csv").write_text(
        "item,half\n" + "".join(f" d{d}{c} ,{'x' if c in 'abc' else 'y'}\n" for d in (1, 2) for c in TRUTH)
    )
    result = traube("score", "answers.csv", "--items", "halves.csv", "--by", "half")
    assert "--by half: 90 judgments of tuples whose items have several values of it" in " ".join(result.stderr.split())
    assert "half x" in result.stdout and "half y" not in result.stdout


def test_other_names_of_columns_and_tuples_judged_once(traube: Traube) -> None:
    Path("trials.csv").write_text("who,best,worst,other\nanna,hope,fear,dust\nben,milk,mud,dust\n")
    result = traube("score", "trials.csv", "--columns", "annotator=who,items=best+worst+other")
    assert result.exit_code == 0, result.output
    assert "alpha and strong agreement need tuples that several annotators judged" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["design", "items.csv", "--language", "xx"], "unknown language 'xx'"),
        (["score", "items.csv", "--columns", "bset=a"], "expected best=, worst="),
        (["score", "answers.csv", "--by", "turns"], "give the items' table too"),
        (["score", "answers.csv", "--by", "trns", "--items", "items.csv"], "did you mean turns?"),
    ],
)
def test_what_cannot_be_done_is_one_line(traube: Traube, arguments: list[str], said: str) -> None:
    answer("answers.csv", noise=0)
    result = traube(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr and "Traceback" not in result.output
