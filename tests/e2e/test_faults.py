"""A short campaign of faults: a kill, two writers, damaged files, a full disk. The long one is `benchmarks/faults.py`; a
run is killed in `test_killed.py`.
"""

import subprocess
import sys
from datetime import date

import pytest

from traube._core import paths

SHORT = (
    "--no-encoder --kills 1 --only init --seconds-to-end 300 --writers 1 --at-once 2 --flips 20 --heals 1 --levels 1"
)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_short_campaign_loses_nothing() -> None:
    # other bytes every day: the output names the seed
    command = [
        sys.executable,
        str(paths.PROJECT / "benchmarks" / "faults.py"),
        *SHORT.split(),
        "--seed",
        f"{date.today():%Y%m%d}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
