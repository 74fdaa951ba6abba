"""Checks of the tables of a task: their rules judged by pandas. A platform may draw pages of them besides."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from traube._pipeline.validation.facts import FACTS
from traube._pipeline.validation.findings import Finding, keep_findings, make_finding
from traube._pipeline.validation.outcomes import judge
from traube._pipeline.validation.rules import CHECKS, Table
from traube._storage import Storage
from traube.tasks.stored import get_card, read_task
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS, TaskCard

COLUMNS: dict[Table, Collection[str]] = {"corpus": CORPUS_COLUMNS, "splits": SPLIT_COLUMNS}  # that are judged


@dataclass(frozen=True)
class Validation:
    """Findings of all checks of a table."""

    card: TaskCard
    table: Table
    judged: pd.DataFrame  # the rows, and the facts about them of which the rules speak
    findings: list[Finding]  # one for each check of the table, in the order of `CHECKS`


def validate_table(card: TaskCard, table: Table, rows: pd.DataFrame, corpus: pd.DataFrame) -> Validation:
    """Check the rows of a task's table, which name texts of the corpus, or are these."""
    rows = rows[list(COLUMNS.get(table, rows.columns))].reset_index(drop=True)
    judged = rows.join(FACTS[table](card, rows, corpus))
    outcomes = judge(table, card.declared, judged)
    findings = [make_finding(check, card, outcomes, judged, corpus) for check in CHECKS[table]]
    return Validation(card, table, judged, findings)


def validate_version(
    storage: Storage, card: TaskCard, table: Table, rows: pd.DataFrame, corpus: pd.DataFrame, version: str
) -> Validation:
    """Check a version of a task's table (`validate_table`), and keep the findings."""
    validation = validate_table(card, table, rows, corpus)
    keep_findings(storage, card.name, table, version, validation.findings)
    return validation


def validate_tasks(storage: Storage, tasks: Iterable[str]) -> Iterator[Validation]:
    """Check the tables of stored tasks. Tasks that are not stored are passed over."""
    for name in tasks:
        if (card := get_card(storage, name)) is None:
            continue
        task = read_task(storage, name)
        tables: dict[Table, pd.DataFrame] = {"corpus": task.corpus, card.type.table: task.rows}
        for table, rows in tables.items():
            yield validate_table(card, table, rows, task.corpus)
