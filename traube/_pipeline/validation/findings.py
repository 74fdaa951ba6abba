"""Findings of checks, for people; and kept beside a task's tables, for later runs: a failed blocking one stops them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pandas as pd

from traube._core.errors import Malformed
from traube._pipeline.validation.outcomes import RuleOutcome
from traube._pipeline.validation.rules import CHECKS, SPLIT, Check, Table, blocks
from traube._storage import CheckRow, Storage
from traube.tasks import sources
from traube.tasks.stored import get_manifest
from traube.tasks.task import TaskCard

SHOWN_ROWS = 20
SHOWN_CHARACTERS = 120
HOLDS = "holds"


@dataclass(frozen=True)
class Finding:
    """Finding of a check."""

    check: Check
    blocking: bool  # whether a failure stops the task
    passed: bool
    rules: dict[str, str]  # each rule in words, with its result
    offending: int  # number of rows
    total: int
    header: list[str]
    shown: list[list[str]]  # the first offending rows as text, neither escaped nor long

    @property
    def percent(self) -> float:
        """Percentage of the rows that offend."""
        return round(100 * self.offending / max(self.total, 1), 3)

    @property
    def broken(self) -> str:
        """The rules that do not hold, in words."""
        return "; ".join(f"{says}: {result}" for says, result in self.rules.items() if result != HOLDS)


def make_finding(
    check: Check, card: TaskCard, outcomes: Sequence[RuleOutcome], judged: pd.DataFrame, corpus: pd.DataFrame
) -> Finding:
    """Return the finding of a check in a table that is judged with its facts.

    It is made from the outcomes on the check's rules and those of others.
    """
    outcome_of_rule = {outcome.says: outcome for outcome in outcomes if outcome.check == check.name}
    results = {}
    for outcome in (outcome_of_rule[rule.says] for rule in check.rules if rule.says in outcome_of_rule):
        n, result = outcome.count, HOLDS
        if not outcome.success:
            result = f"no, but {outcome.observed}" if n is None else f"not in {n:,} row{'' if n == 1 else 's'}"
        results[outcome.says] = result
    positions = sorted({position for outcome in outcome_of_rule.values() for position in outcome.rows})
    header, examples = _pick_examples(check, judged.iloc[positions], judged, corpus)
    return Finding(
        check=check,
        blocking=blocks(check, card),
        passed=all(outcome.success for outcome in outcome_of_rule.values()),
        rules=results,
        offending=len(positions),
        total=len(judged),
        header=header,
        shown=examples,
    )


def _pick_examples(
    check: Check, offending: pd.DataFrame, judged: pd.DataFrame, corpus: pd.DataFrame
) -> tuple[list[str], list[list[str]]]:
    """Return the first offending rows: where they are, the facts that the check's rules speak of, label and text."""
    if check.one_row_per:
        offending = offending.drop_duplicates(list(check.one_row_per))
    rows = offending.head(SHOWN_ROWS)
    if rows.empty:
        return [], []
    if "text" not in rows:
        texts = corpus[corpus["text_id"].isin(rows["text_id"])].drop_duplicates("text_id").set_index("text_id")["text"]
        rows = rows.assign(text=rows["text_id"].map(texts))
    subjects = [rule.arguments.get("column", "") for rule in check.rules]
    # most tasks have one split set and one subset, which say nothing
    constant = [c for c in ("split_set", "part") if c in rows and len(judged[c].unique()) == 1]
    places = [c for c in (*SPLIT, "item", "part") if c in rows and c not in constant]
    columns = dict.fromkeys(c for c in [*places, *subjects, "text_id", "label", "text"] if c in rows)
    examples = [[_format_cell(value) for value in row] for row in rows[list(columns)].itertuples(name=None)]
    return ["row", *columns], examples


def _format_cell(value: Any) -> str:
    """Return a value as one short line of printable characters."""
    if pd.isna(value):
        return "(null)"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a count that is null elsewhere in its column
    start = str(value).strip()[: 2 * SHOWN_CHARACTERS]
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(start.split())) or "(blank)"
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def keep_findings(storage: Storage, task: str, table: Table, version: str, findings: Iterable[Finding]) -> None:
    """Store which checks of a version of a table passed."""
    for finding in findings:
        name = f"{table}/{finding.check.name}"
        storage.save(CheckRow(task=task, data_version=version, name=name, passed=finding.passed))


def refuse_stored(storage: Storage, task: str) -> None:
    """Raise an error if a check of a task's stored tables failed that, according to the card as it is now, stops the task."""
    if manifest := get_manifest(storage, task):
        table = manifest.card.type.table
        _refuse(storage, task, {"corpus": manifest.corpus_version, table: manifest.data_version}, manifest.card)


def refuse_failed(storage: Storage, task: str) -> None:
    """Raise an error if a check of the data that was read last failed and stops the task, which may have no tables yet."""
    rows = sorted(storage.read_rows(CheckRow, task=task), key=attrgetter("created"))
    newest = {row.name.partition("/")[0]: row.data_version for row in rows}
    _refuse(storage, task, {table: newest[table] for table in CHECKS if table in newest})


def _refuse(storage: Storage, task: str, versions: Mapping[Table, str], stored: TaskCard | None = None) -> None:
    source = sources(None).get(task)
    if (card := source.card if source else stored) is None:
        return
    for table, version in versions.items():
        passed = {row.name: row.passed for row in storage.read_rows(CheckRow, task=task, data_version=version)}
        for check in CHECKS[table]:
            if blocks(check, card) and not passed.get(f"{table}/{check.name}", True):
                raise Malformed(
                    f"{task}/{table}: the blocking check '{check.name}' failed; mend the data, and "
                    "`traube run` reads it again"
                )
