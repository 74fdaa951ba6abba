"""Everything that this project claims or wants to know of a GPU, in one command: `make bench-gpu`.

Each finding is a row of FOLDER/rows.jsonl, written as soon as it is there. A run that is stopped (Ctrl-C, the budget) goes on
where it was when it is started again with the same folder: rows that are there are not measured again, and trainings go on
from their last save. In the end, and with --show alone, all rows are printed as tables.

parts
  encoding   tokens a second of MiniLM and of a large encoder on many short and long texts, beside sentence-transformers, as
             a share of the bf16 peak, with a trace of where the time goes; at most eight minutes
  tests      the tests marked `gpu`; one that fails fails the part, which the next call does again
  peaks      operations a second of a large matrix product in fp32, tf32 and bf16
  speed      tokens a second of three encoders in fp32, tf32 and bf16, as a share of the measured matrix products' peak
             (goal: 40 % in bf16), and beside sentence-transformers' default, in turns (goal: 3 times)
  deviation  how far vectors are from those of the CPU in fp32
  memory     what happens when a batch does not fit
  training   WWM and TSDAE, papers' recipes
  cob        COB on 20 Newsgroups, paper's recipe, all layers (TRAUBE_RAW)
  aecl       AECL on the eight short-text sets, 70 epochs, and k-means beside it (TRAUBE_RAW)

`base` and `large` are BERT's shapes with random weights: speed does not depend on them, scores would. Where there is no GPU,
--tiny does all of it on the CPU with small encoders and few texts, in a few minutes: the code is the same, the numbers mean
nothing. Data that is not there (see `traube tasks`) is named and left out.
"""

import argparse
import json
import logging
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import normalized_mutual_info_score

from traube._core import paths
from traube._core.errors import TraubeError, Unavailable
from traube._core.progress import Progress
from traube.components import VectorView
from traube.components.deep import DEEP
from traube.components.fitting import fit_clusterer
from traube.metrics.clustering import acc
from traube.models import ModelCard, load_model, model_of
from traube.models._batching import Block, Sent, cut_blocks, make_block
from traube.models.tensors import quiet
from traube.models.transformer import Transformer, best_device
from traube.papers.aecl.readers import read_augmentations
from traube.tasks import load_task
from traube.training import TRAINERS
from traube.training.clusterings import ARI, VALIDATED
from traube.training.trainer import mean_score

GOALS = {"of peak, bf16": 0.40, "times sentence-transformers, bf16": 3.0}
SETS = (
    "tweet",
    "agnews",
    "googlenews_ts",
    "googlenews_t",
    "googlenews_s",
    "searchsnippets",
    "stackoverflow",
    "biomedical",
)
# hidden size, layers, heads; of BERT
SHAPES = {"base": (768, 12, 12), "large": (1024, 24, 16)}
TINY_SHAPES = {"base": (48, 2, 2), "large": (64, 3, 2)}
PRECISIONS = ("fp32", "tf32", "bf16")
TEXTS = {"short": "pydocs_s2s", "long": "pydocs_p2p"}
ROUNDS = 3
Row = dict[str, Any]
Unit = tuple[str, Callable[[], list[Row]]]


class OutOfTime(Exception):
    """The budget is used up."""


@dataclass
class Day:
    """Units that are measured, their machine, and their results."""

    folder: Path
    tiny: bool
    ends: float
    seconds: float = 4.0  # of a side, where speed is measured
    rows: list[Row] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.folder / "rows.jsonl"

    @cached_property
    def device(self) -> str:
        return "cpu" if self.tiny else best_device()

    @cached_property
    def machine(self) -> str:
        """Return the name of the processor; numbers of two machines are not to stand in one table."""
        name = torch.cuda.get_device_name() if self.device == "cuda" else platform.machine()
        return f"{name}, torch {torch.__version__}{', tiny' if self.tiny else ''}"

    def read(self) -> None:
        """Return the earlier results."""
        if self.path.exists():
            self.rows = [json.loads(line) for line in self.path.read_text().splitlines()]

    def require_one_machine(self) -> None:
        """Refuse to add to what was found on another machine.

        Raises
        ------
        TraubeError
            If it was.
        """
        others = {row["machine"] for row in self.rows} - {self.machine}
        if others:
            raise TraubeError(
                f"{self.path} holds rows of {others.pop()}, and this is {self.machine}: give another --out"
            )

    def has(self, part: str, unit: str) -> bool:
        return any((row["part"], row["unit"]) == (part, unit) for row in self.rows)

    def add(self, part: str, unit: str, found: list[Row], minutes: float) -> None:
        about = {"part": part, "unit": unit, "machine": self.machine}
        rows = [{**about, **row, "minutes": round(minutes, 2)} for row in found]
        with self.path.open("a") as file:  # in one write: a unit is there whole or not at all
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        self.rows += rows

    def progress(self) -> Progress:
        """One that ends a training when the budget is used up."""
        return Progress(done=lambda stage, amount: self.check())

    def check(self) -> None:
        if time.monotonic() > self.ends:
            raise OutOfTime

    def encoder(self, name: str, precision: str = "fp32", device: str | None = None) -> Transformer:
        """MiniLM, or an encoder of a shape with random weights; tf32 is how fp32 is multiplied."""
        stored: Any = "bf16" if precision == "bf16" else "fp32"
        shapes = TINY_SHAPES if self.tiny else SHAPES
        if name == "minilm" and not self.tiny:
            card = load_model("minilm").card
        else:
            folder = self.folder / "encoders" / name
            card = ModelCard(name=name, model=str(made(folder, *shapes.get(name, (32, 1, 2)))), max_length=256)
        model = model_of(card.model_copy(update={"precision": stored}), device or self.device)
        assert isinstance(model, Transformer)
        return model

    def weights(self, name: str) -> str:
        return "its own" if name == "minilm" and not self.tiny else "random"


def made(folder: Path, hidden: int, layers: int, heads: int) -> Path:
    """An encoder with random weights and MiniLM's tokens."""
    if (folder / "tokenizer.json").exists():
        return folder
    from transformers import AutoTokenizer, BertConfig, BertModel

    tokenizer = AutoTokenizer.from_pretrained(load_model("minilm").folder)  # type: ignore[attr-defined]
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
    )
    torch.manual_seed(0)
    with quiet():
        BertModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


# the parts: each gives its units, with what measures them


def tests(day: Day) -> Iterator[Unit]:
    def run() -> list[Row]:
        files = [p for p in (paths.PROJECT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text(encoding="utf-8")]
        report = day.folder / "tests.xml"
        report.unlink(missing_ok=True)
        command = [*(sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0", "-q", "-s"), f"--junitxml={report}"]
        ended = subprocess.run(
            [*command, *map(str, files)], cwd=paths.PROJECT, capture_output=True, text=True, check=False
        )
        (day.folder / "tests.txt").write_text(ended.stdout + ended.stderr)
        if not report.exists():
            raise TraubeError(f"the tests did not run: see {day.folder / 'tests.txt'}")
        (suite,) = ElementTree.parse(report).iter("testsuite")
        counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        none_ran = counts["tests"] == counts["skipped"] and not day.tiny  # without a GPU all are skipped
        if ended.returncode or none_ran:  # reported, and done again by the next call
            said = ", ".join(f"{number} {name}" for name, number in counts.items())
            raise TraubeError(f"{said}: see {day.folder / 'tests.txt'}")
        return [
            {**counts, "what they print": " ".join(line for line in ended.stdout.splitlines() if "tokens/s" in line)}
        ]

    yield "marked gpu", run


def encoding(day: Day) -> Iterator[Unit]:
    """Many texts, one round: what batches, the tokenizer and waiting take, and not how far rounds differ."""
    for name in ("minilm", "large"):
        for kind, task in TEXTS.items():

            def measure(name: str = name, task: str = task) -> list[Row]:
                rows = speeds(day, name, task, ("fp32", "bf16"), rounds=1, seconds=15, most=100_000)
                return [*rows, trace(day, name, task)]

            yield f"{name}, {kind} texts", measure


def trace(day: Day, name: str, task: str) -> Row:
    """Profile the encoding of some texts in bf16: operations by their time in a file, and how long the GPU was idle."""
    from torch.profiler import ProfilerActivity, profile

    model = day.encoder(name, "bf16")
    texts = load_task(task).texts[: 64 if day.tiny else 1_500] * (1 if day.tiny else 4)
    model.encode(texts[:64])
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if day.device == "cuda" else [])]
    began = time.perf_counter()
    with profile(activities=kinds) as profiled:
        model.encode(texts)
    seconds = time.perf_counter() - began
    averages = profiled.key_averages()
    kind = "device" if day.device == "cuda" else "cpu"
    path = day.folder / f"trace_{name}_{task}.txt"
    path.write_text(averages.table(sort_by=f"self_{kind}_time_total", row_limit=40))
    busy = sum(getattr(event, f"self_{kind}_time_total") for event in averages) / 1e6
    return {"side": "Traube, bf16, traced", "texts": len(texts), f"{day.device} busy": round(busy / seconds, 3)}


def speed(day: Day) -> Iterator[Unit]:
    for name in ("minilm", *SHAPES):
        for kind, task in TEXTS.items():
            yield f"{name}, {kind} texts", lambda name=name, task=task: speeds(day, name, task)  # type: ignore[misc]


def speeds(
    day: Day,
    name: str,
    task: str,
    precisions: Sequence[str] = PRECISIONS,
    rounds: int = ROUNDS,
    seconds: float | None = None,
    most: int = 400_000,
) -> list[Row]:
    """Sentence-transformers and each precision in turns, so many rounds, after one that warms up."""
    models = {precision: day.encoder(name, precision) for precision in precisions}
    texts = load_task(task).texts[: 200 if day.tiny else None]
    models["fp32"].encode(texts[:64])
    began = time.perf_counter()
    models["fp32"].encode(texts[:256])
    rate = 256 / (time.perf_counter() - began)
    wanted = min(int(rate * (0.3 if day.tiny else seconds or day.seconds)), most)
    texts = (texts * (1 + wanted // len(texts)))[: max(wanted, 64)]
    began = time.perf_counter()
    tokens = count_tokens(models["fp32"], texts)
    tokenizing = time.perf_counter() - began
    sides: dict[str, Callable[[], Any]] = {
        "sentence-transformers": lambda: models["fp32"].network.encode(texts, show_progress_bar=False),
        **{precision: lambda precision=precision: models[precision].encode(texts) for precision in precisions},  # type: ignore[misc]
    }
    timed: dict[str, list[float]] = {side: [] for side in sides}
    for round_ in range(rounds + 1):
        for side, encode in sides.items():
            day.check()
            with multiplied_in(side):
                began = time.perf_counter()
                encode()
                if round_:  # the first warms up
                    timed[side].append(time.perf_counter() - began)
    work = sum(2 * m.weight.numel() for m in models["fp32"].network.modules() if isinstance(m, torch.nn.Linear))
    plain, rows = median(timed["sentence-transformers"]), []
    for side, taken in timed.items():
        precision = side if side in precisions else "fp32"
        rows.append(
            {
                "side": side if side not in precisions else f"Traube, {side}",
                "weights": day.weights(name),
                "texts": len(texts),
                "tokens a text": round(tokens / len(texts)),
                "tokens a s": round(tokens / median(taken)),
                "of peak": round(tokens / median(taken) * work / peak(day, precision), 3),
                "times sentence-transformers": round(plain / median(taken), 2),
                "slowest of fastest": round(max(taken) / min(taken), 2),
                "share of tokenizing alone": round(tokenizing / median(taken), 2),
            }
        )
    return rows


def count_tokens(model: Transformer, texts: list[str]) -> int:
    return sum(
        int(make_block(model.network, texts, positions, model.prompt).lengths.sum())
        for positions in cut_blocks(texts, model.max_length)
    )


@contextmanager
def multiplied_in(precision: str) -> Iterator[None]:
    """fp32 matrix products by tf32 where that is the precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


_PEAKS: dict[str, float] = {}


def peak(day: Day, precision: str) -> float:
    """Floating-point operations a second of a large matrix product, the best of many."""
    if precision not in _PEAKS:
        size, dtype = 512 if day.tiny else 8192, torch.bfloat16 if precision == "bf16" else torch.float32
        a, b = (torch.randn(size, size, device=day.device).to(dtype) for _ in range(2))
        seconds = []
        with multiplied_in(precision):
            for _ in range(30):
                settle(day.device)
                began = time.perf_counter()
                a @ b
                settle(day.device)
                seconds.append(time.perf_counter() - began)
        _PEAKS[precision] = 2 * size**3 / min(seconds)
    return _PEAKS[precision]


def settle(device: str) -> None:
    """Wait for what the GPU still does."""
    if device == "cuda":
        torch.cuda.synchronize()


def peaks(day: Day) -> Iterator[Unit]:
    for precision in PRECISIONS:
        yield (
            precision,
            lambda precision=precision: [{"matrix product, TFLOP/s": round(peak(day, precision) / 1e12, 3)}],  # type: ignore[misc]
        )


def deviation(day: Day) -> Iterator[Unit]:
    def run(name: str) -> list[Row]:
        texts = load_task("pydocs_p2p").texts[: 16 if day.tiny else 64]
        true, rows = unit_rows(day.encoder(name, device="cpu").encode(texts)), []
        for precision in PRECISIONS:
            with multiplied_in(precision):
                found = unit_rows(day.encoder(name, precision).encode(texts))
            apart = 1 - (true * found).sum(axis=1)
            rows.append(
                {
                    "side": precision,
                    "weights": day.weights(name),
                    "1 - cosine, mean": float(f"{abs(apart.mean()):.1e}"),
                    "1 - cosine, most": float(f"{abs(apart).max():.1e}"),
                }
            )
        return rows

    for name in ("minilm", *SHAPES):
        yield name, lambda name=name: run(name)  # type: ignore[misc]


def unit_rows(vectors: Any) -> Any:
    wide = np.asarray(vectors, dtype=np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def memory(day: Day) -> Iterator[Unit]:
    def run() -> list[Row]:
        texts = load_task("pydocs_p2p").texts[: 100 if day.tiny else 2_000]
        model, heard = day.encoder("minilm"), _Heard()
        free = model.encode(texts)
        logger = logging.getLogger("traube.models.transformer")
        logger.addHandler(heard)
        try:
            with less_memory(day, model):
                squeezed = model.encode(texts)
        finally:
            logger.removeHandler(heard)
        apart = 1 - (unit_rows(free) * unit_rows(squeezed)).sum(axis=1)
        limit = "pretended: batches above 2,000 tokens are refused" if day.device == "cpu" else "set for this process"
        last = heard.said[-1] if heard.said else "nothing"
        return [
            {
                "limit": limit,
                "halved": len(heard.said),
                "said last": last,
                "1 - cosine, most": float(f"{apart.max():.1e}"),
            }
        ]

    yield "a batch that does not fit", run


@contextmanager
def less_memory(day: Day, model: Transformer) -> Iterator[None]:
    """Little more GPU memory than is in use. A CPU's batches are small, and it knows no such limit: there
    large batches are made, and the larger ones refused.
    """
    if day.device != "cpu":
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 400 * 2**20) / whole)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    from traube.models import transformer

    forward, usual = model._forward, transformer.TOKENS_A_BATCH["cpu"]

    def refuse(batch: Block) -> Sent:
        if int(batch.lengths.max()) * len(batch.texts) > 2_000:
            raise torch.OutOfMemoryError
        return forward(batch)

    transformer.TOKENS_A_BATCH["cpu"] = 16_000
    model._forward = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        transformer.TOKENS_A_BATCH["cpu"] = usual
        del model._forward


def training(day: Day) -> Iterator[Unit]:
    for name in ("wwm", "tsdae"):
        yield name, lambda name=name: [trained(day, name, "pydocs_s2s", {"epochs": 0.02} if day.tiny else {})]  # type: ignore[misc]


def trained(day: Day, name: str, task_name: str, changes: Row) -> Row:
    """A training by the paper's recipe, but for some values. What is stopped goes on."""
    trainer, task, base = TRAINERS[name].with_values(**changes), load_task(task_name), day.encoder("minilm")
    forget_peak(day)
    left = trainer.fit(task, base, day.folder / "checkpoints", progress=day.progress())
    last = left.curve[-1]
    return {
        "task": task_name,
        "recipe": "paper's" if not changes else f"but for {changes}",
        "base": base.name,
        "weights": day.weights("minilm"),
        "steps": last["step"],
        "training, s": round(float(last["seconds"] or 0), 1),
        "steps a s": round(float(last["step"] or 0) / max(float(last["seconds"] or 0), 1e-9), 2),
        f"{left.watched}, before": round(100 * left.scores[0], 2),
        "after": round(100 * left.scores[-1], 2),
        "best": round(100 * max(left.scores), 2),
        "GPU memory, GiB": highest(day),
    }


def forget_peak(day: Day) -> None:
    if day.device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def highest(day: Day) -> float | None:
    return round(torch.cuda.max_memory_allocated() / 2**30, 2) if day.device == "cuda" else None


def cob(day: Day) -> Iterator[Unit]:
    def run() -> list[Row]:
        changes: Row = {"epochs": 0.02, "max_length": 16} if day.tiny else {}
        row = trained(day, "cob", "newsgroups", changes)
        task, base = load_task("newsgroups"), day.encoder("minilm")
        left = (
            TRAINERS["cob"].with_values(**changes).load_checkpoint("newsgroups", base.name, day.folder / "checkpoints")
        )
        cards = {"before": base.card, "best": ModelCard(name="best", model=str(left.best))}
        for when, card in cards.items():
            day.check()
            cut = card.model_copy(update={"max_length": 16}) if day.tiny else card
            model: Any = model_of(cut, day.device)
            row[f"test ARI, {when}"] = round(mean_score(task, model, VALIDATED, ARI), 4)
        return [row]

    yield "newsgroups, all layers", run


def aecl(day: Day) -> Iterator[Unit]:
    def run(name: str) -> list[Row]:
        task = load_task(name)
        (split,) = task.test_splits()
        chosen = slice(0, 120 if day.tiny else None)
        gold: Any = split.labels[chosen]  # type: ignore[index]
        texts = task.texts_at(split.rows[chosen])
        k = len(set(gold))
        base: Any = day.encoder("minilm") if day.tiny else load_model("minilm_32", day.device, "fp32")
        plain = fit_clusterer("kmeans", {"n_init": 1}, VectorView(base.encode(texts)), k, 0).labels
        views = "published" if read_augmentations(name) else "eda"
        clusterer = DEEP["aecl"].with_values(augmentation=views, **({"epochs": 2, "batch": 60} if day.tiny else {}))
        clusterer.augment = clusterer.make_augmenter(name, texts, base)
        forget_peak(day)
        began = time.perf_counter()
        found = clusterer.fit_predict(texts, k, base, 0, day.folder / "aecl" / name, day.progress(), gold)
        return [
            {
                "texts": len(texts),
                "classes": k,
                "augmentation": views,
                "epochs": len(clusterer.history),
                "k-means ACC": round(100 * acc(gold, plain), 1),
                "k-means NMI": round(100 * normalized_mutual_info_score(gold, plain), 1),
                "AECL ACC": round(100 * acc(gold, found), 1),
                "AECL NMI": round(100 * normalized_mutual_info_score(gold, found), 1),
                "clusters": len(set(found.tolist())),
                "s since it was last begun": round(time.perf_counter() - began, 1),
                "GPU memory, GiB": highest(day),
            }
        ]

    for name in SETS:
        yield name, lambda name=name: run(name)  # type: ignore[misc]


PARTS: dict[str, Callable[[Day], Iterator[Unit]]] = {
    "encoding": encoding,
    "tests": tests,
    "peaks": peaks,
    "speed": speed,
    "deviation": deviation,
    "memory": memory,
    "training": training,
    "cob": cob,
    "aecl": aecl,
}


def main() -> int:
    """0 where all is there; 1 where something was left out or failed, or a goal is missed; 130 after Ctrl-C."""
    arguments = _arguments()
    folder: Path = arguments.out or paths.home() / ("gpu_day_tiny" if arguments.tiny else "gpu_day")
    day = Day(folder, arguments.tiny, time.monotonic() + 60 * arguments.budget, arguments.seconds)
    folder.mkdir(parents=True, exist_ok=True)
    if day.device == "cpu" and not day.tiny and not arguments.show:
        raise SystemExit("there is no GPU here: --tiny does all of it on the CPU, in little")
    try:
        day.read()
        if not arguments.show:
            day.require_one_machine()
        missing = {} if arguments.show else measure(day, arguments.only or list(PARTS))
        status = int(bool(missing))
    except TraubeError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        missing, status = {"the rest": "stopped; the same command goes on"}, 130
    show(day)
    for unit, why in missing.items():
        print(f"not there: {unit}: {why}")
    return status or int(not day.tiny and not reached(day))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help="a part; repeat for more")
    parser.add_argument("--budget", type=float, default=40, metavar="MINUTES", help="after which it stops (40)")
    parser.add_argument("--seconds", type=float, default=4, help="that each side of `speed` takes, a round (4)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the rows; by default TRAUBE_HOME/gpu_day")
    parser.add_argument("--tiny", action="store_true", help="everything in little, on the CPU")
    parser.add_argument("--show", action="store_true", help="print the rows that are there, and measure nothing")
    return parser.parse_args()


def measure(day: Day, parts: list[str]) -> dict[str, str]:
    """Measure what is not there; what is still not there, and why."""
    missing: dict[str, str] = {}
    for part in parts:
        for unit, run in PARTS[part](day):
            if day.has(part, unit):
                continue
            name = f"{part}, {unit}"
            began = time.monotonic()
            print(f"{name} ...", flush=True)
            try:
                day.check()
                day.add(part, unit, run(), (time.monotonic() - began) / 60)
            except OutOfTime:
                missing[name] = "the budget is used up; the same command goes on"
            except Unavailable as error:
                missing[name] = str(error)
            except Exception as error:  # one part's fault is not to cost the others
                logging.getLogger(__name__).exception(name)
                missing[name] = f"failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return missing


def reached(day: Day) -> bool:
    """Return whether the goals are met: by the large encoder on long texts, and beside sentence-transformers on short ones."""
    rows = [r for r in day.rows if r["part"] in ("encoding", "speed") and r["side"] == "Traube, bf16"]
    best = {
        "of peak, bf16": max((r["of peak"] for r in rows if r["unit"] == "large, long texts"), default=0.0),
        "times sentence-transformers, bf16": max(
            (r["times sentence-transformers"] for r in rows if "short" in r["unit"]), default=0.0
        ),
    }
    for goal, value in GOALS.items():
        print(f"{goal}: {best[goal]:.2f} at best (goal {value:.2f}: {'met' if best[goal] >= value else 'missed'})")
    return all(best[goal] >= value for goal, value in GOALS.items())


def show(day: Day) -> None:
    """Print the rows, a table for each part; and keep the same text beside them."""
    machine = day.rows[0]["machine"] if day.rows else day.machine
    lines = [f"{machine}; {sum(minutes(day)):.1f} minutes in all", ""]
    for part in PARTS:
        rows = [{k: v for k, v in r.items() if k not in ("part", "machine")} for r in day.rows if r["part"] == part]
        if rows:
            lines += [
                f"## {part}",
                "",
                pd.DataFrame(rows).fillna("").to_markdown(index=False, disable_numparse=True),
                "",
            ]
    (day.folder / "tables.md").write_text("\n".join(lines))
    print("\n".join(lines))


def minutes(day: Day) -> list[float]:
    """Return the time of each unit."""
    return list({(row["part"], row["unit"]): float(row["minutes"]) for row in day.rows}.values())


if __name__ == "__main__":
    sys.exit(main())
