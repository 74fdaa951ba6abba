"""The forms in which MTEB has written results: what is read, and what is named and left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from traube._reports.mteb_results import Reason, Skipped, describe_skipped, read_results

VALUES = [0.2, 0.3, 0.25]


def entry(value: float = 0.25, **more: Any) -> dict[str, Any]:
    return {"v_measure": value, "main_score": value, "hf_subset": "default", "languages": ["eng-Latn"], **more}


def result(**scores: Any) -> dict[str, Any]:
    """A result of MTEB 1.11 or later."""
    return {"task_name": "X", "dataset_revision": "d", "mteb_version": "1.36.1", "scores": scores}


def old(**splits: Any) -> dict[str, Any]:
    """A result of MTEB before 1.11."""
    return {"mteb_dataset_name": "X", "dataset_revision": None, "mteb_version": "1.1.1", **splits}


def put(root: Path, name: str, content: Any) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def one(root: Path, content: Any) -> dict[str, Any]:
    found = read_results(put(root, "org__m/r/X.json", content))
    (row,) = found.rows
    assert not found.skipped
    return row


@pytest.mark.parametrize(
    "content",
    [
        result(test=[entry(v_measures={"Level 0": VALUES})]),
        result(test=[entry(v_measures={"Level 0": VALUES[:1], "Level 1": VALUES[1:]})]),
        result(test=[entry(v_measures=VALUES)]),
        result(test=[entry(v_measures=VALUES, hf_subset=None)]),
        result(test={"default": entry(v_measures=VALUES)}),
        old(test={"v_measure": 0.25, "v_measures": VALUES, "evaluation_time": 12.3}),
        old(test={"default": {"v_measure": 0.25, "v_measures": VALUES}, "evaluation_time": 12.3}),
        {"model_results": [{"model_name": "org/m", "model_revision": "r", "task_results": [
            result(test=[entry(v_measures=VALUES)])
        ]}]},
        result(test=[entry(25.0, v_measures=[20.0, 30.0, 25.0])]),
        result(test=[entry(25.0, v_measures=VALUES)]),
    ],
    ids=["levels", "two levels", "list", "no subset", "by subset", "old", "old by subset", "of many models", "percent",
         "percent of shares"],
)  # fmt: skip
def test_every_form_gives_the_same_row(tmp_path: Path, content: Any) -> None:
    row = one(tmp_path, content)
    names = ("task", "split", "subset", "model", "revision", "mean")
    assert [row[name] for name in names] == ["X", "test", "default", "org/m", "r", 0.25]
    assert row["splits"] == pytest.approx(VALUES)
    assert row["sd"] == pytest.approx(0.0408248)


def test_subsets_are_rows_of_their_own(tmp_path: Path) -> None:
    for content in (
        result(test=[entry(0.2, hf_subset="de"), entry(0.4, hf_subset="fr")]),
        old(test={"de": {"v_measure": 0.2}, "fr": {"v_measure": 0.4}, "evaluation_time": 3}),
    ):
        rows = read_results(put(tmp_path, "org__m/r/X.json", content)).rows
        assert [(row["subset"], row["mean"]) for row in rows] == [("de", 0.2), ("fr", 0.4)]


def test_the_test_split_is_read_and_all_others_where_there_is_none(tmp_path: Path) -> None:
    both = read_results(put(tmp_path, "both.json", result(validation=[entry(0.3)], test=[entry(0.2)])))
    assert [(row["split"], row["mean"]) for row in both.rows] == [("test", 0.2)]
    assert [(skip.reason, skip.where.endswith(", validation")) for skip in both.skipped] == [(Reason.OTHER_SPLIT, True)]
    other = read_results(put(tmp_path, "other.json", result(headlines=[entry(0.3)], articles=[entry(0.2)])))
    assert {row["split"]: row["mean"] for row in other.rows} == {"headlines": 0.3, "articles": 0.2}
    assert not other.skipped


@pytest.mark.parametrize(
    ("scores", "shares"),
    [
        ([35.1, 1.5], [0.351, 0.015]),
        ([100, 0], [1, 0]),
        ([0.9, 0.2], [0.9, 0.2]),
        ([1, 0.2], [1, 0.2]),
        ([0, 0], [0, 0]),
        ([35.1, 0.6], []),
        ([35.1, float("nan")], [0.351]),
        ([0.4, float("nan")], [0.4]),
        ([0.4, 150], [0.4]),
        ([0.4, -0.1], [0.4]),
        ([0.4, None], [0.4]),
    ],
)
def test_percent_are_known_by_all_scores_of_a_result(tmp_path: Path, scores: list[Any], shares: list[float]) -> None:
    """A score above 1 is percent; one below 1 beside it may be either, so that nothing of the result is read."""
    subsets = [entry(score, hf_subset=name) for name, score in zip(("de", "fr"), scores, strict=True)]
    found = read_results(put(tmp_path, "X.json", result(test=subsets)))
    assert [row["mean"] for row in found.rows] == pytest.approx(shares)
    assert len(found.skipped) == (len(shares) < 2)


@pytest.mark.parametrize(
    ("path", "model", "revision"),
    [
        ("org__m/r1/X.json", "org/m", "r1"),
        ("results/org__m/no_revision_available/X.json", "org/m", "no_revision_available"),
        ("org__m/external/X.json", "org/m", "external"),
        ("org__m/r1/experiments/short/X.json", "org/m", "r1/experiments/short"),
        ("org__m/X.json", "org/m", ""),
        ("all-MiniLM-L6-v2/X.json", "all-MiniLM-L6-v2", ""),
        ("m/r1/X.json", "m", "r1"),
        ("org__a__b/r1/X.json", "org/a__b", "r1"),
    ],
)
def test_folders_name_the_model_and_its_revision(tmp_path: Path, path: str, model: str, revision: str) -> None:
    root = tmp_path / "not__this" / "work" / "mteb"
    put(root, path, result(test=[entry()]))
    (row,) = read_results(root).rows
    assert (row["model"], row["revision"]) == (model, revision)


def test_the_models_own_file_names_it_where_folders_do_not(tmp_path: Path) -> None:
    put(tmp_path, "run 7/model_meta.json", {"name": "org/m", "revision": "r1"})
    put(tmp_path, "run 7/X.json", result(test=[entry()]))
    found = read_results(tmp_path)
    assert [(row["model"], row["revision"]) for row in found.rows] == [("org/m", "r1")] and not found.skipped
    put(tmp_path, "run 7/model_meta.json", ["no name"])
    assert read_results(tmp_path).rows[0]["model"] == "run 7"


def test_one_file_does_not_stop_a_folder_and_none_is_dropped_without_a_word(tmp_path: Path) -> None:
    put(tmp_path, "org__m/r/Good.json", result(test=[entry()]))
    put(tmp_path, "org__m/r/Bad.json", result(test=[entry(float("nan"))]))
    put(tmp_path, "org__m/r/SciFact.json", result(test=[{"ndcg_at_10": 0.6, "main_score": 0.6}]))
    put(tmp_path, "paths.json", {"org__m": []})
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "dump.jsonl").write_text(json.dumps({"task": "Y", "model": "b", "v_measure": 40.0}) + "\n[]\n")
    found = read_results(tmp_path)
    assert {(row["model"], row["task"]): row["mean"] for row in found.rows} == {("org/m", "X"): 0.25, ("b", "Y"): 0.4}
    reasons = {Path(skip.where.partition(":")[0]).name: skip.reason for skip in found.skipped}
    assert reasons == {
        **{"Bad.json": Reason.FAULT, "torn.json": Reason.FAULT, "SciFact.json": Reason.OTHER_KIND},
        **{"paths.json": Reason.OTHER_FILE, "dump.jsonl": Reason.OTHER_FILE},
    }


def test_the_same_result_counts_once_and_another_revision_is_another(tmp_path: Path) -> None:
    for name in ("r1/X.json", "r1/copy of X.json", "r2/X.json"):
        put(tmp_path, f"org__m/{name}", result(test=[entry()]))
    found = read_results(tmp_path)
    assert [row["revision"] for row in found.rows] == ["r1", "r2"]
    assert [skip.reason for skip in found.skipped] == [Reason.REPEATED]


def test_many_lines_about_what_was_left_out_become_few() -> None:
    faults = [Skipped(f"{i}.json", Reason.FAULT, f"{i}.json: torn") for i in range(40)]
    others = [Skipped(f"o{i}.json", Reason.OTHER_KIND) for i in range(30)]
    lines = describe_skipped([*faults, *others])
    assert len(lines) == 12 and lines[0] == "0.json: torn"
    assert "30 more" in lines[10] and "20 more" in lines[11]
    assert describe_skipped(faults[:2]) == ["0.json: torn", "1.json: torn"]
