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
    together, alone = list_resolutions(tomllib.loads(file.read_text(encoding="utf-8"))["project"])
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        faults = dict(zip(together, pool.map(lambda one: resolve(uv, file, one), together), strict=True))
        # what they need is in uv's cache now, which answers in a second where the index takes twenty
        again = pool.map(lambda one: resolve(uv, file, one, "--offline") and resolve(uv, file, one), alone)
        faults |= zip(alone, again, strict=True)
    failed = [f"{resolution}: {fault}" for resolution, fault in faults.items() if fault]
    for line in failed:
        print(line, file=sys.stderr)
    print(
        f"{len(faults)} resolutions in {time.monotonic() - began:.0f} s, {len(failed)} without a solution", flush=True
    )
    sys.exit(len(failed) > 0)


def list_resolutions(project: dict[str, Any]) -> tuple[list[Resolution], list[Resolution]]:
    """Return what has to resolve on each Python of the classifiers: all extras together, and none and each alone."""
    pythons = re.findall(r"Python :: (\d+\.\d+)", "\n".join(project["classifiers"]))
    extras = tuple(project["optional-dependencies"])

    def at_both_ends(*chosen: tuple[str, ...]) -> list[Resolution]:
        return [Resolution(python, end, some) for some in chosen for python in pythons for end in ENDS]

    return at_both_ends(extras), at_both_ends((), *((extra,) for extra in extras))


def resolve(uv: str, file: Path, resolution: Resolution, *options: str) -> str | None:
    """Return why there is no solution, or None if there is one."""
    # uv would look for the Python and download it; its version is enough
    compiled = [uv, "pip", "compile", "--quiet", "--no-python-downloads", "--python", sys.executable]
    command = [*compiled, "--python-version", resolution.python, "--resolution", resolution.end]
    extras = [argument for extra in resolution.extras for argument in ("--extra", extra)]
    try:
        done = subprocess.run(  # noqa: S603 (our own arguments)
            [*command, *extras, *options, str(file)], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"uv ended with exit code {done.returncode}") if done.returncode else None


if __name__ == "__main__":
    main()
