"""Install what the locks name into a virtual environment: by uv, or by pip where uv cannot run.

uv takes seconds where pip takes minutes. It is installed from the package index into the virtual
environment, and finds packages where pip is configured to look. Needs nothing but Python.
"""

import argparse
import os
import shlex
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# To put pip into a new environment takes as long as all packages by uv: there it comes by uv, where this Python has one.
HAS_PIP = find_spec("pip") is not None
SECTIONS = ("global", "install", ":env:")  # of pip's settings, those that its install reads
# pip's settings, as the variables from which uv takes the same, and what stands between several values
FOR_UV = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "proxy": ("ALL_PROXY", " "),
}


def main() -> None:
    """Parse the command line and install."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("locks", nargs="*", type=Path, help="files of packages with hashes; by default none")
    parser.add_argument("--venv", type=Path, default=PROJECT / ".venv", help="where to install (default: .venv)")
    parser.add_argument("--torch", default="", help="torch's version, and where to find it, as for pip")
    parser.add_argument("--no-project", action="store_true", help="leave out Traube itself")
    arguments = parser.parse_args()
    python = arguments.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(arguments.venv, with_pip=not HAS_PIP)
    installs = [["pip", "pip"]]
    if arguments.torch:
        installs.append(["torch", *shlex.split(arguments.torch)])
    for lock in arguments.locks:
        packages = sum("==" in line for line in lock.read_text(encoding="utf-8").splitlines())
        installs.append([f"{packages} packages of {lock}", "--no-deps", "--require-hashes", "-r", str(lock)])
    if not arguments.no_project:
        installs.append(["traube, from this checkout", "--no-deps", "--no-build-isolation", "-e", str(PROJECT)])
    install = installer(python)
    for what, *arguments in installs:
        print(f"installing {what}", flush=True)
        done = subprocess.run([*install, *arguments], env=environment(arguments))  # noqa: S603 (our own arguments)
        if done.returncode:
            sys.exit(f"{what} could not be installed; the error stands above")


def installer(python: Path) -> list[str]:
    """Return the command that installs into the environment of an interpreter, but for what is installed."""
    own = [sys.executable, "-m", "pip", "--python", str(python)]
    pip = own if HAS_PIP else [str(python), "-m", "pip"]
    if by_uv := _by_uv(python, pip):
        return by_uv
    print("uv cannot run here: pip does the same, in some minutes", flush=True)
    return [*pip, "install", "-q", "--disable-pip-version-check"]


def environment(arguments: list[str]) -> dict[str, str]:
    """Return the environment of an install: without the usual index where the arguments name another, as pip has it."""
    is_named = any(argument.split("=")[0] in ("-i", "--index-url") for argument in arguments)
    return {name: value for name, value in os.environ.items() if not (is_named and name == "UV_DEFAULT_INDEX")}


def _by_uv(python: Path, pip: list[str]) -> list[str]:
    """Return the command that installs by uv, with pip's settings in the environment; nothing where uv cannot run."""
    uv = python.with_name("uv")
    try:
        subprocess.run([*pip, "install", "-q", "--disable-pip-version-check", "uv"], check=True, capture_output=True)  # noqa: S603
        subprocess.run([str(uv), "--version"], check=True, capture_output=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return []
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True).stdout  # noqa: S603
    os.environ |= {name: value for name, value in uv_settings(listed).items() if name not in os.environ}
    return [str(uv), "pip", "install", "--quiet", "--python", str(python)]


def uv_settings(listed: str) -> dict[str, str]:
    """Return uv's environment variables for pip's settings.

    Parameters
    ----------
    listed : str
        What `pip config list` prints: `section.key='value'`, later sections before earlier ones.
        The environment's own lines (`:env:`) win.
    """
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        setting, _, value = line.partition("=")
        section, _, key = setting.rpartition(".")
        if section in SECTIONS and key in FOR_UV:
            name, between = FOR_UV[key]
            # pip config list writes repr of the value, in which values stand one below the other
            values = value.strip().strip("'\"").replace("\\n", " ").split()
            found[name] = between.join(values)
    if "UV_INDEX" in found:  # as pip does: the best version of all indexes, not of the first that has one
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return found


if __name__ == "__main__":
    main()
