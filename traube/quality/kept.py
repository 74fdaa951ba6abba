"""What the checks of a stored task found, kept beside its tables: a blocking check that failed stops
the task in later runs too.
"""

from collections.abc import Mapping
from pathlib import Path

from traube.foundation.errors import TraubeError
from traube.foundation.files import write_sealed_json
from traube.foundation.seals import read_sealed_json
from traube.quality.findings import Finding
from traube.quality.rules import CHECKS, Table, blocks
from traube.tasks.task import TaskCard

KEYS = ("data_version", "passed")


def keep_findings(path: Path, data_version: str, findings: Mapping[Table, list[Finding]]) -> None:
    """Keep which checks of each table passed, of a version of the data."""
    passed = {f"{table}/{f.check.name}": f.passed for table, found in findings.items() for f in found}
    write_sealed_json(path, {"data_version": data_version, "passed": passed})


def kept_verdicts(path: Path, data_version: str, tables: tuple[Table, ...]) -> dict[str, bool] | None:
    """Return which checks passed, by `table/check`; None if any was not made of this version of the data."""
    kept = read_sealed_json(path, KEYS)
    if not kept or kept.get("data_version") != data_version:
        return None
    names = {f"{table}/{check.name}" for table in tables for check in CHECKS[table]}
    return kept["passed"] if names <= set(kept["passed"]) else None


def refuse_kept(card: TaskCard, path: Path, data_version: str, tables: tuple[Table, ...]) -> None:
    """Stop where a check failed, as is kept of this version of the data, that the card says stops the task.

    Raises
    ------
    TraubeError
        Naming the first such check.
    """
    verdicts = kept_verdicts(path, data_version, tables) or {}
    for table in tables:
        for check in CHECKS[table]:
            if blocks(check, card) and not verdicts.get(f"{table}/{check.name}", True):
                raise TraubeError(
                    f"{card.name}/{table}: the blocking check '{check.name}' failed; mend the data, and "
                    "`traube run` reads it again"
                )
