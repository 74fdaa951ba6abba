"""The notebooks of `docs/tutorials/` run from top to bottom, without a network, and were stored with what they show."""

from pathlib import Path

import pytest

from traube._core import paths

nbformat = pytest.importorskip("nbformat")
NOTEBOOKS = sorted((paths.PROJECT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, home: Path, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
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
