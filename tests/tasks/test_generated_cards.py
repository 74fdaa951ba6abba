"""Cards that commands write: one for each file or model, however many ask at once, and whole whatever befalls them."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest
from typer.testing import CliRunner

from tests.errors import refused
from traube._cli.main import app
from traube._core import paths
from traube._core.errors import Invalid
from traube._core.generated_cards import RECORD, restore_cards
from traube.models.naming import forget_model, name_model
from traube.tasks import card_errors, get_source, own_tasks
from traube.tasks.files import make_task_of

TABLE = "body,area\none text,a\nanother text,b\na third text,a\n"
# between its look-up and its card each process takes its time, so that without a lock all would have looked before
FIRST_RUN = """
import sys, time
from pathlib import Path
from traube.models import naming
from traube.tasks import files

def slowly(function):
    def call(*given):
        time.sleep(0.3)
        return function(*given)
    return call

files.detect_languages, naming.make_name = slowly(files.detect_languages), slowly(naming.make_name)
print("ready", flush=True)
sys.stdin.readline()
print(files.make_task_of(Path(sys.argv[1])).name, naming.name_model("somebody/Some-Model", write=True))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(TABLE)
    return path


def find_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The cards that were named as damaged since the last call."""
    named = [Path(str(record.args[0])).name for record in caplog.records if isinstance(record.args, tuple)]
    caplog.clear()
    return named


def test_first_runs_at_once_share_one_task_and_one_model(file: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (other := tmp_path / "other" / "small.csv").write_text(TABLE)
    command = [sys.executable, "-c", FIRST_RUN]
    runs = [
        subprocess.Popen([*command, path], stdin=PIPE, stdout=PIPE, text=True, cwd=paths.PROJECT)
        for path in (file, file, file, other)
    ]
    for run in runs:
        assert run.stdout and run.stdout.readline() == "ready\n"
    for run in runs:
        assert run.stdin
        run.stdin.write("\n")
        run.stdin.flush()
    named = [run.communicate()[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0] * 4
    tasks, models = zip(*named, strict=True)
    assert len({*tasks[:3]}) == 1 and {*tasks} == {"small", "small_2"}  # another file of that name is another task
    assert {*models} == {"some-model"}
    written = {path.name for path in paths.generated_cards().glob("*.yaml")}
    assert written == {"small.yaml", "small_2.yaml", "some-model.yaml"}


def cut(card: bytes) -> list[bytes]:
    """The card, ended at every byte."""
    return [card[:length] for length in range(len(card))]


def flip(card: bytes) -> list[bytes]:
    """The card with another bit in one of its bytes."""
    choose = random.Random(0)
    flipped = [bytearray(card) for _ in range(60)]
    for one in flipped:
        one[choose.randrange(len(one))] ^= 1 << choose.randrange(8)
    return [bytes(one) for one in flipped]


def replace(card: bytes) -> list[bytes]:
    """Bytes that are no card, and the card of another file."""
    other = card.replace(b"small.csv", b"large.csv")
    return [b"\0" * len(card), random.Random(0).randbytes(500), b"[", b"- a\n", other]


@pytest.mark.parametrize("damage", [cut, flip, replace])
def test_a_damaged_card_is_named_and_written_again(
    damage: Callable[[bytes], list[bytes]], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_task_of(file, "body", ["area"])
    whole = made.card.read_bytes()
    for damaged in damage(whole):
        made.card.write_bytes(damaged)
        restore_cards()
        assert made.card.read_bytes() == whole, damaged
        assert find_warnings(caplog) == ["small.yaml"]
    made.card.write_bytes(damaged)
    assert make_task_of(file) == made  # the columns that were requested are those of the task
    assert find_warnings(caplog) == ["small.yaml"]
    assert own_tasks() == {"small"}
    assert make_task_of(file) == made and find_warnings(caplog) == []


def test_two_files_of_one_name_keep_their_tasks_when_both_cards_are_damaged(file: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (other := tmp_path / "other" / "small.csv").write_text(TABLE)
    cards = [make_task_of(path).card for path in (file, other)]
    for card in cards:
        card.write_bytes(b"")
    assert [make_task_of(path).name for path in (other, file)] == ["small_2", "small"]


def test_every_command_writes_a_damaged_card_again_and_leaves_a_person_s_own_alone(file: Path, cards: Path) -> None:
    made = make_task_of(file)
    whole = made.card.read_text()
    made.card.write_text(whole.partition("labels")[0])  # still a card, but that of a task without labels
    assert CliRunner().invoke(app, ["tasks", "small"]).exit_code == 0
    assert made.card.read_text() == whole
    (cards / "mine.yaml").write_text(whole[:-40])
    done = CliRunner().invoke(app, ["tasks", "mine"])
    assert done.exit_code == 1 and "mine.yaml" in done.output
    assert (cards / "mine.yaml").read_text() == whole[:-40]
    with refused(Invalid, cards / "mine.yaml"):
        get_source("mine")


def test_a_card_that_was_deleted_is_not_missed(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make_task_of(file)
    made.card.unlink()
    restore_cards()
    assert not made.card.exists() and own_tasks() == set()
    assert make_task_of(file) == made and find_warnings(caplog) == []


@pytest.mark.parametrize("record", [None, b"", b"{", b'{"small.yaml": 1}', b'{"small.yaml": "\\ud800"}'])
def test_without_its_record_a_damaged_card_is_written_again_under_its_name(
    record: bytes | None, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_task_of(file)
    written = paths.home() / RECORD
    written.unlink() if record is None else written.write_bytes(record)
    assert make_task_of(file) == made and find_warnings(caplog) == []  # as one of an earlier version is
    written.unlink()
    made.card.write_bytes(b"\0\1")
    assert make_task_of(file) == made and find_warnings(caplog) == ["small.yaml"]
    assert own_tasks() == {"small"}


def test_a_record_leads_to_no_other_file(file: Path, tmp_path: Path) -> None:
    made, outside = make_task_of(file), tmp_path / "outside.yaml"
    outside.write_text("mine")
    made.card.unlink()
    made.card.symlink_to(outside)
    up = "../" * len(made.card.parent.parts)
    for name in (str(outside), f"{up}{outside}", f"../{made.card.parent.name}/small.yaml"):
        (paths.home() / RECORD).write_text(f'{{"{name}": "theirs", "small.yaml": "theirs"}}')
        restore_cards()
        assert outside.read_text() == "mine"


def test_the_damaged_card_of_a_model_is_written_again(caplog: pytest.LogCaptureFixture) -> None:
    assert name_model("somebody/Some-Model", write=True) == "some-model"
    card = paths.generated_cards() / "some-model.yaml"
    whole = card.read_bytes()
    card.write_bytes(whole[:-5])  # still the card of a model, but of another one
    assert name_model("somebody/Some-Model", write=True) == "some-model" and card.read_bytes() == whole
    assert find_warnings(caplog) == ["some-model.yaml"]
    forget_model("some-model")
    restore_cards()
    assert not card.exists()


def test_a_card_that_is_being_written_is_none_yet(file: Path, cards: Path) -> None:
    made = make_task_of(file)
    for folder in (cards, made.card.parent):
        (folder / ".small.yaml.0a1b.yaml").write_text("file: /ti")
        (folder / "._tickets.yaml").write_bytes(b"\0\5\x16\7")  # what macOS leaves on foreign disks
    assert card_errors() == {} and own_tasks() == {"small"}
    (cards / "broken.yaml").write_text("file: /ti")
    assert {path.name for path in card_errors()} == {"broken.yaml"}
