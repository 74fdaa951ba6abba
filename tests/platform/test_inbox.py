"""Texts that are put into an inbox are assigned by the champion, once, and days that are unlike others are an alert."""

import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.alerts import read_alerts
from tests.platform.conftest import evaluate_tick, sensor_of, word_rows
from traube._cli.main import app
from traube._core import paths
from traube._grouping.assigned import COLUMNS, read_assigned, read_day
from traube._grouping.days import read_verdicts
from traube._reports.days_page import locate_days_page
from traube._storage import Storage

pytestmark = pytest.mark.begin_with("published")
TODAY = datetime.now(UTC).date()


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAUBE_INBOX", str(tmp_path / "inbox"))
    (tmp_path / "inbox" / "words").mkdir(parents=True)
    return tmp_path / "inbox" / "words"


def ago(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


def write(path: Path, rows: list[tuple[str, str]], first: int = 40) -> None:
    """Write texts with their days; the file's date says where the partitions begin."""
    path.write_text(pd.DataFrame(rows, columns=["when", "text"]).to_csv(index=False))
    moment = datetime.combine(TODAY - timedelta(days=first), datetime.min.time(), UTC).timestamp() + 43_200
    os.utime(path, (moment, moment))


def usual(days: range) -> list[tuple[str, str]]:
    """Texts like those of `words`, some on each day."""
    rows = word_rows()
    return [(ago(day), f"{rows[(7 * i + day) % 60][0]} n{day}x{i}") for day in days for i in range(20)]


class Daemon:
    """Dagster's daemon, as far as one sensor goes: it keeps the cursor and runs what is requested."""

    def __init__(self, launcher: DagsterLauncher) -> None:
        self.launcher, self.cursor = launcher, ""
        self.definitions = build_defs()

    def tick(self) -> Any:
        context = dg.build_sensor_context(self.launcher.instance, cursor=self.cursor)
        result = evaluate_tick(sensor_of(self.definitions, "new_texts"), context)
        self.cursor = result.cursor
        return result

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def("assign").execute_in_process(
            instance=self.launcher.instance,
            run_config=request.run_config,
            partition_key=request.partition_key,
            asset_selection=request.asset_selection,
            tags=dict(request.tags),
            raise_on_error=False,
        )

    def settle(self) -> list[dg.RunRequest]:
        """Tick until nothing is requested; return what was."""
        done: list[dg.RunRequest] = []
        for _ in range(6):
            requests = self.tick().run_requests or []
            assert not {request.run_key for request in requests} & {request.run_key for request in done}
            assert all(self.run(request).success for request in requests)
            done += requests
        return done


def name_keys(requests: list[dg.RunRequest]) -> list[tuple[str, str]]:
    """The asset and the day of each request."""
    return [
        (
            request.asset_selection[0].path[-1],
            request.partition_key or request.tags["dagster/asset_partition_range_start"],
        )
        for request in requests
        if request.asset_selection
    ]


@pytest.mark.slow
def test_new_texts_are_assigned_once_and_a_drift_is_one_alert(
    launcher: DagsterLauncher, inbox: Path, storage: Storage
) -> None:
    params = paths.params()
    params.write_text(params.read_text() + "inbox: {words: {day: when, text: text}}\n")
    write(inbox / "a.csv", usual(range(32, 0, -1)))
    daemon = Daemon(launcher)
    assert not daemon.tick().run_requests  # somebody may be writing it still
    (request,) = daemon.tick().run_requests
    assert name_keys([request]) == [("assigned", ago(32))]  # one run for the whole month
    assert daemon.tick().run_requests[0].run_key == request.run_key  # which Dagster drops
    assign = daemon.definitions.resolve_job_def("assign")
    begun = launcher.instance.create_run_for_job(assign, status=dg.DagsterRunStatus.STARTED, tags=request.tags)
    assert not daemon.tick().run_requests  # a run that is at work may store it
    launcher.instance.report_run_failed(begun)
    assert daemon.run(request).success
    texts = pd.read_parquet(storage.get_table_path("assigned/words"))
    assert len(texts) == 640 and texts["day"].nunique() == 32 and set(texts) == {*COLUMNS}
    days = read_assigned(storage, "words")
    assert [*days] == [ago(day) for day in range(32, 0, -1)] and sum(one.texts for one in days.values()) == 640
    judged = daemon.tick().run_requests
    assert name_keys(judged) == [("drift", ago(day)) for day in range(30, 0, -1)]
    for request in judged[-2:]:
        assert daemon.run(request).success
    assert not read_alerts() and not read_verdicts(storage, "words")[ago(1)].drifts

    strange = [(ago(0), f"{topic} dividend invoice statement {i}") for i in range(15) for topic in ("tax", "visa")]
    write(inbox / "b.csv", [*strange, *usual(range(1, 0, -1))])  # yesterday's come twice
    daemon.tick()
    (request,) = [r for r in daemon.tick().run_requests if r.asset_selection[0].path[-1] == "assigned"]
    assert daemon.run(request).success
    assert read_assigned(storage, "words")[ago(1)].texts == 20
    today = read_assigned(storage, "words")[ago(0)]
    table = read_day(storage, today)
    assert today.texts == 30 and not table["fits"].any()
    assert (ago(0), "drift") not in name_keys(daemon.tick().run_requests or [])  # the day is not over
    for _ in range(2):
        result = daemon.run(dg.RunRequest(partition_key=ago(0), asset_selection=[dg.AssetKey(["words", "drift"])]))
        assert result.success
    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    (alert,) = read_alerts()
    assert alert["key"] == f"drift words {ago(0)}" and "100.0%" in alert["details"][0]
    assert "dividend" in locate_days_page("words", paths.home()).read_text()


@pytest.mark.slow
def test_a_source_that_cannot_be_read_is_one_alert_and_the_others_are_assigned(
    launcher: DagsterLauncher, inbox: Path, storage: Storage
) -> None:
    (inbox / "good.txt").write_text("apple pear fruit\nowl robin birds\n")
    (inbox / "bad.csv").write_text("text\n")
    (inbox.parent / "nothing").mkdir()
    daemon = Daemon(launcher)
    daemon.tick()
    result = daemon.tick()
    assert [request.run_config["ops"]["words__assigned"]["config"]["sources"] for request in result.run_requests] == [
        ["good.txt"]
    ]
    assert daemon.run(result.run_requests[0]).success
    assert "nothing" in daemon.tick().skip_reason.skip_message
    (alert,) = read_alerts()
    assert "bad.csv" in alert["details"][0]
    (one,) = read_assigned(storage, "words").values()
    found = read_day(storage, one)
    assert found["text"].tolist() == ["apple pear fruit", "owl robin birds"] and found["fits"].all()
    # the same groups as by the command, which is the way of a batch
    (inbox / "good.txt").rename(inbox.parent / "good.txt")
    done = CliRunner().invoke(app, ["cluster", str(inbox.parent / "good.txt"), "--champion", "words", "--noise"])
    assert done.exit_code == 0, done.output
    assert pd.read_csv(inbox.parent / "good.txt.clusters.csv")["group"].tolist() == found["cluster"].tolist()


@pytest.mark.slow
def test_a_database_gives_the_texts_and_gets_their_groups(
    launcher: DagsterLauncher, tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_INBOX", str(tmp_path / "inbox"))
    monkeypatch.setenv("TICKETS", f"sqlite:///{tmp_path / 'tickets.db'}")
    engine = sa.create_engine(os.environ["TICKETS"])
    rows = pd.DataFrame(usual(range(2, 0, -1)), columns=["when", "body"])
    rows.to_sql("tickets", engine, index=False)
    settings = f"{{database: TICKETS, table: tickets, text: body, day: when, since: {ago(9)}, assigned: grouped}}"
    paths.params().write_text(f"{paths.params().read_text()}inbox: {{words: {settings}}}\n")
    daemon = Daemon(launcher)
    assert name_keys(daemon.settle()) == [("assigned", ago(2)), ("drift", ago(2)), ("drift", ago(1))]
    grouped = pd.read_sql_table("grouped", engine)
    assert sorted(grouped["text"]) == sorted(rows["body"]) and grouped["cluster"].nunique() == 3
    rows.assign(when=ago(1), body=rows["body"] + " again").head(3).to_sql(
        "tickets", engine, index=False, if_exists="append"
    )
    assert name_keys(daemon.settle())[0] == ("assigned", ago(2))
    assert len(pd.read_sql_table("grouped", engine)) == 43


def test_a_task_without_a_champion_waits_and_one_without_an_inbox_has_no_assets(
    launcher: DagsterLauncher, inbox: Path, cards: Path
) -> None:
    (cards / "other.csv").write_text("text,topic\nbread,a\nsoup,b\n")
    (cards / "other.yaml").write_text("file: other.csv\ntext: text\nlabels: topic\n")
    (inbox.parent / "other").mkdir()
    (inbox.parent / "other" / "a.txt").write_text("bread\n")
    daemon = Daemon(launcher)
    keys = {key.to_user_string() for key in daemon.definitions.resolve_all_asset_keys()}
    assert {"words/assigned", "other/drift"} <= keys
    daemon.tick()
    result = daemon.tick()
    assert not result.run_requests and "other" in result.skip_reason.skip_message
    for folder in (inbox, inbox.parent / "other"):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert not [key for key in build_defs().resolve_all_asset_keys() if key.path[-1] in ("assigned", "drift")]
    assert "new_texts" not in {sensor.name for sensor in build_defs().sensors or []}


def test_partitions_begin_with_the_first_text_and_hold_today(launcher: DagsterLauncher, inbox: Path) -> None:
    write(inbox / "a.csv", usual(range(3, 2, -1)), first=3)
    (asset,) = [
        asset
        for asset in build_defs().resolve_asset_graph().asset_nodes
        if asset.key == dg.AssetKey(["words", "drift"])
    ]
    assert asset.partitions_def is not None
    keys = asset.partitions_def.get_partition_keys()
    assert keys[0] == ago(3) and keys[-1] >= ago(0)
    assert json.loads(json.dumps(keys)) == keys and date.fromisoformat(keys[0])
