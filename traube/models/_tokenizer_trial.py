"""A program that tries a tokenizer.json on hard texts, within limits: `python _tokenizer_trial.py PACKAGES FILE SECONDS MIB`.

`traube.models._tokenizers` runs it by its path. It imports nothing of Traube, so that it ends within a tenth of a
second; what takes too much ends it.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What expressions backtrack on, what normal forms lengthen most, and what takes many bytes.
HARD = (
    *(character * 3_000 + end for character in "a0 .-\n_" for end in ("", "!")),
    *("ab" * 2_000 + "!", "aA" * 2_000, "x, " * 2_000, "don't " * 500, "http://a.b/c?d=e&" * 200),
    *(
        "\ufdfa" * 200,
        "\u0130\u1e9e\u0390\u1f82" * 200,
        "e\u0301\u0323" * 500,
        "\u4e2d\u6587" * 500,
        "\uac00\u3042" * 500,
    ),
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467" * 200, "\u200b\u202e\ufeff\u00a0" * 200, "\x00\x1b\x7f" * 200),
)
PAGE = resource.getpagesize()


def main(path: Path, seconds: int, mebibytes: int) -> None:
    """Encode and decode the texts with the tokenizer of a file.

    A panic ends the program with an error. Other errors do no harm, and are reported when the tokenizer is used.
    """
    from tokenizers import Tokenizer

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, seconds)
    if sys.platform == "linux":  # macOS does not keep to it
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit(resource.RLIMIT_AS, pages * PAGE + (mebibytes << 20))
    with harmless_errors():
        tokenizer = Tokenizer.from_file(str(path))
        for text in HARD:
            with harmless_errors():  # such as of a word that a vocabulary lacks
                tokenizer.decode(tokenizer.encode(text).ids[:1_000])


@contextmanager
def harmless_errors() -> Iterator[None]:
    """Ignore errors other than of memory."""
    try:
        yield
    except MemoryError:
        raise
    except Exception:  # noqa: S110 (see above)
        pass


def limit(kind: int, most: int) -> None:
    """Lower a limit of this process, which may have a lower one already."""
    there = resource.getrlimit(kind)[1]
    value = most if there == resource.RLIM_INFINITY else min(most, there)
    resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    sys.path.append(sys.argv[1])  # where tokenizers is installed, be it by PYTHONPATH or for one user
    main(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
