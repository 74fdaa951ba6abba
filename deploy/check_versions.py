"""Resolve the library alone, with each extra and with all of them, at both ends of the ranges in pyproject.toml.

The ends are the highest versions, and the lowest of what pyproject.toml names itself. No override takes part, and nothing
is installed. Needs uv and the package index: where one is missing the check fails, since it has seen nothing.
"""

import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from install import PROJECT, installer

ENDS = ("highest", "lowest-direct")
SECONDS = 300  # for one resolution; with an empty cache the slowest takes 45
AT_ONCE = 4  # they wait for the index most of the time


@dataclass(frozen=True)
class Resolution:
    """Extras that are resolved for one Python at one end of the ranges."""

    python: str
    end: str
    extras: tuple[str, ...]

    def __str__(self) -> str:
        return f"Python {self.python}, {self.end}, {' + '.join(self.extras) or 'no extra'}"


def main() -> None:
    """Resolve all, and name what has no solution."""
    file = PROJECT / "pyproject.toml"
    uv, *_ = installer(Path(sys.executable))
    resolutions = list_resolutions(tomllib.loads(file.read_text(encoding="utf-8"))["project"])
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        faults = list(pool.map(lambda resolution: resolve(uv, file, resolution), resolutions))
    for resolution, fault in zip(resolutions, faults, strict=True):
        if fault:
            print(f"{resolution}: {fault}", file=sys.stderr)
    failed = sum(map(bool, faults))
    print(
        f"{len(resolutions)} resolutions in {time.monotonic() - began:.0f} s, {failed} without a solution", flush=True
    )
    sys.exit(failed > 0)


def list_resolutions(project: dict[str, Any]) -> list[Resolution]:
    """Return what has to resolve: on each Python of the classifiers, no extra, each alone, and all."""
    pythons = re.findall(r"Python :: (\d+\.\d+)", "\n".join(project["classifiers"]))
    extras = tuple(project["optional-dependencies"])
    chosen = [extras, (), *((extra,) for extra in extras)]  # all first: what the others need is in the cache then
    return [Resolution(python, end, some) for some in chosen for python in pythons for end in ENDS]


def resolve(uv: str, file: Path, resolution: Resolution) -> str | None:
    """Return why there is no solution, or None if there is one."""
    command = [uv, "pip", "compile", "--quiet", "--python-version", resolution.python, "--resolution", resolution.end]
    extras = [argument for extra in resolution.extras for argument in ("--extra", extra)]
    try:
        done = subprocess.run([*command, *extras, str(file)], capture_output=True, text=True, timeout=SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or f"uv ended with exit code {done.returncode}" if done.returncode else None


if __name__ == "__main__":
    main()
