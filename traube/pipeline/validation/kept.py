"""What the checks of a stored task found, kept beside its tables: a blocking check that failed stops
the task in later runs too.
"""

from collections.abc import Mapping

from traube.core.errors import TraubeError
from traube.pipeline.validation.findings import Finding
from traube.pipeline.validation.rules import CHECKS, Table, blocks
from traube.storage import Storage
from traube.tasks.task import TaskCard


def keep_findings(storage: Storage, task: str, data_version: str, findings: Mapping[Table, list[Finding]]) -> None:
    """Keep which checks of each table passed, of a version of the data."""
    passed = {f"{table}/{f.check.name}": f.passed for table, found in findings.items() for f in found}
    storage.save_checks(task, data_version, passed)


def kept_verdicts(storage: Storage, task: str, data_version: str, tables: tuple[Table, ...]) -> dict[str, bool] | None:
    """Return which checks passed, by `table/check`; None if any was not made of this version of the data."""
    kept = storage.read_checks(task, data_version)
    names = {f"{table}/{check.name}" for table in tables for check in CHECKS[table]}
    return kept if names <= kept.keys() else None


def refuse_kept(storage: Storage, card: TaskCard, data_version: str, tables: tuple[Table, ...]) -> None:
    """Stop where a check failed, as is kept of this version of the data, that the card says stops the task.

    Raises
    ------
    TraubeError
        Naming the first such check.
    """
    verdicts = kept_verdicts(storage, card.name, data_version, tables) or {}
    for table in tables:
        for check in CHECKS[table]:
            if blocks(check, card) and not verdicts.get(f"{table}/{check.name}", True):
                raise TraubeError(
                    f"{card.name}/{table}: the blocking check '{check.name}' failed; mend the data, and "
                    "`traube run` reads it again"
                )
