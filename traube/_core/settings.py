"""Settings that several nodes share, from the environment or else a file `.env`.

The file is that of the data directory, or of the checkout for the data directory in it. Of such a file only the names in
`ACCEPTED` are taken: any other variable (PYTHONPATH, LD_PRELOAD, BROWSER) could make a later command run code.

::

    TRAUBE_BLOBS=s3://bucket/prefix               or a folder: where results lie
    TRAUBE_DATABASE=postgresql://user@host/name   for the catalog of results, Dagster and MLflow
    TRAUBE_DATABASE_PASSWORD_FILE=/run/secrets/x  unless libpq's own PGPASSFILE or PGPASSWORD says it
"""

import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from traube._core import paths
from traube._core.disk import replacing
from traube._core.errors import Inaccessible, Invalid, TraubeError
from traube._core.inputs import read_bytes

BLOBS, DATABASE, PASSWORD_FILE = "TRAUBE_BLOBS", "TRAUBE_DATABASE", "TRAUBE_DATABASE_PASSWORD_FILE"
NAME_KEY = "TRAUBE_NAME_KEY"  # of an endpoint that names clusters: never from a file
MODEL_KEY = "TRAUBE_MODEL_KEY"  # of an endpoint that encodes texts, unless its card names another: never from a file
FILE = ".env"
HOME = "TRAUBE_HOME"
LARGEST, LONGEST = 64 * 2**10, 4_000  # bytes that are read of the file, and characters of a line
ACCEPTED = frozenset(
    f"TRAUBE_{name}"
    for name in (
        *("BLOBS", "DATABASE", "DATABASE_PASSWORD_FILE", "WEBHOOK", "ENGINE", "WORKERS", "DAGSTER_UI", "MLFLOW_UI"),
        *("RAW", "INBOX", "CARDS", "CHECKPOINTS", "PARAMS", "RELEASE"),
    )
)
# written by `traube init` for `dagster dev` and `mlflow`, and meant for nobody else
_OF_OTHERS = ("DAGSTER_HOME", "MLFLOW_TRACKING_URI", "TRAUBE_DAGSTER_DATABASE")
# a name, and a value that stands in quotes or ends where a comment begins
_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*
    (?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>.*?))\s*(?:(?<=[\s"'])\#.*)?""",
    re.VERBOSE,
)


def blobs() -> str:
    """Return the URL or folder of the blob store; empty for the one in the data directory."""
    return _value(BLOBS)


def database() -> str:
    """Return the URL of the shared database, mostly without its password; empty where there is none."""
    return check_database(_value(DATABASE))


def is_database_kept() -> bool:
    """Return whether a settings file names the shared database, not the environment alone."""
    return any(read_env(file).get(DATABASE) == os.environ.get(DATABASE) for file in _list_files(paths.home()))


def check_database(url: str) -> str:
    """Return a URL of Postgres in libpq's form, with the password where a file of ours holds it."""
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
        raise Invalid(f"{DATABASE}: expected postgresql://USER@HOST:PORT/NAME, not '{without_password(url)}'")
    file = os.environ.get(PASSWORD_FILE)
    if file and "PGPASSWORD" not in os.environ:
        try:
            os.environ["PGPASSWORD"] = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Inaccessible(f"{PASSWORD_FILE}: {file} cannot be read ({type(error).__name__})") from None
    return url.replace("postgres://", "postgresql://", 1)


def schema_of(url: str, schema: str) -> str:
    """Return SQLAlchemy's URL of one schema of a database: Dagster's and MLflow's tables have names in common."""
    url = url.replace("postgresql://", "postgresql+psycopg2://", 1)
    return f"{url}{'&' if urlsplit(url).query else '?'}options=-csearch_path={schema}"


def without_password(url: str) -> str:
    """Return a URL without its password, as it may be shown."""
    return re.sub(r"(//[^/@:]*):[^@/]*@", r"\1:***@", url)


def _value(name: str) -> str:
    _read_files(paths.home())
    return os.environ.get(name, "").strip()


@lru_cache(maxsize=8)
def _read_files(home: Path) -> None:
    """Set environment variables from the settings files, for this process and its children."""
    for file in _list_files(home):
        for name, value in read_env(file).items():
            if name in ACCEPTED:
                os.environ.setdefault(name, value)


def list_ignored(home: Path) -> list[tuple[Path, str]]:
    """Return the names in the settings files that are not taken from there, each with its file."""
    return [
        (file, name)
        for file in _list_files(home)
        for name, value in read_env(file).items()
        if name not in {*ACCEPTED, *_OF_OTHERS} and (name, value) != (HOME, str(home))
    ]


def _list_files(home: Path) -> list[Path]:
    return [home / FILE, *([paths.PROJECT / FILE] if home == paths.PROJECT / ".traube" else [])]


def read_env(file: Path) -> dict[str, str]:
    """Return the lines `NAME=value` of a file, with or without quotes and comments; empty where there is no file."""
    try:
        lines = read_bytes(file, LARGEST).decode().splitlines()
    except (TraubeError, UnicodeDecodeError):
        return {}
    matches = [
        match for line in lines if len(line) <= LONGEST and "\0" not in line and (match := _LINE.fullmatch(line))
    ]
    return {match["name"]: match["double"] or match["single"] or match["plain"] or "" for match in matches}


def write_env(file: Path, values: Mapping[str, str | None]) -> None:
    """Write lines of a file, or remove those without a value. Other lines and the mode stay. A new file is private."""
    file, left, kept = file.resolve(), dict(values), []  # follow a link to its target
    before = file.read_bytes() if file.is_file() else None
    for line in (before or b"").decode("utf-8", "surrogateescape").splitlines(keepends=True):
        match = _LINE.fullmatch(line.rstrip("\r\n"))
        name = match["name"] if match else ""
        if name not in values:
            kept.append(line)
        elif (value := left.pop(name, None)) is not None:
            kept.append(f"{name}={value}\n")
    new = [f"{name}={value}\n" for name, value in left.items() if value is not None]
    after = "".join(new + kept).encode("utf-8", "surrogateescape")
    if after == (before or b""):
        return
    with replacing(file) as temporary:
        temporary.chmod(0o600 if before is None else stat.S_IMODE(file.stat().st_mode))
        temporary.write_bytes(after)
