"""Packages that a thread imports: who needs them waits until they are whole."""

import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from tests.waiting import wait_for
from traube.core.early_imports import begin_import, import_whole


def test_an_import_waits_for_one_that_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text(
        f"from pathlib import Path\nfrom time import sleep\nwhile not Path({str(tmp_path / 'go')!r}).exists():\n    sleep(0.01)\n"
        "from slow.part import value\n"
    )
    (tmp_path / "slow" / "part.py").write_text("import slow\nvalue = 1\n")
    (tmp_path / "other.py").write_text("import sys\nis_slow_whole = hasattr(sys.modules['slow'], 'value')\n")

    begin_import("slow")
    wait_for(lambda: "slow" in sys.modules, "the beginning of the import")
    begin_import("other")
    (tmp_path / "go").touch()
    import_whole("slow")
    assert import_module("slow.part").value == 1
    import_whole("other")
    assert import_module("other").is_slow_whole


@pytest.mark.filterwarnings("error")
def test_what_is_wrong_with_a_package_is_for_whoever_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken.py").write_text("raise ImportError('a library is missing')")
    before = threading.active_count()
    begin_import("broken")
    wait_for(lambda: threading.active_count() <= before, "the end of the thread")
    with pytest.raises(ImportError, match="a library is missing"):
        import_whole("broken")
