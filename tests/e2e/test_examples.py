"""The notebooks of `docs/tutorials/` run from top to bottom, without a network, and were stored with what they show."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traube._core import paths

nbformat = pytest.importorskip("nbformat")
NOTEBOOKS = sorted((paths.PROJECT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """A kernel, in which libraries are imported once for all notebooks."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of somebody who goes through the notebooks one by one: a data set is read for the first."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, kernel: Any, notebook_home: Path, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    environment = {**os.environ, "TRAUBE_HOME": str(notebook_home)}
    begun = f"%reset -f\nimport os\nos.environ.clear()\nos.environ |= {environment}\nos.chdir({str(tmp_path)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begun))
    NotebookClient(notebook, km=kernel, timeout=600).execute()
    shown = [output.output_type for cell in notebook.cells for output in cell.get("outputs", [])]
    assert shown and "error" not in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_what_it_shows_and_says_nothing_of_a_machine(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    assert str(paths.PROJECT) not in content and str(Path.home()) not in content
    assert len(content) < 300_000
    cells = [cell for cell in nbformat.reads(content, 4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells) and any(cell.outputs for cell in cells)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)


def test_the_list_of_examples_names_each_notebook() -> None:
    listed = (paths.PROJECT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 6 and all(f"({path.name})" in listed for path in NOTEBOOKS)
