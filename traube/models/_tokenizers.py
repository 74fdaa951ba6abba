"""Trials of foreign tokenizers, before anything in this process uses them.

A tokenizer encodes a few hard texts in a process of bounded memory and time. `tokenizers.jsonl` in the data directory
lists those that passed, by content, and may be deleted.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from traube._core import paths
from traube._core.errors import TraubeError, Unsafe
from traube._core.files import append_line
from traube._core.hashing import digest, file_sha256
from traube._core.versions import get_version
from traube.models._tokenizer_steps import find_fault

TRIAL = Path(__file__).with_name("_tokenizer_trial.py")
TOKENIZER = "tokenizer.json"
PASSED = "tokenizers.jsonl"
# Raise when a trial would find what it did not find before.
VERSION = 1
SECONDS, MEBIBYTES = 10, 512  # of one core, and of memory beside what the file takes
MORE_MEBIBYTES = 40  # for each of the file
LONGEST_WAIT = 600  # seconds; a process that gets no core is no tokenizer that hangs


@dataclass(frozen=True)
class Trial:
    """A tokenizer.json to be tried; equal contents are one trial."""

    key: str
    path: Path = field(compare=False)

    @classmethod
    def of(cls, path: Path) -> "Trial":
        """Return the trial of a file."""
        return cls(digest([VERSION, get_version("tokenizers"), file_sha256(path)]), path)


def try_tokenizer(path: Path) -> str:
    """Return what a tokenizer does to hard texts that it must not do; empty if nothing.

    Parameters
    ----------
    path : Path
        A tokenizer.json.

    Returns
    -------
    str
        The fault, or an empty string.
    """
    return _find_fault(Trial.of(path))


@lru_cache(maxsize=1024)
def _find_fault(trial: Trial) -> str:
    memory = paths.home() / PASSED
    with suppress(OSError):
        if trial.key in memory.read_text(encoding="utf-8", errors="replace").split():
            return ""
    fault = run_trial(trial.path)
    if not fault and memory.parent.is_dir():
        with suppress(TraubeError, OSError):  # without a writable data directory, nothing is remembered
            append_line(memory, trial.key)
    return fault


def run_trial(path: Path, seconds: int = SECONDS, mebibytes: int = MEBIBYTES) -> str:
    """Return the fault of a tokenizer.json, with so many seconds of one core and MiB, and more for a large file."""
    size = path.stat().st_size >> 20
    seconds, mebibytes = seconds + size, mebibytes + MORE_MEBIBYTES * size
    spec = find_spec("tokenizers")
    assert spec is not None and spec.origin is not None
    packages = str(Path(spec.origin).parents[1])
    command = [sys.executable, "-I", str(TRIAL), packages, str(path), str(seconds), str(mebibytes)]
    alone = {**os.environ, "RUST_BACKTRACE": "0", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        ended = subprocess.run(command, env=alone, capture_output=True, timeout=LONGEST_WAIT, check=False)  # noqa: S603 (our own program)
    except subprocess.TimeoutExpired:
        return f"its tokenizer took more than {LONGEST_WAIT} seconds for a few texts"
    if ended.returncode:
        return f"its tokenizer fails on a few hard texts, with {seconds} seconds and {mebibytes} MiB"
    return ""


def check_built(tokenizer: Any, where: str) -> None:
    """Refuse a tokenizer that transformers built of another file than a tokenizer.json, as one is refused.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
        The tokenizer; one without a backend of the library tokenizers is let through.
    where : str
        Name of the model's folder, for the error.

    Raises
    ------
    TraubeError
        If its steps make too much of a text, or it fails on hard ones.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return
    text = backend.to_str()
    fault = find_fault(json.loads(text))
    if not fault:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TOKENIZER
            path.write_text(text, encoding="utf-8")
            fault = try_tokenizer(path)
    if fault:
        raise Unsafe(f"{where}: {fault}")
