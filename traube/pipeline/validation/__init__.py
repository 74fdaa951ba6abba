"""Data quality: the checks of a task's tables. Making data right is not done here: a failed check only says so."""

from traube.pipeline.validation.findings import Finding, keep_findings, refuse_stored
from traube.pipeline.validation.rules import CHECKS, Check, Rule, Table, blocks
from traube.pipeline.validation.validate import (
    QUALITY,
    Validation,
    data_docs,
    in_own_process,
    validate_table,
    validate_tasks,
    warm_up,
)

__all__ = [
    "CHECKS",
    "QUALITY",
    "Check",
    "Finding",
    "Rule",
    "Table",
    "Validation",
    "blocks",
    "data_docs",
    "in_own_process",
    "keep_findings",
    "refuse_stored",
    "validate_table",
    "validate_tasks",
    "warm_up",
]
