"""MTEB's result files, in the forms that it has written since 2022, read into flat rows.

What can be read is read. All else is named, with the reason (`Skipped`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from traube._core.errors import TraubeError
from traube._core.inputs import is_file, parse_json, read_bytes

TEST, DEFAULT = "test", "default"  # the split and the subset that most tasks have
META = "model_meta.json"
DUMPS = (".jsonl", ".jsonl.gz")  # a result a line
REVISION = re.compile("[0-9a-f]{7,40}|external|no_revision_available")
SHOWN = 10  # faults, and files of each other reason

Score = Annotated[float, Field(ge=0, le=1)]  # a V-measure
Name = Annotated[str, Field(max_length=500)]
NonEmpty = Annotated[Name, Field(min_length=1)]
NameOrEmpty = Annotated[Name | None, AfterValidator(lambda name: name or "")]
# MTEB writes NaN where a deviation cannot be computed
ScoreOrNone = Annotated[Score | None, BeforeValidator(lambda sd: None if isinstance(sd, float) and sd != sd else sd)]
Entry = dict[str, Any]  # scores on one subset of one split, and what they are about


class Reason(Enum):
    """A reason to leave something out."""

    FAULT = auto()  # the text of `Skipped` says which
    REPEATED = auto()
    OTHER_FILE = auto()
    OTHER_KIND = auto()
    OTHER_SPLIT = auto()


SUMMARIES = {
    Reason.REPEATED: "the same result is read already",
    Reason.OTHER_FILE: "not a result in MTEB's form",
    Reason.OTHER_KIND: "no V-measure, so another kind of task",
    Reason.OTHER_SPLIT: "not the test split",
}


@dataclass(frozen=True)
class Skipped:
    """Something that was not read."""

    where: str  # the file, and the line or the split in it
    reason: Reason
    fault: str = ""

    def __str__(self) -> str:
        return self.fault or f"{self.where}: {SUMMARIES[self.reason]}"


@dataclass
class Results:
    """The rows that were read, and all that was not."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


class _Row(BaseModel):
    """One model's scores on a subset of a split; other fields are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    source: str
    task: NonEmpty
    split: Annotated[NonEmpty, BeforeValidator(lambda name: TEST if name is None else name)] = TEST
    subset: Annotated[NonEmpty, BeforeValidator(lambda name: DEFAULT if name is None else name)] = Field(
        DEFAULT, validation_alias="hf_subset"
    )
    model: NonEmpty
    revision: NameOrEmpty = Field("", validation_alias="model_revision")
    dataset_revision: NameOrEmpty = ""
    mteb_version: NameOrEmpty = ""
    mean: Score = Field(validation_alias="v_measure")
    sd: ScoreOrNone = Field(None, validation_alias="v_measure_std")
    splits: list[Score] | dict[str, list[Score]] | None = Field(None, validation_alias="v_measures")

    def row(self) -> dict[str, Any]:
        measures, sd = self.splits or [], self.sd
        splits = [v for level in measures.values() for v in level] if isinstance(measures, dict) else measures
        if sd is None:
            sd = float(np.std(splits)) if splits else float("nan")
        return {**self.model_dump(), "sd": sd, "splits": splits}


def read_results(path: Path) -> Results:
    """Read a result file, a dump with a result a line, or all of these in a folder.

    Parameters
    ----------
    path : Path
        A `.json`, a `.jsonl` or `.jsonl.gz`, or a folder (`<org>__<model>/<revision>/<Task>.json`).

    Returns
    -------
    Results
        A row for each model, task, split and subset, with scores in [0, 1]; and what was not read.
    """
    collected, results = Results(), defaultdict[tuple[str, ...], list[Entry]](list)
    files = [path]
    if path.is_dir():
        named = (p for p in path.rglob("*") if p.name.endswith((".json", *DUMPS)) and p.name != META)
        files = sorted(p for p in named if not p.is_dir())
    for file in files:
        for entry in _read_entries(file, path, collected.skipped):
            result = (str(entry.get(name)) for name in ("model", "model_revision", "task"))
            results[str(file), *result].append(entry)

    seen = set[tuple[str, ...]]()
    for entries in results.values():
        for entry, row in _validate(entries, collected.skipped):
            key = tuple(row[name] for name in ("source", "task", "split", "subset", "model", "revision"))
            if key in seen:
                collected.skipped.append(Skipped(entry["where"], Reason.REPEATED))
            else:
                collected.rows.append(row)
            seen.add(key)
    return collected


def describe_skipped(skipped: Sequence[Skipped]) -> list[str]:
    """Return lines on what was not read: one for each of the first faults, and one for each other reason."""
    faults = [one for one in skipped if one.reason is Reason.FAULT]
    lines = [str(one) for one in faults[:SHOWN]]
    if len(faults) > SHOWN:
        lines.append(f"{len(faults) - SHOWN} more are no results in MTEB's form, such as {faults[SHOWN].where}")
    for reason, summary in SUMMARIES.items():
        places = list(dict.fromkeys(one.where for one in skipped if one.reason is reason))
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        if places:
            lines.append(f"{', '.join(places[:SHOWN])}{more}: {summary}")
    return lines


def _read_entries(file: Path, root: Path, skipped: list[Skipped]) -> Iterator[Entry]:
    """Yield the entries of a file, each with the place where it stands."""
    try:
        content = read_bytes(file)
    except TraubeError as error:
        skipped.append(Skipped(str(file), Reason.FAULT, str(error)))
        return
    if file.name.endswith(DUMPS):
        about = {"source": str(file.absolute())}
        parts = [(f"{file}: line {n}", line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    else:
        about, parts = _locate(file, root), [(str(file), content)]
    for where, part in parts:
        try:
            raw_entries = _find_entries(parse_json(part))
            entries = [{**about, **entry, "source": about["source"], "where": where} for entry in raw_entries]
        except KeyError as error:
            skipped.append(_fault(where, f"{error} is missing"))
        except (ValueError, TypeError, AttributeError) as error:
            skipped.append(_fault(where, " ".join(str(error).split())[:200]))
        else:
            if not entries:
                skipped.append(Skipped(where, Reason.OTHER_FILE))
            yield from entries


def _fault(where: str, fault: str) -> Skipped:
    return Skipped(where, Reason.FAULT, f"{where}: not a result in MTEB's form ({fault})")


def _find_entries(value: Any) -> Iterator[Entry]:
    """Yield the entries of a parsed document: none if it is no result."""
    if not isinstance(value, dict):
        return
    if "model_results" in value:  # results of many models in one file
        for model in value["model_results"]:
            about = {"model": model["model_name"], "model_revision": model.get("model_revision")}
            for result in model["task_results"]:
                yield from ({**about, **entry} for entry in _flatten(result))
    elif {"task", "model"} <= value.keys():  # a line of a dump is an entry
        yield value
    else:
        yield from _flatten(value)


def _flatten(result: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the entries of one model's result on one task."""
    if {"task_name", "scores"} <= result.keys():
        task, scores = result["task_name"], result["scores"].items()
    elif "mteb_dataset_name" in result:  # before MTEB 1.11
        task, scores = result["mteb_dataset_name"], ((k, v) for k, v in result.items() if isinstance(v, dict))
    else:
        return
    about = {"task": task} | {name: result.get(name) for name in ("dataset_revision", "mteb_version")}
    for split, given in scores:
        yield from ({**entry, **about, "split": split} for entry in _by_subset(given))


def _by_subset(scores: Any) -> Iterable[Entry]:
    """Return the entries of a split, which MTEB has written as a list, by their subset, or plain where there is one."""
    if not isinstance(scores, dict):
        return scores
    by_name = {name: entry for name, entry in scores.items() if isinstance(entry, dict) and "v_measure" in entry}
    return [{**entry, "hf_subset": name} for name, entry in by_name.items()] or [scores]


def _locate(file: Path, root: Path) -> Entry:
    """Return the model and the revision of a result file, and the folder of the models' folders.

    MTEB writes `<org>__<model>/<revision>/<Task>.json`; it has left out the organization and, before 1.11, the revision.
    """
    folders = file.absolute().parent.parts
    first = len(folders) - 2 if file == root else len(root.absolute().parts) - 2
    model = next((i for i in reversed(range(max(first, 0), len(folders))) if "__" in folders[i].strip("_")), None)
    if model is None:
        if is_file(file.with_name(META)):
            try:
                meta = parse_json(read_bytes(file.with_name(META)))
                return {"model": meta["name"], "model_revision": meta.get("revision"), "source": str(root.absolute())}
            except (TraubeError, ValueError, TypeError, AttributeError, KeyError):
                pass  # the folders name the model
        is_deep = file != root and len(folders) - len(root.absolute().parts) > 1
        model = len(folders) - (2 if is_deep or REVISION.fullmatch(folders[-1]) else 1)
    return {
        "model": folders[model].replace("__", "/", 1) if model >= 0 else "",
        "model_revision": "/".join(folders[model + 1 :]),
        "source": str(Path(*folders[: max(model, 1)])),
    }


def _validate(entries: Sequence[Entry], skipped: list[Skipped]) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Yield the rows of one model's result on one task: of its test split, or of all others where it has none."""
    measured = [entry for entry in entries if "v_measure" in entry]
    skipped += [Skipped(entry["where"], Reason.OTHER_KIND) for entry in entries if "v_measure" not in entry]
    unit = _find_unit(measured)
    if unit is None:
        skipped.append(_fault(measured[0]["where"], "some scores are above 1, others below: percent, or shares?"))
        return
    has_test = any((entry.get("split") or TEST) == TEST for entry in measured)
    for entry in measured:
        if has_test and (entry.get("split") or TEST) != TEST:
            skipped.append(Skipped(f"{entry['where']}, {entry['split']}", Reason.OTHER_SPLIT))
            continue
        try:
            yield entry, _Row.model_validate(_to_shares(entry, unit)).row()
        except ValidationError as error:
            first = error.errors()[0]
            subset = f"subset {entry['hf_subset']}, " if (entry.get("hf_subset") or DEFAULT) != DEFAULT else ""
            fault = f"{subset}{'.'.join(map(str, first['loc'][:2]))}: {first['msg']}"
            skipped.append(_fault(entry["where"], fault))


def _find_unit(entries: Sequence[Entry]) -> int | None:
    """Return what the scores of a result are divided by: 1, or 100 if all are percent; None if both could be meant."""
    given = [entry.get(name) for entry in entries for name in ("v_measure", "main_score")]
    # 0 is the same in both, and what lies beyond 100 is no score
    is_percent = {score > 1 for score in given if _is_number(score) and 0 < score <= 100}
    return None if len(is_percent) > 1 else 100 if True in is_percent else 1


def _to_shares(entry: Entry, unit: int) -> Entry:
    """Return an entry with its scores divided; what is no score stays, and is refused."""

    def scale(value: Any) -> Any:
        return value / unit if _is_number(value) and 0 <= value <= 100 else value

    scaled: Entry = {name: scale(entry[name]) for name in ("v_measure", "v_measure_std") if name in entry}
    measures: Any = entry.get("v_measures")
    given = measures if isinstance(measures, dict) else {"": measures}
    levels = {name: level for name, level in given.items() if isinstance(level, list)}
    # those of each split may be shares where the mean is percent
    if any(_is_number(value) and value > 1 for level in levels.values() for value in level):
        divided = {name: [scale(value) for value in level] for name, level in levels.items()}
        scaled["v_measures"] = {**measures, **divided} if isinstance(measures, dict) else divided[""]
    return {**entry, **scaled} if unit > 1 else entry


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
