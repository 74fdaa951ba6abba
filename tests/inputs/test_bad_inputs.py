"""Whatever is wrong with what a person hands in is one line, within two seconds, and exit code 1 or
2. The inputs are a table: `table.py`.
"""

import json
import time
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from definitions import build_defs
from operations import doctor
from tests.errors import check_names
from tests.inputs.case import Case
from tests.inputs.table import PARAMS, TASK_CARDS, cases
from tests.inputs.yaml_faults import FAULTS
from traube._cli.main import app
from traube._core.errors import TraubeError
from traube.models import load_model, model_cards
from traube.models.tensors import check_tensors
from traube.models.vetting import VettedFolder
from traube.models.weights import locate

CASES = cases()
SECONDS = 20.0  # of the processor; half a second is usual
WORDS = "text,topic\n" + "".join(f"word{i} other{i % 3},t{i % 3}\n" for i in range(30))


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """Import what commands import at their first use: it takes seconds, and is no part of a case."""
    for module in ("pyarrow.dataset", "sklearn.cluster", "traube.training", "sentence_transformers"):
        import_module(module)
    CliRunner().invoke(app, ["methods"])
    check_tensors(VettedFolder.at(locate(model_cards()["minilm"])))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one sound task of its own, and one checkpoint's name that is free."""
    for name in ("home", "cards", "checkpoints", "raw"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"TRAUBE_{name.upper()}", str(tmp_path / name))
    (tmp_path / "cards" / "words.csv").write_text(WORDS)
    (tmp_path / "cards" / "words.yaml").write_text("file: words.csv\ntext: text\nlabels: topic\n")
    (tmp_path / "notes.txt").write_text("\n".join(f"cat {i}" for i in range(12)))
    (tmp_path / "params.yaml").write_text(PARAMS)
    monkeypatch.setenv("TRAUBE_PARAMS", str(tmp_path / "params.yaml"))
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_one_line(root: Path, case: Case) -> None:
    case.put(root)
    began = time.process_time()
    result = CliRunner().invoke(app, case.arguments(root))
    busy = time.process_time() - began
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2), result.output
    shown = result.stderr.strip()
    if result.exit_code == 1:
        assert shown.startswith(("error: ", "failed: ")) and len(shown.splitlines()) == 1, shown
    kind, *values = case.refusal
    error = result.exception
    while not isinstance(error, TraubeError | None):  # what ended the command comes of it
        error = error.__context__
    assert type(error or result.exception) is kind, shown
    check_names(" ".join(shown.replace("│", " ").split()), *values)
    assert "Traceback" not in result.output
    assert busy < SECONDS


@pytest.mark.slow
def test_all_bad_cards_together_take_no_other_down(root: Path) -> None:
    """Each is a line of its own among tasks, and in what the doctor says; the sound task goes on."""
    bad = {f"bad_{i}": content for i, (content, _) in enumerate([*FAULTS.values(), *TASK_CARDS.values()])}
    files = {f"cards/{name}.yaml": content for name, content in bad.items()}
    texts = {
        f"cards/m{name}.yaml": f"model: ./x\n{content}" for name, content in bad.items() if isinstance(content, str)
    }
    Case("all", {**files, **texts}, (), (TraubeError,)).put(root)

    tasks = rows_of("tasks")
    assert tasks["words"] == "ready"
    assert bad.keys() <= tasks.keys()
    assert not [name for name in bad if tasks[name] == "ready" or "\n" in tasks[name]]
    assert rows_of("models")["bow"] == "ready"
    for path in texts:
        with pytest.raises(TraubeError, match=Path(path).stem) as error:
            _ = load_model(Path(path).stem).fingerprint
        assert "\n" not in str(error.value)
    planned = CliRunner().invoke(app, ["run", "--dry-run"])
    assert (planned.exit_code, "read     words" in planned.stdout) == (0, True), planned.output

    found = list(doctor._check_tasks())
    said = {finding.check: finding.finding for finding in found if finding.status == "wrong"}
    unusable = [name for name in bad if tasks[name].startswith(str(root)) and "is not there" not in tasks[name]]
    assert set(list(bad)[: len(FAULTS)]) <= set(unusable)
    assert {f"card {name}.yaml" for name in unusable} <= said.keys()
    assert build_defs().resolve_all_asset_keys()


def rows_of(command: str) -> dict[str, str]:
    result = CliRunner().invoke(app, [command, "--json"])
    assert result.exit_code == 0, result.output
    return {row[command[:-1]]: row["status"] for row in json.loads(result.stdout)}
