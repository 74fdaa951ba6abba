"""The command line as a person uses it."""

import csv
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import Result

from tests.errors import check_names
from tests.made import damage_blob
from tests.platform.conftest import PARAMS, TOPICS, word_rows, write_task
from tests.waiting import wait_for
from traube._cli.recommend import with_column
from traube._reports.tables import tables_are_current
from traube._storage import CellRow, TaskRow, open_storage

Traube = Callable[..., Result]
MOJIBAKE = ("GrÃ¼ne Ã„pfel fÃ¼r den Garten", "fruit")


def in_a_line(text: str) -> str:
    return " ".join(text.split())


def write_notes(path: Path, rows: list[tuple[str, str]]) -> Path:
    """A file with a text in each line."""
    path.write_text("\n".join(text for text, _ in rows))
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_where_the_benchmark_is_not_here_ones_own_task_is_named(
    traube: Traube, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cards.parent / "params.yaml").write_text(PARAMS.replace("tasks: [words]", "tasks: [tenkgnad_p2p]"))
    monkeypatch.setenv("TRAUBE_RAW", str(cards / "no_raw"))
    assert "`traube run -t words`" in in_a_line(traube("run").output)
    (cards.parent / "params.yaml").write_text(PARAMS)
    (cards / "words.csv").unlink()
    assert traube("run").exit_code == 1  # nothing is available


def test_run_computes_what_is_missing_then_nothing(traube: Traube) -> None:
    first = traube("run")
    assert first.exit_code == 0, first.output
    assert "Reading words" in first.stdout
    assert "Evaluating bow: 6 cells on words" in first.stdout

    second = traube("run")
    assert second.exit_code == 0
    assert "Nothing is missing: 6 cells up to date." in second.stdout

    plan = traube("run", "--dry-run", "--seed", "42", "--seed", "7")
    # agglomerative on the vectors as they are has nothing random in it: no second seed
    assert "4 of 10 cells missing" in plan.stdout
    assert "to compute: less than a minute" in plan.stdout
    assert "pca/hdbscan seed 7" in plan.stdout

    board = json.loads(traube("leaderboard", "--format", "json").stdout)
    best = [row for row in board if row["best"]]
    assert [(row["task"], row["level"], row["model"]) for row in best] == [("words", "topic", "bow")]
    assert "words, topic" in traube("leaderboard").stdout
    assert len(list(csv.DictReader(traube("leaderboard", "--all", "--format", "csv").stdout.splitlines()))) == 6
    assert "acc/noise_as_cluster" in traube("leaderboard", "--metric", "acc/noise_as_cluster").stdout

    requested = traube("run", "--task", "words")  # of a task that is named, its last words are the answer
    answer = in_a_line(requested.stdout)
    assert "bow with" in answer and "no other model is scored on it" in answer
    again = traube("recommend", "words")
    said, left_out, command = again.stdout.splitlines()  # none is wrapped: commands in them can be copied
    assert left_out.startswith("Not compared, of the models made for ")
    assert command.startswith("To group new texts in this way: traube cluster FILE --model bow --method ")
    assert requested.stdout.splitlines()[-3:] == [said, left_out, command]
    assert json.loads(traube("recommend", "words", "--json").stdout)["model"] == "bow"

    costs = json.loads(traube("leaderboard", "--all", "--cost", "--format", "json").stdout)
    priced = {row["method"]: row for row in costs}
    assert priced["pca/agglomerative"]["seconds"] > priced["pca/agglomerative"]["encoding"] > 0
    assert "encode, s" in traube("leaderboard", "--cost").stdout
    page = Path(traube("report", "words", "--print").stdout.strip())
    assert page.name == "words.html" and "pca/agglomerative" in page.read_text()
    missing = traube("report", "wrods", "--print")
    assert missing.exit_code == 1 and "words" in missing.stderr

    origin = json.loads(traube("provenance", "words", "bow", "none/agglomerative", "--json").stdout)
    assert origin[0]["seed"] is None
    assert {"fingerprint", "data_version", "code_version", "library_versions", "run_id"} <= set(origin[0])


def test_the_command_for_new_texts_names_the_column_of_the_card(cards: Path) -> None:
    (cards / "tickets.csv").write_text("the body,topic\na,b\n")
    (cards / "tickets.yaml").write_text("file: tickets.csv\ntext: the body\nlabels: topic\n")
    assert with_column("traube cluster FILE", "tickets") == "traube cluster FILE --text 'the body'"
    for task in ("words", "pydocs_s2s", "gone"):  # a column `text`, no card, no task
        assert with_column("traube cluster FILE", task) == "traube cluster FILE"


@pytest.mark.slow
def test_tables_of_tasks_that_a_run_did_not_touch_are_left_alone(traube: Traube, cards: Path, home: Path) -> None:
    assert traube("run", "--method", "none/agglomerative").exit_code == 0
    assert (home / "report" / "index.html").exists()
    assert not (home / "papers").exists()  # made of the papers' own tasks
    # whatever this changes: all is rebuilt
    (cards.parent / "params.yaml").write_text(f"graph: all\n{PARAMS}    seeds: [7]\n")
    assert traube("run", "--method", "none/agglomerative").exit_code == 0
    assert (home / "papers" / "german" / "table_2.csv").exists()


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_raw_data_that_changed_is_read_and_evaluated_again(traube: Traube, cards: Path) -> None:
    write_task(cards, "words", word_rows()[:50])
    again = traube("run", "--method", "none/agglomerative")
    assert "Reading words" in again.stdout
    assert "Evaluating bow: 1 cell on" in again.stdout
    board = json.loads(traube("leaderboard", "--format", "json").stdout)
    assert len(board) == 1  # the old data's row is history


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_damage_is_found_and_the_next_run_mends_it(traube: Traube, cards: Path, home: Path) -> None:
    write_task(cards, "others", word_rows()[:-3])  # blobs of equal tables are one
    tasks = ["--task", "words", "--task", "others"]
    assert traube("run", *tasks).exit_code == 0
    before, storage = leaderboard(traube), open_storage(home)
    cells, (task,) = storage.read_rows(CellRow, task="words"), storage.read_rows(TaskRow, name="others")
    for blob in (cells[0].blob, cells[1].blob, task.files["corpus"]):
        damage_blob(storage, blob)

    assert leaderboard(traube) == before  # the catalog is as it was
    examined = traube("doctor", "--json")
    wrong = [row for row in json.loads(examined.stdout) if row["check"] == "storage"]
    assert examined.exit_code == 1
    assert len(wrong) == 3 and all("`traube run`" in row["finding"] for row in wrong)
    assert len(leaderboard(traube)) == 10
    found = in_a_line(traube("run", "--dry-run", *tasks).stdout)
    assert "read others" in found and "2 of 6 cells missing" in found

    mended = traube("run", *tasks)
    assert mended.exit_code == 0, mended.output
    assert "Reading others" in mended.stdout
    assert "Evaluating bow: 2 cells on words" in mended.stdout
    assert leaderboard(traube) == before
    assert open_storage(home).verify() == []
    assert "Nothing is missing" in traube("run", *tasks).stdout


@pytest.mark.begin_with("published")
def test_a_catalog_that_is_lost_is_made_again(traube: Traube, home: Path) -> None:
    before = leaderboard(traube)
    assert "The catalog is made again." in traube("rebuild").stdout
    assert leaderboard(traube) == before and before


def leaderboard(traube: Traube) -> dict[tuple[str, str], tuple[float, ...]]:
    """Each method's score and interval, by task and method."""
    rows = json.loads(traube("leaderboard", "--all", "--format", "json").stdout)
    return {(row["task"], row["method"]): (row["mean"], row["low"], row["high"]) for row in rows}


@pytest.mark.begin_with("published")
def test_a_leaderboard_that_is_gone_or_damaged_is_rebuilt(traube: Traube, home: Path) -> None:
    tables = home / "tables"
    before = (tables / "leaderboard.csv").read_text()
    for name in ("leaderboard.parquet", "leaderboard.csv", "leaderboard.json", "published.json"):
        content = (tables / name).read_bytes()
        (tables / name).write_bytes(content[:50] + b"?" + content[51:])
        assert not tables_are_current(open_storage(home))
        (tables / name).unlink()
        assert not tables_are_current(open_storage(home))
    assert traube("run").exit_code == 0
    assert (tables / "leaderboard.csv").read_text() == before
    assert tables_are_current(open_storage(home))
    assert "Nothing is missing" in traube("run").stdout


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_a_paper_that_could_not_be_published_is_tried_again(traube: Traube, cards: Path, home: Path) -> None:
    (cards.parent / "params.yaml").write_text(f"graph: all\n{PARAMS}")
    (home / "tables" / "published.json").unlink()
    shutil.rmtree(home / "papers", ignore_errors=True)
    (home / "papers").write_text("in the way")
    assert traube("run").exit_code == 1
    (home / "papers").unlink()
    assert traube("run").exit_code == 0
    assert "Nothing is missing" in traube("run").stdout


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_a_faulty_task_fails_with_its_check_and_exit_code_and_takes_no_answer_from_others(
    traube: Traube, cards: Path
) -> None:
    write_task(cards, "dull", [(text, "one") for text, _ in word_rows()])
    result = traube("run", "-t", "dull", "-t", "words")
    assert result.exit_code == 1
    assert "the blocking check 'two_classes' failed" in in_a_line(result.stderr)
    assert "does best on words" in result.stdout and "does best on dull" not in result.stdout


@pytest.mark.slow
def test_the_table_of_the_shortest_texts_is_shown_while_others_are_computed(traube: Traube, cards: Path) -> None:
    write_task(cards, "longer", [(f"{text} and some more words", topic) for text, topic in word_rows()])
    (cards.parent / "params.yaml").write_text(PARAMS.replace("[words]", "[longer, words]"))
    said = traube("run").stdout
    places = [said.index(part) for part in ("cells on words", "words, topic: v_measure", "cells on longer")]
    assert places == sorted(places)
    assert "longer, topic" not in said


@pytest.mark.slow
def test_a_check_that_blocks_from_now_on_takes_the_answer_away(traube: Traube, cards: Path) -> None:
    twice = [*word_rows(), *word_rows()[:2]]
    command = ["run", "-t", "words", "-m", "bow", "-m", "tfidf", "--method", "none/agglomerative"]
    write_task(cards, "words", twice)
    assert "bow" in traube(*command).stdout
    write_task(cards, "words", twice, "blocking: [texts_once]\n")
    assert traube(*command).exit_code == 1
    for again in (command, [*command, "-m", "lsa"]):  # with nothing to compute, and with something
        result = traube(*again)
        assert result.exit_code == 1
        assert result.output.count("words/splits: the blocking check 'texts_once' failed") == 1
        assert "better" not in result.stdout and "first" not in result.stdout and "best:" not in result.stdout
    assert "the blocking check 'texts_once' failed" in traube("recommend", "words").stderr
    write_task(cards, "words", twice)
    assert traube(*command).exit_code == 0
    write_task(cards, "holes", [*word_rows(), MOJIBAKE], "blocking: [no_mojibake]\n")
    assert traube("run", "-t", "holes", "-m", "bow").exit_code == 1
    assert "no_mojibake" in traube("leaderboard", "-t", "holes").stderr  # though it was never scored


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_scores_of_earlier_data_are_marked_while_a_check_stops_what_is_there_now(traube: Traube, cards: Path) -> None:
    assert "earlier data" not in traube("leaderboard").stdout
    write_task(cards, "words", [*word_rows(), MOJIBAKE], "blocking: [no_mojibake]\n")
    assert traube("run").exit_code == 1
    assert "of earlier data" in in_a_line(traube("leaderboard").stdout)
    best = traube("recommend", "words")
    assert best.exit_code == 1 and "`traube run -t" in in_a_line(best.stderr)


def test_a_home_that_cannot_be_written_is_said_so(traube: Traube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_HOME", "/dev/null/traube")  # not even root can write there
    result = traube("run")
    assert (result.exit_code, len(result.stderr.strip().splitlines())) == (1, 1)
    assert check_names(result.stderr, "/dev/null/traube", "TRAUBE_HOME")


@pytest.mark.slow
def test_texts_without_labels_are_grouped_and_described(traube: Traube, tmp_path: Path) -> None:
    cluster = ("cluster", str(write_notes(tmp_path / "notes.txt", word_rows())), "--model", "bow")
    result = traube(*cluster, "-k", "3")
    assert result.exit_code == 0, result.output
    assert all(topic in result.stdout for topic in TOPICS)
    assert "no score with -k" in result.stdout
    rows = read_table(tmp_path / "notes.txt.clusters.csv")
    assert len(rows) == 60
    assert list(rows[0]) == ["text", "group", "name", "distance", "stability", "path"]
    assert len({row["group"] for row in rows}) == len({row["name"] for row in rows}) == 3
    assert all(float(row["distance"]) >= 0 and 0 <= float(row["stability"]) <= 1 for row in rows)

    assert "clear groups (score" in traube(*cluster).stdout
    reported = json.loads(traube(*cluster, "--noise", "--json").stdout)
    assert sum(group["texts"] for group in reported["groups"]) + reported["noise"] == 60
    assert reported["strays"] == 0 and reported["score"] > 0.3 and len(reported["groups"]) in reported["about_as_good"]
    assert "k was chosen by silhouette" in traube(*cluster, "--method", "none/kmeans").stdout


def test_texts_join_groups_that_are_there(traube: Traube, tmp_path: Path) -> None:
    notes, labeled = write_notes(tmp_path / "notes.txt", word_rows()), tmp_path / "labeled.csv"
    with labeled.open("w", newline="") as written:
        csv.writer(written).writerows([("text", "topic"), *word_rows()])
    cluster = ("cluster", str(notes), "--like", str(labeled), "--group", "topic")
    result = traube(*cluster, "-m", "tfidf")
    assert result.exit_code == 0, result.output
    names = [row["name"] for row in read_table(tmp_path / "notes.txt.clusters.csv")]
    assert names == [topic for _, topic in word_rows()]
    refused = traube(*cluster, "-k", "3", "--seed", "1")
    assert "--like" in refused.stderr and "-k, --seed" in refused.stderr


def test_where_nothing_is_grouped_or_written_the_reason_is_said(traube: Traube, tmp_path: Path) -> None:
    file = write_notes(tmp_path / "few.txt", word_rows()[:12])
    alone = traube("cluster", str(file), "-m", "bow", "--method", "pca/hdbscan")
    assert "all 12 texts are noise (group -1)" in in_a_line(alone.stdout)
    file.write_text("a cat\ncat a\na cat.\na cat!\ncat, a\ncat: a\n")  # other texts, and the same words
    alike = traube("cluster", str(file), "-m", "bow", "-k", "3")
    assert "3 groups requested, 1 found" in in_a_line(alike.stdout)
    result = json.loads(traube("cluster", str(file), "-m", "bow", "-k", "3", "--json").stdout)
    assert (result["k_given"], result["score"], len(result["groups"])) == (3, None, 1)
    table = tmp_path / "notes.csv"
    table.write_text("area,body\nfood,bread\n,ship\nsea,ship\nfood,\n")
    before = table.read_bytes()
    over = traube("cluster", str(table), "--text", "body", "-m", "bow", "-o", str(table))
    assert over.exit_code == 1 and table.read_bytes() == before
    put = traube("cluster", str(table), "--text", "body", "-m", "tfidf", "--like", str(table), "--group", "area")
    assert "notes.csv: 2 of 4 rows left out" in in_a_line(put.stderr)
    assert "1 of 4 texts is empty" in in_a_line(put.stdout)


def test_nobody_else_reads_the_home(traube: Traube, home: Path) -> None:
    home.chmod(0o755)  # as older versions left it
    assert traube("tasks", "--json").exit_code == 0
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_texts_of_others_command_neither_the_terminal_nor_the_spreadsheet(traube: Traube, tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    with file.open("w", newline="") as written:
        csv.writer(written).writerows([("text",), *((f"=1+1 \x1b[2J\x9b {text}",) for text, _ in word_rows())])
    result = traube("cluster", str(file), "--model", "bow", "-k", "3")
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\x9b"} & set(result.stdout)
    assert r"=1+1 \x1b[2J\x9b" in result.stdout
    written = read_table(tmp_path / "notes.csv.clusters.csv")
    assert all(row["text"].startswith("'=1+1 \x1b[2J\x9b ") for row in written)

    unknown = traube("leaderboard", "--task", "\x1b[2J\u202e")
    assert r"\x1b[2J\u202e" in unknown.stderr
    assert not {"\x1b", "\u202e"} & set(unknown.stderr)


@pytest.mark.slow
def test_a_task_without_labels_is_scored_by_its_silhouette(traube: Traube, cards: Path) -> None:
    write_task(cards, "words", word_rows())
    (cards / "words.yaml").write_text("file: words.csv\ntext: text\nclusters: 3\n")
    run = traube("run", "--task", "words", "--method", "none/minibatch_kmeans")
    assert run.exit_code == 0 and "`traube cluster` groups its texts" in run.stdout
    board = json.loads(traube("leaderboard", "--format", "json").stdout)
    assert [row["metric"] for row in board] == ["silhouette"]
    table = in_a_line(traube("leaderboard").stdout)
    assert "so models have no ranks" in table and "rank: the ranks" not in table


def test_what_goes_to_a_file_is_not_cut_to_the_width_of_a_terminal(traube: Traube, tmp_path: Path, monkeypatch) -> None:
    long = " of a very long text that does not fit half of a terminal"
    (tmp_path / "notes.txt").write_text("\n".join(text + long for text, _ in word_rows()))
    arguments = ("cluster", str(tmp_path / "notes.txt"), "-m", "tfidf")
    assert long not in traube(*arguments).output
    monkeypatch.delenv("COLUMNS")
    assert long in traube(*arguments).output


@pytest.mark.slow
def test_tables_fit_eighty_columns_and_cut_no_name_and_json_has_what_had_no_room(traube: Traube, cards: Path) -> None:
    methods = ["none/hdbscan", "pca/agglomerative_average", "none/agglomerative_cosine"]
    assert traube("run", *(word for method in methods for word in ("--method", method))).exit_code == 0
    shown = {
        "leaderboard": ["bow", "best method"],
        "leaderboard --all": ["bow", *methods],
        "methods": ["agglomerative_average", "cluster_selection_method=eom", "`traube methods --all`"],
        "methods --all": ["pca+umap/agglomerative_cosine"],
        "models": ["paraphrase_multilingual_mpnet_base_v2", "to be downloaded"],
        "models gbert_base": ["deepset/gbert-base", "Chan et al."],
        "tasks": ["words", "not here"],
        "tasks tenkgnad_s2s_mteb": ["slvnwhrl/tenkgnad-clustering-s2s", "downloads it"],
        "trainers": ["cob", "splits"],
        "trainers cob": ["epochs", "passes over the examples"],
        "provenance words bow": methods,
        "run --dry-run": ["none/agglomerative"],
        "doctor": ["params.yaml"],
    }
    for command, names in shown.items():
        text = traube(*command.split()).stdout
        assert max(map(len, text.splitlines())) <= 80, command
        assert [name for name in names if name not in text] == []
    assert "1 method makes no sense" in traube("leaderboard").stdout
    assert "no room for: revision, source" in traube("models").stdout
    models = {row["model"]: row for row in json.loads(traube("models", "--json").stdout)}
    assert models["minilm"]["status"] == "ready" and {"revision", "source"} <= models["minilm"].keys()
    assert "none/hdbscan" in traube("methods", "--json").stdout


def test_version_and_short_help(traube: Traube) -> None:
    assert traube("--version").stdout == f"traube {version('traube')}\n"
    assert traube("run", "-h").stdout == traube("run", "--help").stdout


def test_the_doctor_finds_nothing_wrong_here_and_says_what_is_elsewhere(
    traube: Traube, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = traube("doctor", "--json")
    assert healthy.exit_code == 0, healthy.output
    assert check_names(healthy.stdout, "antlr", "processes of this machine")
    monkeypatch.setenv("TRAUBE_ENGINE", "dask")
    ill = traube("doctor", "--json")
    assert ill.exit_code == 1 and "'dask'" in ill.stdout


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("promote {file}", "task with a registered model 'tickets'"),
        ("rollback {file}", "task with a registered model 'tickets'"),
        ("train cob {file}", "tickets has no"),
        ("tune cob {file}", "tickets has no"),
        ("sweep aecl_sensitivity -t {file} -m tfidf", "unknown sweep 'aecl_sensitivity'"),
    ],
)
def test_commands_of_the_platform_take_a_file_for_a_task(
    traube: Traube, tmp_path: Path, command: str, answer: str
) -> None:
    file = tmp_path / "tickets.csv"
    file.write_text("text\n" + "".join(f"a question about {topic} no. {i}\n" for i in range(8) for topic in TOPICS))
    output = in_a_line(traube(*command.format(file=file).split()).output)
    assert "task tickets, card" in output and answer in output


@pytest.mark.e2e
def test_a_first_run_shows_no_librarys_warning_and_verbose_shows_dagsters_log(cards: Path, home: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", "traube._cli", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    notes = write_notes(cards.parent / "notes.txt", word_rows())
    for arguments in (["run"], ["leaderboard"], ["cluster", str(notes), "-m", "minilm"]):
        assert command(*arguments).stderr == ""
    made = command("init")
    assert (made.stdout, made.stderr) == ("", "")
    assert (home / "checkpoints").is_dir()
    log = command("run", "--method", "none/kmeans", "--verbose").stderr
    assert "STEP_START" in log and "words__scores" in log


@pytest.mark.e2e
@pytest.mark.begin_with("read")
@pytest.mark.usefixtures("two_workers", "traube")
def test_ctrl_c_loses_only_what_is_in_flight_and_is_no_failure(cards: Path, home: Path) -> None:
    long = "    parameters: {umap: {n_epochs: 80000}}\n"  # so that the others are finished and UMAP is not
    (cards.parent / "params.yaml").write_text(PARAMS.replace("[none, pca]", "[none, pca, umap]") + long)
    command = [sys.executable, "-m", "traube._cli", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    storage = open_storage(home)
    wait_for(lambda: len(storage.find_clustered("words", ())) >= 4, "the first clusterings")
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "the same command continues from there" in in_a_line(errors)
    kept = storage.find_clustered("words", ())
    assert 4 <= len(kept) < 8

    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        run = next(run for run in instance.get_runs() if run.job_name == "evaluate")
        assert run.status == dg.DagsterRunStatus.CANCELED

    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Evaluating bow" in again.stdout
    assert (open_storage(home).read_cells()["status"] == "done").sum() == 8
