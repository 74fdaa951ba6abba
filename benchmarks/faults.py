"""Losses when things go wrong: processes killed at random moments, several writers, flipped
bytes in every kind of file, full disks.

Each campaign works on small homes of its own, made from templates, and compares what is stored at
the end with what an undisturbed run stores. A table says how often something was tried, and how
often results were *lost* (fewer than undisturbed), *doubled*, or *wrong* (another number, and nothing
that says so), a home was *dead* (the next command fails), a process was *late* (more than three
seconds to end, or another exit code than that of its signal), or somebody saw a *traceback*. Ends
with status 1 if anything was.

Full disks need the right to mount a file system (root on Linux); without it they are skipped, and
the table says so. With `--servers`, catalog and runs lie in a Postgres and blobs on an S3 server, both of this machine and of
this program alone: kills and several writers are tried there, on databases and folders of a bucket that are copied likewise.
"""

import argparse
import logging
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import psutil

from traube._core.errors import TraubeError
from traube._core.hashing import file_sha256
from traube._core.settings import BLOBS, DATABASE, PASSWORD_FILE
from traube._storage import CellRow, Storage, open_storage
from traube._storage.blobs import IDENTITY
from traube._storage.entries import Entry

PROJECT = Path(__file__).resolve().parents[1]
TRAUBE = str(Path(sys.executable).with_name("traube"))
TOPICS = {
    "fruit": "apple pear plum cherry grape peach quince fig melon berry",
    "tools": "hammer saw drill wrench chisel plane file clamp anvil screw",
    "birds": "owl robin swift crane heron stork finch raven eagle wren",
}
PARAMS = """
protocol: small
tasks: [words, others]
models: [bow, lsa]
protocols:
  small:
    reducers: [none, pca]
    clusterers: [minibatch_kmeans, agglomerative]
    seeds: [42, 1]
"""
BASE = "tiny"  # a checkpoint, which trainings start from
TRAINING = ("train", "wwm", "words", "-m", BASE, "--set", "epochs=30", "--set", "batch=4")
TRIALS = 4
TUNING = ("tune", "cob", "learn", "-m", BASE, "--trials", str(TRIALS), "--set", "epochs=20")
MOST = 10  # kills of one command, until it is let end
FAULTS = ("lost", "doubled", "wrong", "dead", "late", "traceback")


@dataclass
class Campaign:
    """Number of trials of something, and their outcomes."""

    what: str
    seconds_to_end: float = 3.0
    tried: int = 0
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    notes: list[str] = field(default_factory=list)

    def blame(self, fault: str, note: str) -> None:
        self.faults[fault] += 1
        self.notes.append(f"{fault}: {note}")
        print(f"  {self.what}: {fault}: {note}", file=sys.stderr, flush=True)


class Servers:
    """A Postgres and an S3 server of this machine: a world has the database and the folder of a bucket of its name."""

    def __init__(self, opened: ExitStack, folder: Path) -> None:
        from moto.server import ThreadedMotoServer
        from s3fs import S3FileSystem

        from tests.servers import PASSWORD, Postgres

        self._postgres = Postgres()
        opened.callback(shutil.rmtree, self._postgres.folder, ignore_errors=True)
        opened.callback(self._postgres.stop)
        moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        moto.start()
        opened.callback(moto.stop)
        (folder / "password").write_text(f"{PASSWORD}\n")
        os.environ |= {
            "AWS_ENDPOINT_URL": "http://{}:{}".format(*moto.get_host_and_port()),
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            PASSWORD_FILE: str(folder / "password"),
            "PGPASSWORD": PASSWORD,  # of this process, which is no command
        }
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the S3 server tells of each request
        self._s3 = S3FileSystem(use_listings_cache=False)
        self._s3.call_s3("create_bucket", Bucket="faults")

    def of(self, name: str) -> tuple[str, str]:
        """Return the URLs of a world's blobs and database."""
        return f"s3://faults/{name}", f"{self._postgres.url}/{name}"

    def query(self, name: str, *statements: str) -> list[tuple[object, ...]]:
        """Return what the last of some statements finds in a database."""
        import psycopg2

        from tests.servers import PASSWORD

        with closing(psycopg2.connect(f"{self._postgres.url}/{name}", password=PASSWORD)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def copy(self, old: str, new: str) -> None:
        """Copy what the servers have of a world; of one that is new, nothing."""
        databases = {row[0] for row in self.query("postgres", "SELECT datname FROM pg_database")}
        template = f" TEMPLATE {old}" if old in databases else ""
        users = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{old}'"
        dropped = f"DROP DATABASE IF EXISTS {new} WITH (FORCE)"
        self.query("postgres", dropped, users, f"CREATE DATABASE {new}{template}")
        if self._s3.exists(f"faults/{new}"):
            self._s3.rm(f"faults/{new}", recursive=True)
        if template and self._s3.exists(f"faults/{old}"):
            self._s3.copy(f"faults/{old}/", f"faults/{new}/", recursive=True)


@dataclass(frozen=True)
class World:
    """A home with its cards, checkpoints and params, below one folder; and what servers have of it."""

    folder: Path
    servers: Servers | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def environment(self) -> dict[str, str]:
        own = {
            "TRAUBE_HOME": str(self.home),
            "TRAUBE_CARDS": str(self.folder / "cards"),
            "TRAUBE_CHECKPOINTS": str(self.folder / "checkpoints"),
            "TRAUBE_PARAMS": str(self.folder / "params.yaml"),
        }
        if self.servers:
            own |= zip((BLOBS, DATABASE), self.servers.of(self.folder.name), strict=True)
        kept = {k: v for k, v in os.environ.items() if k not in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI", "PGPASSWORD")}
        return {**kept, **own, "PYTHONPATH": str(PROJECT)}

    def start(self, *command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [TRAUBE, *command],
            cwd=PROJECT,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command; output alone is not judged."""
        process = self.start(*command)
        try:
            output, _ = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -1, f"hangs: {process.communicate()[0]}"
        return process.returncode, output

    def copy(self, folder: Path) -> "World":
        """The same world elsewhere. Nothing in a home names the folder it lies in but MLflow's
        artifacts, which are not looked at.
        """
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)
        if self.servers:
            self.servers.copy(self.folder.name, folder.name)
        return World(folder, self.servers)

    def results(self) -> pd.DataFrame:
        """Every score that is stored, by what it is of."""
        storage = Storage(self.home, servers=self.servers and self.servers.of(self.folder.name))
        cells = storage.read_cells()
        keys = ["task", "model", "reducer", "clusterer", "seed", "protocol"]
        cells["seed"] = cells["seed"].astype(float)  # an empty table has no types
        scores = storage.read_scores(cells).merge(cells[["cell_id", *keys]], on="cell_id").drop(columns="cell_id")
        return scores.sort_values([*keys, "split", "level", "metric"]).reset_index(drop=True)


def make_world(folder: Path, *, encoder: bool = True, servers: Servers | None = None) -> World:
    """Two tasks and one to train on, a tiny encoder if wanted, and params; no home yet."""
    (folder / "cards").mkdir(parents=True)
    (folder / "params.yaml").write_text(PARAMS)
    rng = random.Random(0)
    for name, rows in (("words", 60), ("others", 45)):
        texts = [
            (" ".join(rng.choices(words.split(), k=5)) + f" {i}", topic)
            for i in range(rows // 3)
            for topic, words in TOPICS.items()
        ]
        table = pd.DataFrame(texts, columns=["text", "topic"])
        table.to_csv(folder / "cards" / f"{name}.csv", index=False)
        (folder / "cards" / f"{name}.yaml").write_text(f"file: {name}.csv\ntext: text\nlabels: topic\n")
    table["part"] = [("train", "validation", "test")[i // 3 % 3] for i in range(len(table))]
    table.to_csv(folder / "cards" / "learn.csv", index=False)
    (folder / "cards" / "learn.yaml").write_text("file: learn.csv\ntext: text\nlabels: topic\npart: part\n")
    (folder / "checkpoints").mkdir()
    if encoder:
        make_encoder(folder / "checkpoints" / BASE)
    if servers:
        servers.copy("", folder.name)
    return World(folder, servers)


def make_encoder(folder: Path) -> None:
    """A tiny encoder with a head for masked words."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *" ".join(TOPICS.values()).split()]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)


# kills


def nothing(world: World) -> None:
    """The steps done to most worlds, and what else there is in most of them in the end."""


@dataclass(frozen=True)
class Victim:
    """A command that is killed again and again, until it has come to its end.

    Attributes
    ----------
    template : the world it begins in
    seconds : about how long it takes undisturbed
    wanted : what is stored when it has come to its end
    prepare : what is done to the world first
    outcome : what else there is in the end, and must be as if it had never been disturbed
    """

    name: str
    command: tuple[str, ...]
    template: World
    seconds: float
    wanted: pd.DataFrame
    prepare: Callable[[World], object] = nothing
    outcome: Callable[[World], object] = nothing

    @property
    def at_last(self) -> tuple[str, ...]:
        """The command that has to succeed in the end; servers have no end of their own."""
        return ("run",) if self.name == "dev" else self.command


def kills(
    victims: list[Victim],
    number: int,
    rng: random.Random,
    folder: Path,
    campaigns: list[Campaign],
    seconds_to_end: float,
) -> None:
    """Kill each victim's command, on and on, and look at the home when it has come to its end."""
    of = {victim.name: Campaign(f"kill {victim.name}", seconds_to_end) for victim in victims}
    campaigns += of.values()
    outcomes: dict[str, object] = {}
    done, turn = 0, 0
    while done < number:
        victim = victims[turn % len(victims)]
        if victim.name not in outcomes and victim.outcome is not nothing:
            world = _prepared(victim, folder)
            _timed(world, *victim.at_last)
            outcomes[victim.name] = victim.outcome(world)
        turn += 1
        world = _prepared(victim, folder)
        done += _chain(victim, of[victim.name], world, rng, min(MOST, number - done))
        if (outcome := victim.outcome(world)) != outcomes.get(victim.name):
            of[victim.name].blame("wrong", f"{outcome}; undisturbed: {outcomes.get(victim.name)}")
        print(f"  {done} of {number} kills", file=sys.stderr, flush=True)


def _prepared(victim: Victim, folder: Path) -> World:
    world = victim.template.copy(folder / "victim")
    victim.prepare(world)
    return world


def _chain(victim: Victim, campaign: Campaign, world: World, rng: random.Random, most: int) -> int:
    """Kill a command so many times at most, then let it end. Returns the number of kills."""
    numbers, before = [], campaign.tried
    for _ in range(most):
        number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        process = world.start(*victim.command)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0.0, 1.05 * victim.seconds))
            break
        numbers.append(number)
        _kill(process, number, campaign)
    code, output = world.run(*victim.at_last)
    if code:
        campaign.blame("dead", f"after {[n.name for n in numbers]}: {output[-300:]}")
        return campaign.tried - before
    _judge(campaign, world, victim.wanted, f"after {[n.name for n in numbers]}")
    _judge_runs(campaign, world, signal.SIGKILL not in numbers)
    return campaign.tried - before


def _kill(process: "subprocess.Popen[str]", number: signal.Signals, campaign: Campaign) -> None:
    campaign.tried += 1
    began = time.monotonic()
    if number == signal.SIGKILL:  # as when the power is cut: servers have sessions of their own
        _kill_all(process.pid)
    else:
        os.killpg(process.pid, number)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        campaign.blame("late", f"{number.name}: it did not end within a minute: {process.communicate()[0][-200:]}")
        return
    if number == signal.SIGKILL:
        return
    seconds = time.monotonic() - began
    # before Traube listens, the signal itself ends the process: to a shell, both are 128 + its number
    if seconds > campaign.seconds_to_end or process.returncode not in (0, 128 + number, -number):
        campaign.blame("late", f"{number.name}: {seconds:.1f} s, exit code {process.returncode}: {output[-300:]}")
    if "Traceback" in output and process.returncode != -number:  # Python's own, before Traube listens
        campaign.blame("traceback", f"{number.name}: {output[max(0, output.index('Traceback') - 200) :][:1500]}")


def _kill_all(pid: int) -> None:
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _judge(campaign: Campaign, world: World, wanted: pd.DataFrame, note: str) -> None:
    """Compare what is stored with what an undisturbed run stores."""
    stored = world.results()
    keys = [column for column in stored.columns if column != "value"]
    if stored.duplicated(keys).any():
        campaign.blame("doubled", note)
    both = wanted.merge(stored.drop_duplicates(keys), on=keys, how="left", suffixes=("", "_stored"))
    if both["value_stored"].isna().any():
        campaign.blame("lost", f"{int(both['value_stored'].isna().sum())} scores {note}")
    if (both["value"] != both["value_stored"])[both["value_stored"].notna()].any():
        campaign.blame("wrong", note)


def _judge_runs(campaign: Campaign, world: World, no_failures: bool) -> None:
    """When the UI is opened, no run of Dagster's is open; one that was stopped by hand is no failure."""
    world.run("init")  # brings the instance in line, as `dev` does
    if world.servers:
        states = [str(row[0]) for row in world.servers.query(world.folder.name, "SELECT status FROM dagster.runs")]
    else:
        with closing(sqlite3.connect(world.home / "dagster" / "history" / "runs.db")) as database:
            states = [row[0] for row in database.execute("SELECT status FROM runs")]
    left = {"NOT_STARTED", "STARTING", "STARTED", "CANCELING"} & set(states)
    if left or (no_failures and "FAILURE" in states):
        campaign.blame("wrong", f"runs of Dagster's that are {sorted({*left, *({'FAILURE'} & set(states))})}")


# several writers


def writers(
    template: World,
    rounds: int,
    at_once: int,
    folder: Path,
    wanted: pd.DataFrame,
    rng: random.Random,
    where: str,
    campaigns: list[Campaign],
) -> None:
    """Several runs at once, in one home."""
    campaign = Campaign(f"2 to {at_once} writers at once, {where}")
    campaigns.append(campaign)
    for _ in range(rounds):
        world, number = template.copy(folder / "writers"), rng.randint(2, at_once)
        processes = [world.start("run") for _ in range(number)]
        campaign.tried += number
        for process in processes:
            output, _ = process.communicate(timeout=600)
            if process.returncode:
                campaign.blame("dead", f"{number} writers: {output[-400:]}")
            if "Traceback" in output:
                campaign.blame("traceback", output[-400:])
        _judge(campaign, world, wanted, f"{number} writers")


# flipped bytes


def flips(
    template: World,
    number: int,
    heals: int | None,
    folder: Path,
    wanted: pd.DataFrame,
    rng: random.Random,
    campaigns: list[Campaign],
) -> None:
    """Damage one file of a finished home and read: what is read is right, or is said to be missing.
    Each kind of file once: run then, which makes what is missing again.
    """
    world = template.copy(folder / "flips")
    os.environ.update(world.environment())
    kinds: dict[str, list[Path]] = {}
    for path in _list_stored(world.home):
        kinds.setdefault(_kind(path, world.home), []).append(path)
    of = {kind: Campaign(f"damage {kind}") for kind in kinds}
    campaigns += of.values()
    for i in range(number):
        kind = list(kinds)[i % len(kinds)]
        path = rng.choice(kinds[kind])
        whole, state = path.read_bytes(), path.stat()
        how = _damage(path, whole, rng)
        of[kind].tried += 1
        _read(of[kind], world, wanted, f"{path.name}: {how}")
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    for kind, campaign in list(of.items())[:heals]:
        world = template.copy(folder / "heals")
        path = world.folder / rng.choice(kinds[kind]).relative_to(folder / "flips")
        how = _damage(path, path.read_bytes(), rng)
        if kind == "blobs, matrices":  # they are read when a cell is missing
            storage = open_storage(world.home)
            for row in storage.read_rows(CellRow):
                storage.blobs.delete(row.blob)
            storage.verify()
        elif kind.startswith("catalog") or path.name == IDENTITY:  # a run refuses and says so
            world.run("rebuild")
        campaign.tried += 1
        code, output = world.run("run")
        if code:
            campaign.blame("dead", f"{path.name}, {how}: {output[-300:]}")
            continue
        _judge(campaign, world, wanted, f"run after {path.name}: {how}")


def _list_stored(home: Path) -> list[Path]:
    """Return the files that results and tables lie in."""
    files = [file for folder in ("blobs", "embeddings") for file in (home / folder).rglob("*")]
    return [home / "catalog.db", *sorted(file for file in files if file.is_file() and file.suffix != ".lock")]


def _kind(path: Path, home: Path) -> str:
    folder, *_ = path.relative_to(home).parts
    if folder != "blobs" or path.suffix:
        return f"{folder}, {path.suffix or path.name}"
    content = path.read_bytes()
    if content.startswith(b"PAR1"):
        return "blobs, tables"
    try:
        return f"blobs, {Entry.unpack(content).table}"
    except TraubeError:
        return "blobs, matrices"


def _damage(path: Path, whole: bytes, rng: random.Random) -> str:
    """Damage a file in one of four ways, and say in which."""
    data, at = bytearray(whole), rng.randrange(len(whole))
    how = rng.choice(("a flipped bit", "zeros", "random bytes", "cut off"))
    length = rng.randint(1, 64)
    if how == "a flipped bit":
        data[at] ^= 1 << rng.randrange(8)
    elif how == "zeros":
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif how == "random bytes":
        data[at : at + length] = rng.randbytes(len(data[at : at + length]))
    else:
        data = data[:at]
    path.unlink()  # a database that is open would go on with the pages that it has read
    path.write_bytes(bytes(data))
    return f"{how} at {at} of {len(whole)}"


def _read(campaign: Campaign, world: World, wanted: pd.DataFrame, note: str) -> None:
    """Read as `traube run` and `traube leaderboard` do: the plan, then the scores of what counts."""
    from traube._pipeline.params import load_params
    from traube._pipeline.request import Request, list_wanted_models
    from traube._pipeline.survey import plan
    from traube._reports.tables import leaderboard, tables_are_current

    params = load_params()
    request = Request(params.tasks, list_wanted_models(params), params.protocol, params.chosen())
    try:
        storage = open_storage(world.home)
        todo = plan(request, storage)
        said = bool(todo.count or todo.unread) or not tables_are_current(storage)
        leaderboard(storage, protocols=params.protocols)
        stored = world.results()
    except TraubeError:
        return  # it says what is damaged; whether `run` mends it is seen below
    except Exception as error:
        campaign.blame("traceback", f"{note}: {type(error).__name__}: {error}")
        return
    keys = [column for column in stored.columns if column != "value"]
    both = wanted.merge(stored, on=keys, how="left", suffixes=("", "_stored"))
    if (both["value"] != both["value_stored"])[both["value_stored"].notna()].any() or len(stored) > len(wanted):
        campaign.blame("wrong", note)
    elif both["value_stored"].isna().any() and not said:
        campaign.blame("lost", f"{note}; nothing says so")


# full disks


def full_disks(template: World, levels: int, folder: Path, wanted: pd.DataFrame, campaigns: list[Campaign]) -> None:
    """Start in a home that lies on a disk of 0 to 5 MiB; then give it room."""
    campaign = Campaign("full disk")
    campaigns.append(campaign)
    home = template.copy(folder / "full").home
    home.mkdir(exist_ok=True)
    for level in range(levels):
        kilobytes = 64 + round(level * 5 * 1024 / levels)
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(home)], check=False
        ).returncode:
            campaign.notes.append("skipped: no right to mount a file system")
            return
        try:
            _on_small_disk(campaign, World(folder / "full"), f"{kilobytes} KiB", wanted)
        finally:
            subprocess.run(["umount", "-l", str(home)], check=False)


def _on_small_disk(campaign: Campaign, world: World, note: str, wanted: pd.DataFrame) -> None:
    for command in ("init", "run", "leaderboard"):
        code, output = world.run(command)
        campaign.tried += 1
        if "Traceback" in output or code not in (0, 1):
            campaign.blame("traceback", f"{command} with {note}: {output[-300:]}")
        if code == 1 and "disk is full" not in output.strip().rpartition("\n")[2]:
            campaign.blame("wrong", f"{command} with {note} does not end with the full disk: {output[-300:]}")
    subprocess.run(["mount", "-o", "remount,size=500m", str(world.home)], check=True)
    code, output = world.run("run")
    if code:
        campaign.blame("dead", f"{note}: {output[-300:]}")
        return
    _judge(campaign, world, wanted, note)


# all of it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=10, help="rounds of several writers")
    parser.add_argument("--at-once", type=int, default=4, choices=range(2, 9), help="the most writers of a round")
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--heals", type=int, help="kinds of damaged files that a run has to mend; default: all")
    parser.add_argument("--levels", type=int, default=20, help="full disks, from 0 to 5 MiB of room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-to-end", type=float, default=3.0, help="after which a process is late")
    parser.add_argument("--only", help="victims of kills, by name with commas between; default: all")
    parser.add_argument(
        "--no-encoder", dest="encoder", action="store_false", help="lexical models alone, which start sooner"
    )
    parser.add_argument("--servers", action="store_true", help="kills and writers on Postgres and S3, and nothing else")
    arguments = parser.parse_args()
    # a shell that starts this in the background has it ignore Ctrl-C, and the processes here would too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    campaigns: list[Campaign] = []
    with TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as temporary, ExitStack() as opened:
        folder = Path(temporary)
        servers = Servers(opened, folder) if arguments.servers else None
        try:
            conduct(folder, arguments, campaigns, servers)
        except KeyboardInterrupt:
            print("stopped before its end")
    rows = [{"what": c.what, "tried": c.tried, **c.faults} for c in campaigns]
    print(f"seed {arguments.seed}\n\n{pd.DataFrame(rows).to_markdown(index=False)}\n")
    for campaign in campaigns:
        for note in dict.fromkeys(campaign.notes):
            print(f"- {campaign.what}: {note}")
    return int(any(any(c.faults.values()) for c in campaigns))


def conduct(
    folder: Path, arguments: argparse.Namespace, campaigns: list[Campaign], servers: Servers | None = None
) -> None:
    """Run all requested campaigns, in a folder of their own; each is in the list from its beginning."""
    rng = random.Random(arguments.seed)
    empty = make_world(folder / "empty", encoder=arguments.encoder, servers=servers)
    ready = empty.copy(folder / "ready")
    start = _timed(ready, "init")
    # a first start compiles for most of its time: what is killed begins with the machine code
    if (ready.home / "compiled").exists():  # it may lie elsewhere: NUMBA_CACHE_DIR
        shutil.copytree(ready.home / "compiled", empty.home / "compiled")
        start = _timed(empty.copy(folder / "first"), "init") if arguments.kills else 0.0
    done = ready.copy(folder / "done")
    whole = _timed(done, "run")
    wanted = done.results()
    none_yet = wanted.iloc[:0]
    victims = [
        Victim("init", ("init",), empty, start, none_yet),
        Victim("first run", ("run",), empty, start + whole, wanted),
        Victim("run", ("run",), ready, whole, wanted),
        Victim("publish", ("run",), done, whole / 2, wanted, _without_tables),
        Victim("registry", ("run",), done, whole / 2, wanted, _without_registry, _registered),
        Victim("train", TRAINING, done, whole, wanted, outcome=_weights),
        Victim("tune", TUNING, done, whole, wanted, outcome=_trials),
        Victim("dev", ("dev", "--port", "3950", "--mlflow-port", "5950"), done, whole, wanted),
    ]
    able = [v for v in victims if arguments.encoder or BASE not in v.command]
    if servers:  # what is removed first of the registry and the tables is MLflow's file
        able = [v for v in able if v.name != "registry"]
    chosen = [v for v in able if not arguments.only or v.name in arguments.only.split(",")]
    if arguments.kills:
        kills(chosen, arguments.kills, rng, folder, campaigns, arguments.seconds_to_end)
    for template, rounds, where in (
        (empty, arguments.writers // 2, "a first start"),
        (ready, arguments.writers - arguments.writers // 2, "a home that is made"),
    ):
        if rounds:
            writers(template, rounds, arguments.at_once, folder, wanted, rng, where, campaigns)
    if servers:
        return
    if arguments.flips:
        flips(done, arguments.flips, arguments.heals, folder, wanted, rng, campaigns)
    if arguments.levels:
        full_disks(empty, arguments.levels, folder, wanted, campaigns)


def _timed(world: World, *command: str) -> float:
    began = time.monotonic()
    code, output = world.run(*command)
    if code:
        raise SystemExit(f"undisturbed, traube {' '.join(command)} ends with {code}: {output}")
    return time.monotonic() - began


def _without_tables(world: World) -> None:
    (world.home / "tables" / "published.json").unlink(missing_ok=True)


def _without_registry(world: World) -> None:
    _without_tables(world)
    (world.home / "mlflow.db").unlink()


def _registered(world: World) -> object:
    """Of each registered model, how many champions there are, and how many versions too many: that
    are of the same, or of nobody knows what. A challenger is there from the second time on.
    """
    with closing(sqlite3.connect(world.home / "mlflow.db")) as database:
        champions = database.execute(
            "SELECT name, COUNT(*) FROM registered_model_aliases WHERE alias = 'champion' GROUP BY name ORDER BY name"
        ).fetchall()
        doubled = database.execute(
            "SELECT m.name, COUNT(*) - COUNT(DISTINCT t.value) FROM model_versions m LEFT JOIN model_version_tags t "
            "ON t.name = m.name AND t.version = m.version AND t.key = 'traube.key' GROUP BY m.name ORDER BY m.name"
        ).fetchall()
    return champions, doubled


def _weights(world: World) -> object:
    """The content of each checkpoint's weights."""
    folder = world.folder / "checkpoints"
    return {str(p.relative_to(folder)): file_sha256(p) for p in sorted(folder.glob("[!.]*/model.safetensors"))}


def _trials(world: World) -> object:
    """Return the number of finished trials of the study."""
    from traube.training.study import open_study, read_state

    (path,) = world.home.glob("studies/*.log")
    return read_state(open_study(path, "cob")).trials


if __name__ == "__main__":
    sys.exit(main())
