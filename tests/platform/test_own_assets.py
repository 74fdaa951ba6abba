"""Assets of one's own that take Traube's tables, and tasks as Dagster's components: the guide, followed to the letter."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from dagster.components.core.component_tree import ComponentTreeException

from assets.common import MODELS
from definitions import build_defs
from operations.launch import DagsterLauncher
from tests.platform.conftest import word_rows, write_task
from traube._core import paths
from traube._core.errors import Invalid
from traube._storage import Storage
from traube.models import model_cards
from traube.tasks import get_source, sources

GUIDE = paths.PROJECT / "docs" / "how-to" / "own_assets.md"
BLOCKS = re.findall(r"^```(python|yaml)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


def materialize(
    assets: list[dg.AssetsDefinition], instance: dg.DagsterInstance, partition: str | None = None
) -> Mapping[str, Any]:
    """Materialize assets merged with Traube's; the metadata of the last one."""
    definitions = dg.Definitions.merge(build_defs(), dg.Definitions(assets=assets))
    job, keys = definitions.resolve_implicit_global_asset_job_def(), [asset.key for asset in assets]
    done = job.execute_in_process(instance=instance, asset_selection=keys, partition_key=partition)
    (*_, event) = done.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


@pytest.mark.begin_with("published")
def test_the_guides_assets_get_the_tables(launcher: DagsterLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # Dagster looks up the types of the arguments there
    code = [block for language, block in BLOCKS if language == "python"]
    assert len(code[0].splitlines()) <= 18  # with imports and empty lines: ten of code
    for block in code:
        exec(block, vars(guide))
    made = materialize([guide.winners], launcher.instance)
    assert made == {"models": ["bow"]}
    assert materialize([guide.seeds], launcher.instance, "bow") == {"seeds": 1, "models": ["bow"]}


@pytest.mark.begin_with("published")
def test_a_partition_is_its_models_rows_and_no_partition_is_all_of_them(
    launcher: DagsterLauncher, storage: Storage
) -> None:
    """A model that has not run yet has no rows, and is no reason to fail."""
    assert MODELS.name is not None
    launcher.instance.add_dynamic_partitions(MODELS.name, ["tfidf"])
    tables = dict[str, pd.DataFrame]()
    ins = {"scores": dg.AssetIn(["words", "scores"]), "texts": dg.AssetIn(["words", "corpus"])}

    @dg.asset(ins=ins)
    def of_all(scores: pd.DataFrame, texts: pd.DataFrame) -> dg.MaterializeResult:
        tables.update(all=scores, texts=texts)
        return dg.MaterializeResult()

    @dg.asset(ins={"scores": ins["scores"]}, partitions_def=MODELS)
    def of_one(context: dg.AssetExecutionContext, scores: pd.DataFrame) -> dg.MaterializeResult:
        tables[context.partition_key] = scores
        return dg.MaterializeResult()

    materialize([of_all], launcher.instance)
    for model in ("bow", "tfidf"):
        materialize([of_one], launcher.instance, model)
    assert tables["tfidf"].empty and not tables["bow"].empty
    pd.testing.assert_frame_equal(tables["all"], tables["bow"])
    assert len(tables["all"]) == len(storage.read_scores(storage.read_cells()))
    assert {*tables["all"]["method"]} >= {"none/minibatch_kmeans", "pca/hdbscan"}
    assert {*tables["texts"]["text"]} == {text for text, _ in word_rows()}


@pytest.fixture
def project(tmp_path: Path, cards: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of `dg` with the guide's components; its defs folder, which is the cards' folder."""
    folder, defs = tmp_path / "project", tmp_path / "project" / "team" / "defs"
    for language, block in BLOCKS:
        if language == "yaml":
            place, _, content = block.partition("\n")
            file = folder / place.removeprefix("# ")
            file.parent.mkdir(parents=True)
            file.write_text(content)
    write_task(defs / "words", "words", word_rows())
    (defs / "words" / "words.yaml").unlink()
    for module in (folder / "team", defs):
        (module / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "team"\nversion = "1"\n[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "team"\n'
    )
    monkeypatch.setenv("TRAUBE_CARDS", str(defs))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k.partition(".")[0] != "team"})
    return defs


def test_a_component_is_a_card_of_which_dagster_makes_assets(project: Path) -> None:
    definitions = dg.load_from_defs_folder(path_within_project=project)
    graph = definitions.resolve_asset_graph()
    stages = {key.path[1] for key in graph.get_all_asset_keys() if key.path[0] == "words"}
    assert stages == {"raw", "corpus", "splits", "embeddings", "clusterings", "scores"}
    assert dg.AssetKey(["words", "scores"]) in graph.get(dg.AssetKey("leaderboard")).parent_keys
    with dg.DagsterInstance.ephemeral() as instance:
        done = definitions.resolve_job_def("datasets").execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(["words", "corpus"]), dg.AssetKey(["words", "splits"])]
        )
    assert done.success
    # the commands know the same task
    assert get_source("words").files() == [project / "words" / "words.csv"]
    assert build_defs().resolve_asset_graph().get_all_asset_keys() == graph.get_all_asset_keys()


def test_a_card_of_a_component_is_checked_like_any_other(project: Path) -> None:
    (project / "words" / "defs.yaml").write_text(
        "type: operations.components.TraubeTask\nattributes:\n  file: words.csv\n  txet: text\n"
    )
    with pytest.raises(ComponentTreeException) as raised:
        dg.load_from_defs_folder(path_within_project=project)
    cause = raised.value.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    assert "defs.yaml: line 4" in str(cause)


def test_a_model_is_a_component_and_other_components_are_no_cards(project: Path) -> None:
    for name, text in {
        "small": "type: operations.components.TraubeModel\nattributes:\n  model: ./weights\n  kind: transformer\n",
        "others": "type: dagster.DefsFolderComponent\n",
    }.items():
        (project / name).mkdir()
        (project / name / "defs.yaml").write_text(text)
    assert dg.load_from_defs_folder(path_within_project=project).resolve_asset_graph()
    assert "small" in model_cards()
    assert not {"small", "others", "benchmark"} & {*sources(None)}


def test_a_component_outside_of_the_cards_folder_is_refused(
    project: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands would not know its task."""
    monkeypatch.setenv("TRAUBE_CARDS", str(cards))
    with pytest.raises(ComponentTreeException) as raised:
        dg.load_from_defs_folder(path_within_project=project)
    cause: BaseException | None = raised.value
    while cause is not None and not isinstance(cause, Invalid):
        cause = cause.__cause__
    assert cause is not None and str(project) in str(cause)
