"""The offline benchmark: docstrings of installed packages."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traube.tasks import get_source
from traube.tasks.readers import pydocs
from traube.tasks.readers.pydocs import Pydocs, PydocsCard, Size, extract_prose, extract_summary, read_docstrings
from traube.tasks.task import Task, index_texts

NUMPYDOC = """
fit(X, y=None)

Compute k-means
clustering.

Parameters
----------
X : array
    Training data, for example::

        X = load()

Examples
--------
>>> fit([[1]])
1

Notes
-----
Lloyd's algorithm.
"""


def test_a_summary_is_the_first_paragraph_without_signature_and_sections() -> None:
    assert extract_summary(NUMPYDOC) == "Compute k-means clustering."
    assert extract_summary("Add two numbers.\n:param a: the first\n") == "Add two numbers."
    assert extract_summary("Add two numbers.\nArgs:\n    a: the first\n") == "Add two numbers."
    assert extract_summary("Parameters\n----------\nx : int\n") == ""


def test_prose_is_everything_but_code() -> None:
    text = extract_prose(NUMPYDOC)
    assert text.startswith(
        "fit(X, y=None) Compute k-means clustering. Parameters X : array Training data, for example::"
    )
    assert text.endswith("Notes Lloyd's algorithm.")
    assert "load()" not in text and ">>>" not in text and "Examples" not in text and "---" not in text
    assert (
        extract_prose("Mean.\n\n.. math::\n\n    x + y\n\n.. note::\n\n    Biased.")
        == "Mean. .. math:: x + y .. note:: Biased."
    )


@pytest.mark.parametrize(
    "code",
    [
        "```python\nsecret()\n```",
        "Example:\n    secret()\n\n    secret()",
        "Examples:\n\n    >>> secret()",
        ".. code-block:: python\n\n    secret()",
        "Like this::\n\n    secret()\n\n    secret()",
        ">>> 1 + 1\nsecret",
    ],
)
def test_no_form_of_example_is_left(code: str) -> None:
    assert "secret" not in extract_prose(f"Adds.\n\n{code}\n\nMore about it.")
    assert extract_prose(f"Adds.\n\n{code}\n\nMore about it.").endswith("More about it.")


@given(st.text(alphabet="ab.:`>-=\n ", max_size=80))
def test_summary_and_prose_are_one_line(docstring: str) -> None:
    for text in (extract_summary(docstring), extract_prose(docstring)):
        assert text == " ".join(text.split())


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that cannot be imported, with two public subpackages."""
    functions = "\n".join(f'def f{i}():\n    """Does {{0}} thing number {i}."""\n' for i in range(10))
    files = {
        "toyworks/__init__.py": "raise ImportError('parsed, never imported')",
        "toyworks/_hidden.py": '"""A private module of the package."""',
        "toyworks/cluster/_kmeans.py": functions.replace("{0}", "cluster"),
        "toyworks/cluster/tests/test_kmeans.py": '"""A test of the package."""',
        "toyworks/cluster/_private/more.py": '"""A module in a private folder."""',
        "toyworks/metrics.py": functions.replace("{0}", "metric")
        + '''
def _private():
    """A private function of the module."""

class Score:
    """A score of a clustering."""

    def value(self):
        """The value of the score."""

    def _secret(self):
        """A private method of the class."""

def repeated():
    """Does cluster thing number 3."""

def short():
    """Too short."""

def alias():
    """Alias for the other one."""
''',
        "toyworks/externals/copied.py": '"""A copy of another package."""',
        "toyworks/broken.py": "this is a template {{ x }}",
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_only_the_public_api_is_read_and_nothing_is_imported(toy: Path) -> None:
    found = read_docstrings(Size(("toyworks",), drawn=1, within=1))
    assert "toyworks" not in sys.modules
    assert found["fine"].value_counts().to_dict() == {"toyworks.metrics": 12, "toyworks.cluster": 10}
    assert set(found["s2s"].iloc[20:]) == {"A score of a clustering.", "The value of the score."}
    assert found.loc[found["s2s"] == "Does cluster thing number 3.", "fine"].tolist() == [
        "toyworks.cluster"
    ]  # the first


def test_sampling_keeps_the_largest_subpackages_and_the_order(toy: Path) -> None:
    found = read_docstrings(Size(("toyworks",), drawn=1, within=1, subpackages=1, texts=5))
    assert set(found["fine"]) == {"toyworks.metrics"}
    assert len(found) == 5
    assert found["s2s"].tolist() == [
        t for t in read_docstrings(Size(("toyworks",), 1, 1))["s2s"] if t in set(found["s2s"])
    ]


def pydocs_of(size: Size, monkeypatch: pytest.MonkeyPatch) -> Pydocs:
    """The task of summaries, with another size in place of the small one."""
    monkeypatch.setitem(pydocs.SIZES, "small", size)
    return Pydocs(Path("pydocs_toy"), PydocsCard(name="pydocs_toy", pydocs="s2s"))


def test_a_package_with_one_subpackage_has_no_split_of_its_own(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pydocs_of(Size(("toyworks",), 1, 1, subpackages=1), monkeypatch)
    splits = source.draw(index_texts(source.read())[1])
    assert splits["split"].unique().tolist() == ["coarse_00", "fine_00"]


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    source = pydocs_of(Size(("sklearn", "nosuchpackage"), 1, 1), monkeypatch)
    assert (
        source.missing()
        == "package nosuchpackage is not installed: pip install 'traube[platform]', in a checkout make setup"
    )


@pytest.mark.slow
def test_the_small_task_is_as_its_card_declares(pydocs_s2s: Task) -> None:
    pydocs_s2s.validate()
    splits = list(pydocs_s2s.test_splits())
    declared = pydocs_s2s.card.declared
    assert len(splits) == declared.splits == 12
    assert (min(s.size for s in splits), max(s.size for s in splits)) == declared.rows
    assert (min(s.classes or 0 for s in splits), max(s.classes or 0 for s in splits)) == declared.classes


def test_the_splits_are_drawn_as_the_german_benchmark_draws_them(pydocs_s2s: Task) -> None:
    table = pydocs_s2s.splits
    assert table.groupby("split", sort=False)["level"].unique().map(list).to_dict() == {
        **{f"coarse_{i:02d}": ["coarse"] for i in range(3)},
        **{f"fine_{i:02d}": ["fine"] for i in range(3)},
        **{f"within_{p}": ["fine"] for p in ("sklearn", "scipy", "networkx", "matplotlib", "numpy", "pandas")},
    }
    within = table[table["split"] == "within_sklearn"]
    assert within["label"].str.startswith("sklearn.").all()
    fraction = table[table["split"].str.match("coarse|fine")].groupby("split").size() / len(pydocs_s2s.corpus)
    assert fraction.between(0.1, 1.0).all()


def test_short_and_long_texts_compare_like_for_like(pydocs_s2s: Task, pydocs_p2p: Task) -> None:
    columns = ["split", "level", "item", "label", "part"]
    pd.testing.assert_frame_equal(pydocs_s2s.splits[columns], pydocs_p2p.splits[columns])
    assert len(pydocs_s2s.corpus) == len(pydocs_p2p.corpus)
    longer = pydocs_p2p.corpus["text"].str.len() >= pydocs_s2s.corpus["text"].str.len()
    assert longer.mean() > 0.99


def test_other_versions_of_packages_alone_are_other_raw_data(pydocs_s2s: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    source = get_source("pydocs_s2s")
    assert source.load().data_version == pydocs_s2s.data_version
    assert source.raw_version() == get_source("pydocs_s2s").raw_version()
    assert source.raw_version() != get_source("pydocs_p2p").raw_version()
    before = get_source("pydocs_s2s").raw_version()
    monkeypatch.setattr(pydocs, "version", lambda name: "0.0")
    assert get_source("pydocs_s2s").raw_version() != before


def test_the_size_in_a_card_gives_the_whole_documentation_without_files(cards: Path) -> None:
    (cards / "manual.yaml").write_text("pydocs: p2p\nsize: full\nlicense: mixed\n")
    mine, whole = get_source("manual"), get_source("pydocs_p2p_full")
    assert mine.card == whole.card.model_copy(update={"name": "manual", "license": "mixed"})
    assert mine.card.declared.splits == 28
    source = get_source("pydocs_p2p_full")
    assert source.files() == [] and source.missing() is None
