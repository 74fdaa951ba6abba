"""The table of bad inputs: files, command, and refusal."""

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from tests.errors import Refusal
from tests.inputs.case import Case, Content
from traube._core.errors import (
    Conflict,
    Inaccessible,
    Invalid,
    Malformed,
    Missing,
    TooFew,
    TooLarge,
    Unavailable,
    Unknown,
    Unsafe,
    Unsupported,
)

LONG = "x" * 5000
DEEP = "[" * 100_000


def cases() -> list[Case]:
    return [*_task_cards(), *_model_cards(), *_params(), *_data(), *_imports(), *_folders(), *_commands()]


# cards of tasks


TABLE = "file: words.csv\ntext: text\n"
TASK_CARDS: dict[str, tuple[str, Refusal]] = {
    "a user that there is not": ("file: ~nosuchuser/x.csv\ntext: t\n", (Invalid, "line 1", "file")),
    "a NUL in the path": ('file: "a\\0b"\ntext: t\n', (Invalid, "line 1", "file")),
    "a path of 5,000 characters": (f"file: {LONG}\ntext: t\n", (Invalid, "line 1", "file")),
    "a path of 3,000 folders": (f"file: {'a/' * 3000}x.csv\ntext: t\n", (Invalid, "line 1", "file")),
    "half a character in the path": ('file: "a\\ud800b"\ntext: t\n', (Malformed, "line 1")),
    "an empty path": ("file: ''\ntext: t\n", (Unavailable,)),
    "a folder": ("file: .\ntext: t\n", (Unavailable,)),
    "a file that is not there": ("file: none.csv\ntext: t\n", (Unavailable,)),
    "a device": ("file: /dev/zero\ntext: t\n", (Unavailable,)),
    "a URL": ("file: https://example.org/x.csv\ntext: t\n", (Unavailable,)),
    "a path that is a number": ("file: 17\ntext: t\n", (Invalid, "line 1", "file")),
    "a path that is a date": ("file: 2024-01-01\ntext: t\n", (Invalid, "line 1", "file")),
    "a path that is a list": ("file: [a.csv]\ntext: t\n", (Invalid, "line 1", "file")),
    "a path that is null": ("file:\ntext: t\n", (Invalid, "line 1", "file")),
    "no column of texts": ("file: words.csv\n", (Invalid, "line 1", "text")),
    "a column that is a number": ("file: words.csv\ntext: 1\n", (Invalid, "line 2", "text")),
    "a misspelled key": ("file: words.csv\ntxt: text\n", (Invalid, "line 2", "txt", "text")),
    "a key of 5,000 characters": (f"{TABLE}? {LONG}\n: 1\n", (Invalid,)),
    "a number as key": (TABLE + "1: 2\n", (Invalid, 1)),
    "a date as key": (TABLE + "2024-01-01: 2\n", (Invalid, 2024)),
    "null as key": (TABLE + "~: 2\n", (Invalid, "None")),
    "bytes as key": (TABLE + "? !!binary aGVsbG8=\n: 2\n", (Invalid, "hello")),
    "a map under a value's tag": (TABLE + "? !!str {=: x}\n: y\n", (Invalid, "x")),
    "labels that are a map": (TABLE + "labels: {a: b}\n", (Invalid, "line 3", "labels")),
    "labels that are numbers": (TABLE + "labels: [1, 2]\n", (Invalid, "line 3", "labels.0")),
    "a column of labels twice": (TABLE + "labels: [a, a]\n", (Invalid,)),
    "two separators": (TABLE + "separator: '::'\n", (Invalid, "line 3", "separator")),
    "no separator": (TABLE + "separator: ''\n", (Invalid, "line 3", "separator")),
    "one cluster": (TABLE + "clusters: 1\n", (Invalid, "line 3", "clusters", 2)),
    "infinitely many clusters": (TABLE + "clusters: .inf\n", (Invalid, "line 3", "clusters")),
    "clusters that are no number": (TABLE + "clusters: many\n", (Invalid, "line 3", "clusters")),
    "a family with a blank": (TABLE + "family: my own\n", (Invalid, "line 3", "family")),
    "a metric that there is not": (TABLE + "main_metric: v_measur\n", (Invalid, "line 3", "main_metric")),
    "a metric that is a list": (TABLE + "main_metric: [v_measure]\n", (Invalid, "line 3", "main_metric")),
    "a check that there is not": (TABLE + "blocking: [speed]\n", (Invalid, "line 3", "blocking.0")),
    "a check in no list": (TABLE + "blocking: texts_once\n", (Invalid, "line 3", "blocking")),
    "sizes that are texts": (TABLE + "declared: {splits: a}\n", (Invalid, "line 3", "declared.splits")),
    "no splits declared": (TABLE + "declared: {splits: 0}\n", (Invalid, "line 3", "declared.splits")),
    "another name": ("name: other\nfile: words.csv\ntext: text\n", (Conflict, "line 1", "name", "other")),
    "a name that is a list": ("name: [a]\nfile: words.csv\ntext: text\n", (Conflict,)),
    "no kind of task": ("language: de\n", (Malformed, "bad.yaml", "line 1", "dataset", "file")),
    "rows and a data set": ("rows: a.jsonl\ndataset: a/b\n", (Invalid, "rows", "dataset")),
    "rows of nobody": ("rows: ~nosuchuser/x.jsonl\n", (Invalid, "line 1", "rows")),
    "a data set that is no id": ("dataset: nothing\n", (Invalid, "line 1", "dataset")),
    "a data set that leads elsewhere": ("dataset: ../../etc\n", (Invalid, "line 1", "dataset")),
    "a revision that is a branch": ("dataset: a/b\nrevision: main\n", (Invalid, "line 2", "revision")),
    "pages of nobody": ("markdown: ~nosuchuser/x\n", (Invalid, "line 1", "markdown")),
    "no page to score": ("markdown: a\ntrain: 1\n", (Invalid, "line 2", "train", 1)),
    "sections of no kind": ("markdown: a\nsections: deep\n", (Invalid, "line 2", "sections", "flat", "hier")),
    "a column of rows": ("rows: a.jsonl\ntext: body\n", (Invalid, "line 2", "text")),
    "all pages to be trained on": (
        "markdown: a\ntrain: 0.7\nvalidation: 0.3\n",
        (Invalid, "bad.yaml", "train", "validation"),
    ),
    "a misspelled key of pages": ("markdown: a\nsection: flat\n", (Invalid, "line 2", "section")),
    "docstrings of no kind": ("pydocs: both\n", (Invalid, "line 1", "pydocs", "s2s", "p2p")),
    "docstrings of no size": ("pydocs: s2s\nsize: huge\n", (Invalid, "line 2", "size", "small", "full")),
}


def _place(refusal: Refusal, path: str) -> Refusal:
    """Return a refusal with the file of the line that it names."""
    return (*refusal, path) if any(str(value).startswith("line") for value in refusal) else refusal


def _task_cards() -> Iterator[Case]:
    for name, (content, refusal) in TASK_CARDS.items():
        yield Case(
            f"task card: {name}",
            {"cards/bad.yaml": content},
            ("run", "--task", "bad", "--dry-run"),
            _place(refusal, "bad.yaml"),
        )


# cards of models

MODEL_CARDS: dict[str, tuple[str, Refusal]] = {
    "of nobody": ("model: ~nosuchuser/x\n", (Invalid, "line 1", "model")),
    "null as a model": ("model:\n", (Invalid, "line 1", "model")),
    "a list as a model": ("model: [a/b]\n", (Invalid, "line 1", "model")),
    "a folder that is not there": ("model: ./gone\n", (Unavailable,)),
    "a file": ("model: ./words.csv\n", (Unavailable,)),
    "an empty folder": ("model: .\n", (Missing,)),
    "a misspelled key": ("model: ./x\npromt: a\n", (Invalid, "line 2", "promt", "prompt")),
    "a key twice as another": ("model: ./x\nname: Other Name\n", (Invalid, "line 2", "name")),
    "no pooling": ("model: ./x\npooling: sum\n", (Invalid, "line 2", "pooling")),
    "no precision": ("model: ./x\nprecision: fp8\n", (Invalid, "line 2", "precision")),
    "no length": ("model: ./x\nmax_length: 3\n", (Invalid, "line 2", "max_length", 4)),
    "a length of 1e99": ("model: ./x\nmax_length: 1.0e+99\n", (Invalid, "line 2", "max_length")),
    "a length in words": ("model: ./x\nmax_length: long\n", (Invalid, "line 2", "max_length")),
    "a prompt that is a list": ("model: ./x\nprompt: [a]\n", (Invalid, "line 2", "prompt")),
    "another kind": ("model: ./x\nkind: bow\n", (Invalid, "line 2", "kind")),
    "no kind": ("model: ./x\nkind: net\n", (Invalid, "line 2", "kind")),
    "a branch": ("model: a/b\nrevision: main\n", (Invalid, "line 2", "revision")),
    "a wrong checksum": ("model: ./x\nsha256: abc\n", (Invalid, "line 2", "sha256")),
    "of the hub, not here": ("model: nobody/no-such-model\n", (Unavailable,)),
    "no id of the hub": ("model: a/b/c/d\n", (Unavailable, "namespace/repo_name")),
}


def _model_cards() -> Iterator[Case]:
    for name, (content, refusal) in MODEL_CARDS.items():
        yield Case(
            f"model card: {name}",
            {"cards/bad.yaml": content},
            ("cluster", "{root}/notes.txt", "-m", "bad"),
            _place(refusal, "bad.yaml"),
        )


# params.yaml

PARAMS = """\
protocol: tiny
tasks: [words]
models: [bow]
protocols:
  tiny:
    reducers: [none, pca]
    clusterers: [kmeans, hdbscan]
    seeds: [1]
    parameters:
      kmeans: {n_init: 1}
      pca: {n_components: 2}
"""
# in place of what, what, and what is said
CHANGES: dict[str, tuple[str, str, Refusal]] = {
    "no protocol": ("protocol: tiny\n", "", (Invalid, "protocol")),
    "a merged protocol": ("protocol: tiny", "<<: {protocol: x}", (Invalid, "line 1", "protocol", "x")),
    "a protocol that is a list": ("protocol: tiny", "protocol: [tiny]", (Invalid, "line 1", "protocol")),
    "a protocol with markup": ("protocol: tiny", "protocol: 'a[/b]c'", (Invalid, "a[/b]c")),
    "tasks that are a text": ("tasks: [words]", "tasks: words", (Invalid, "line 2", "tasks")),
    "tasks that are numbers": ("tasks: [words]", "tasks: [1]", (Invalid, "line 2", "tasks.0")),
    "tasks in a map": ("tasks: [words]", "tasks: {words: 1}", (Invalid, "line 2", "tasks")),
    "a task that there is not": ("tasks: [words]", "tasks: [wordz]", (Unknown, "wordz", "words")),
    "no models": ("models: [bow]", "models: []", (Invalid, "line 3", "models")),
    "models that are null": ("models: [bow]", "models:", (Invalid, "line 3", "models")),
    "a model that there is not": ("models: [bow]", "models: [boww]", (Unknown, "boww")),
    "a model with a NUL": ("models: [bow]", 'models: ["a\\0b"]', (Unknown, "a\\x00b")),
    "protocols in a list": ("protocols:\n  tiny:", "protocols:\n- tiny:", (Invalid,)),
    "no protocols": (PARAMS[PARAMS.index("protocols:") :], "protocols: {}\n", (Invalid, "tiny")),
    "a protocol of nothing": (PARAMS[PARAMS.index("  tiny:") :], "  tiny:\n", (Invalid, "protocols.tiny")),
    "no reducers": ("[none, pca]", "[]", (Invalid, "line 6", "protocols.tiny.reducers")),
    "a clusterer as reducer": ("[none, pca]", "[kmeans]", (Invalid, "kmeans")),
    "a reducer that is null": ("[none, pca]", "[~]", (Invalid, "line 6", "protocols.tiny.reducers.0")),
    "no clusterers": ("[kmeans, hdbscan]", "[]", (Invalid, "line 7", "protocols.tiny.clusterers")),
    "a seed below zero": ("seeds: [1]", "seeds: [-1]", (Invalid, "line 8", "protocols.tiny.seeds.0")),
    "a seed that is too large": (
        "seeds: [1]",
        "seeds: [4294967296]",
        (Invalid, "protocols.tiny.seeds.0", 4_294_967_296),
    ),
    "a seed of 400 digits": ("seeds: [1]", f"seeds: [{'9' * 400}]", (Invalid, "protocols.tiny.seeds.0")),
    "a seed and a half": ("seeds: [1]", "seeds: [1.5]", (Invalid, "protocols.tiny.seeds.0")),
    "a seed alone": ("seeds: [1]", "seeds: 1", (Invalid, "protocols.tiny.seeds")),
    "no metric": ("seeds: [1]", "main_metric: x", (Invalid, "protocols.tiny.main_metric")),
    "a date as description": ("seeds: [1]", "description: 2024-01-01", (Invalid, "protocols.tiny.description")),
    "starts below zero": (
        "n_init: 1",
        "n_init: -1",
        (Invalid, "line 10", "protocols.tiny.parameters.kmeans", "-1", "n_init"),
    ),
    "starts in words": ("n_init: 1", "n_init: many", (Invalid, "kmeans", "many", "n_init")),
    "starts that are a list": ("n_init: 1", "n_init: [1]", (Invalid, "protocols.tiny.parameters.kmeans.n_init")),
    "an infinite tolerance": ("n_init: 1", "tol: .inf", (Invalid, "kmeans")),
    "an init that there is not": ("n_init: 1", "init: zero", (Invalid, "kmeans", "zero")),
    "no components": ("n_components: 2", "n_components: 0", (Invalid, "pca", 0, "n_components")),
    "components in words": ("n_components: 2", "n_components: all", (Invalid, "pca", "all", "n_components")),
    "no samples": ("kmeans: {n_init: 1}", "hdbscan: {min_samples: 0}", (Invalid, "hdbscan", 0, "min_samples")),
    "no way to select": (
        "kmeans: {n_init: 1}",
        "hdbscan: {cluster_selection_method: x}",
        (Invalid, "cluster_selection_method"),
    ),
    "a distance below zero": ("kmeans: {n_init: 1}", "umap: {min_dist: -0.1}", (Invalid, "umap", "-0.1", "min_dist")),
    "no spread": ("kmeans: {n_init: 1}", "umap: {spread: 0}", (Invalid, "umap", "0.0")),
    "a neighbor search that there is not": (
        "kmeans: {n_init: 1}",
        "umap: {knn: guessed}",
        (Invalid, "umap", "guessed"),
    ),
    "a linkage that there is not": ("kmeans: {n_init: 1}", "agglomerative: {linkage: x}", (Invalid, "x")),
    "no night": ("models: [bow]", "models: [bow]\nnightly: {cron: never}", (Invalid, "nightly.cron")),
    "a 25th hour": ("models: [bow]", "models: [bow]\nnightly: {cron: 0 25 * * *}", (Invalid, "nightly.cron")),
    "no time zone": ("models: [bow]", "models: [bow]\nnightly: {timezone: Mars/Base}", (Invalid, "nightly.timezone")),
    "a budget below zero": ("models: [bow]", "models: [bow]\nnightly: {budget: -1}", (Invalid, "nightly.budget")),
    "a zone outside": (
        "models: [bow]",
        "models: [bow]\nnightly: {timezone: ../../etc/passwd}",
        (Invalid, "../../etc/passwd"),
    ),
    "a zone with a NUL": ("models: [bow]", 'models: [bow]\nnightly: {timezone: "a\\0"}', (Invalid, "a\\x00")),
    "a level of one": ("models: [bow]", "models: [bow]\npromotion: {level: 1}", (Invalid, "promotion.level", 1)),
    "a level of NaN": ("models: [bow]", "models: [bow]\npromotion: {level: .nan}", (Invalid, "promotion.level")),
    "a watch of a text": ("models: [bow]", "models: [bow]\nwatch: {hub: a/b}", (Invalid, "watch.hub")),
}


def _params() -> Iterator[Case]:
    for name, (old, new, refusal) in CHANGES.items():
        assert PARAMS.count(old) == 1, name
        yield Case(
            f"params.yaml: {name}",
            {"params.yaml": PARAMS.replace(old, new)},
            ("run", "--dry-run"),
            _place(refusal, "params.yaml"),
        )


# data


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def far_away() -> bytes:
    return parquet(text=pa.array([2**62], pa.timestamp("us")))


def not_utf8() -> bytes:
    return parquet(text=pa.array([b"a text of some bytes"] * 3).cast(pa.string())).replace(b"a text", b"\xff text")


def excel(rows: list[list[object]]) -> bytes:
    """A spreadsheet of one sheet."""
    book, buffer = Workbook(), io.BytesIO()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(buffer)
    return buffer.getvalue()


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", content)
    return buffer.getvalue()


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


SOUND = parquet(text=[f"text {i}" for i in range(100)])
PACKED = gzip.compress("\n".join(f"text {i}" for i in range(1000)).encode())
BOMB = gzip.compress(b"x" * 2**20, 1) * 200  # parts of a mebibyte
DATA: dict[str, tuple[Content, Refusal]] = {
    "empty.txt": (b"", (TooFew,)),
    "blank.txt": ("\n \n\t\n", (TooFew,)),
    "utf16.txt": ("one\ntwo\n".encode("utf-16")[:-1], (Malformed, "utf16.txt:2", "utf-16")),
    "zip.txt": (b"PK\x03\x04\x14\0\0\0\x08\0\xff\xfe", (Malformed, "zip.txt:1")),
    "pipe.txt": (os.mkfifo, (Inaccessible, "pipe.txt")),
    "folder.txt": (Path.mkdir, (Inaccessible, "folder.txt")),
    "loop.txt": (lambda path: path.symlink_to(path), (Inaccessible, "loop.txt")),
    "device.txt": (lambda path: path.symlink_to("/dev/zero"), (Inaccessible, "device.txt")),
    "gone.txt": (lambda path: path.symlink_to("nowhere"), (Missing,)),
    "texts.xlsx": (b"PK", (Malformed, "texts.xlsx")),
    "empty.xlsx": (b"", (Malformed, "empty.xlsx")),
    "folder.xlsx": (Path.mkdir, (Inaccessible, "folder.xlsx")),
    "sheet.xlsx": (excel([]), (TooFew, "sheet.xlsx", "Sheet")),
    "header.xlsx": (excel([["text", "area"]]), (TooFew, "header.xlsx")),
    "bomb.xlsx": (zipped(b"0" * 2**27), (TooLarge, "bomb.xlsx", "64 MiB")),
    "texts.xls": (b"\xd0\xcf", (Malformed, "texts.xls")),
    "texts": (b"a\nb\n", (Malformed,)),
    "texts.gz": (PACKED, (Malformed,)),
    "texts.json": ("[]", (TooFew, "texts.json")),
    "object.json": ('{"text": "a"}', (Malformed, "object.json")),
    "numbers.json": ("[1]", (Malformed, "numbers.json", 0)),
    "torn.json": ('[{"text"', (Malformed, "torn.json")),
    "texts.pickle": (b"\x80\x04N.", (Malformed,)),
    "torn.txt.gz": (PACKED[:-20], (Malformed,)),
    "flipped.txt.gz": (flipped(PACKED, 200), (Malformed,)),
    "sum.txt.gz": (flipped(PACKED, len(PACKED) - 6), (Malformed,)),
    "plain.txt.gz": (b"no gzip at all\n", (Malformed,)),
    "bomb.txt.gz": (BOMB, (TooLarge, "64 MiB")),
    "bomb.jsonl.gz": (BOMB, (TooLarge, "64 MiB")),
    "bomb.csv.gz": (BOMB, (TooLarge, "64 MiB")),
    "huge.txt": (lambda path: os.truncate(path.touch() or path, 2**40), (TooLarge, "4,096 MiB")),
    "huge.parquet": (lambda path: os.truncate(path.touch() or path, 2**40), (Malformed, "huge.parquet")),
    "other.csv": ("a,b\nc,d\n", (Invalid, "--text")),
    "lines.csv": ("\x0bext,\x85,\x1b[31m\na,b,c\n", (Invalid, "x0bext", "x85", "x1b")),
    "none.csv": ("", (TooFew,)),
    "header.csv": ("text\n", (TooFew,)),
    "ragged.csv": ("text,label\na,b\nc\n", (Malformed, "ragged.csv:3", 1, 2)),
    "more.csv": ("text\na,b\nc,d\ne,f\n", (Malformed, "more.csv:2", 1)),
    "open.csv": ('text,label\n"a\n,b\n', (Malformed, "open.csv:2")),
    "quote.csv": ('text,label\n"a"b,c,d\n', (Malformed, "quote.csv:2")),
    "packed.csv.zip": (b"PK", (Malformed, "packed.csv.zip")),
    "other.tsv": ("a\tb\nc\td\n", (Invalid, "--text")),
    "ragged.tsv": ("text\tlabel\na\n", (Malformed, "ragged.tsv:2", 1)),
    "deep.jsonl": (DEEP + "\n", (Malformed, "deep.jsonl:1")),
    "deep_value.jsonl": ('{"text": ' + DEEP + "\n", (Malformed, "deep_value.jsonl:1")),
    "deep_map.jsonl": ('{"text": ' * 100_000 + "\n", (Malformed, "deep_map.jsonl:1")),
    "digits.jsonl": ('{"text": ' + "9" * 5000 + "}\n", (Malformed, "digits.jsonl:1")),
    "torn.jsonl": ('{"text": "a"}\n{"text": "b\n', (Malformed, "torn.jsonl:2")),
    "list.jsonl": ('["a", 1]\n', (Malformed, "list.jsonl:1")),
    "text.jsonl": ('"a"\n', (Malformed, "text.jsonl:1")),
    "null.jsonl": ("null\n", (Malformed, "null.jsonl:1")),
    "other.jsonl": ('{"a": 1, "b": 2}\n', (Invalid, "--text")),
    "lists.jsonl": ('{"text": ["a"]}\n', (Malformed, "text")),
    "lfs.csv": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", (Malformed,)),
    "quotes.jsonl": ("{'text': 'a'}\n", (Malformed, "quotes.jsonl:1")),
    "empty.jsonl": ("\n\n", (TooFew,)),
    "torn.parquet": (SOUND[:-30], (Malformed,)),
    "text.parquet": ("text\na\n", (Malformed,)),
    "empty.parquet": (b"", (Malformed,)),
    "other.parquet": (parquet(a=[1], b=[2]), (Invalid, "--text")),
    "none.parquet": (parquet(text=pa.array([], pa.string())), (TooFew,)),
    "nothing.parquet": (parquet(), (TooFew,)),
    "lists.parquet": (parquet(text=[["a"], ["b"]]), (Malformed, "text")),
    "maps.parquet": (parquet(text=[{"a": 1}]), (Malformed, "text")),
    "bytes.parquet": (parquet(text=[b"\xff\xfe"]), (Malformed, "text")),
    "time.parquet": (far_away(), (Malformed,)),
    "utf8.parquet": (not_utf8(), (Malformed, "utf-8")),
    "pipe.parquet": (os.mkfifo, (Inaccessible, "pipe.parquet")),
    "folder.parquet": (Path.mkdir, (Inaccessible, "folder.parquet")),
}


def _data() -> Iterator[Case]:
    for name, (content, refusal) in DATA.items():
        yield Case(f"data: {name}", {name: content}, ("cluster", f"{{root}}/{name}", "-m", "bow"), (*refusal, name))


# MTEB's result files

ROW = {
    "task": "X",
    "model": "a/b",
    "model_revision": "r",
    "dataset_revision": "d",
    "mteb_version": "1",
    "v_measure": 0.5,
}
FILE = {"task_name": "X", "dataset_revision": "d", "mteb_version": "1", "scores": {"test": [{"v_measure": 0.5}]}}
WRONG: dict[str, list[object]] = {
    "v_measure": [float("nan"), 150.0, -1, "0.5", None, True, [0.5], 10**400],
    "v_measure_std": [-0.1, 2, "a", float("inf")],
    "v_measures": [0.5, [2], [-1], ["a"], {"Level 0": [2]}, {"Level 0": 1}, [float("nan")]],
    "task": [{}, None, ""],
    "model": [1, None, ""],
    "model_revision": [{}],
    "dataset_revision": [{}],
    "mteb_version": [1],
}
RESULTS: dict[str, tuple[Content, Refusal]] = {
    "empty.jsonl": ("", (Malformed,)),
    "blank.jsonl": ("\n\n", (Malformed,)),
    "deep.jsonl": (DEEP, (Malformed, "deep.jsonl", "line 1")),
    "torn.jsonl": ('{"task"', (Malformed, "torn.jsonl", "line 1")),
    "list.jsonl": ("[]\n", (Malformed, "list.jsonl", "line 1")),
    "number.jsonl": ("1\n", (Malformed, "number.jsonl", "line 1")),
    "digits.jsonl": ('{"v_measure": ' + "9" * 5000 + "}", (Malformed, "digits.jsonl", "line 1")),
    "latin.jsonl": (json.dumps({**ROW, "task": "ä"}, ensure_ascii=False).encode("latin-1"), (Malformed, "line 1")),
    "surrogates.jsonl": (json.dumps({**ROW, "mteb_version": "\ud800"}), (Malformed, "mteb_version")),
    "surrogate.jsonl": (json.dumps({**ROW, "task": "\ud800"}), (Malformed, "task")),
    "bomb.jsonl.gz": (BOMB, (Malformed, "64 MiB")),
    "torn.jsonl.gz": (PACKED[:-20], (Malformed,)),
    "flipped.jsonl.gz": (flipped(PACKED, 200), (Malformed,)),
    "plain.jsonl.gz": (b"{}", (Malformed,)),
    "pipe.jsonl": (os.mkfifo, (Malformed, "pipe.jsonl")),
    "folder.jsonl": (Path.mkdir, (Malformed, "folder.jsonl")),
    "gone.jsonl": (lambda path: None, (Malformed, "gone.jsonl")),
    "gone.json": (lambda path: None, (Malformed, "gone.json")),
    "results": (Path.mkdir, (Malformed, "results")),
    "deep.json": (DEEP, (Malformed, "deep.json")),
    "list.json": ("[1]", (Malformed, "list.json")),
    "pairs.json": ('[["scores", 1]]', (Malformed, "pairs.json")),
    "text.json": ("hello", (Malformed, "text.json")),
    "empty.json": ("", (Malformed, "empty.json")),
    "no_scores.json": (json.dumps({"task_name": "X"}), (Malformed, "no_scores.json")),
    "scores.json": (json.dumps({**FILE, "scores": 1}), (Malformed, "scores.json")),
    "test.json": (json.dumps({**FILE, "scores": {"test": 1}}), (Malformed, "test.json")),
    "entries.json": (json.dumps({**FILE, "scores": {"test": [1]}}), (Malformed, "entries.json")),
    "words.json": (json.dumps({**FILE, "scores": {"test": ["v_measure"]}}), (Malformed, "words.json")),
    "score.json": (json.dumps({**FILE, "scores": {"test": [{"v_measure": 150}]}}), (Malformed, "v_measure")),
    "units.json": (
        json.dumps({**FILE, "scores": {"test": [{"v_measure": 50, "main_score": 0.5}]}}),
        (Malformed, "units.json"),
    ),
    "task.json": (json.dumps({**FILE, "task_name": {}}), (Malformed, "task")),
    "version.json": (json.dumps({**FILE, "mteb_version": {}}), (Malformed, "mteb_version")),
    "pipe.json": (os.mkfifo, (Malformed, "pipe.json")),
    "results/pipe.json": (os.mkfifo, (Malformed, "pipe.json")),
}


def _imports() -> Iterator[Case]:
    for key, values in WRONG.items():
        for i, value in enumerate(values):
            files = {"x.jsonl": json.dumps({**ROW, key: value})}
            name = f"import: {key} {i}, {str(value)[:20]}"
            yield Case(name, files, ("import", "{root}/x.jsonl"), (Malformed, "x.jsonl", "line 1", key))
    for key in ("task", "model", "v_measure"):
        line = json.dumps({k: v for k, v in ROW.items() if k != key})
        yield Case(f"import: no {key}", {"x.jsonl": line}, ("import", "{root}/x.jsonl"), (Malformed, "line 1"))
    for name, (content, refusal) in RESULTS.items():
        top = name.partition("/")[0]
        yield Case(f"import: {name}", {name: content}, ("import", f"{{root}}/{top}"), refusal)


# folders of models

LOOP: Callable[[Path], object] = lambda path: path.symlink_to(path)  # noqa: E731
BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 6,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
HEADER = b"\x02\0\0\0\0\0\0\0{}"  # safetensors without a tensor
WORDS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n"
CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocab.txt"
INDEX = "model.safetensors.index.json"
FOLDER: dict[str, Content] = {CONFIG: json.dumps(BERT), WEIGHTS: HEADER, VOCABULARY: WORDS}
MODULES = "modules.json"


def configure(**settings: object) -> dict[str, Content | None]:
    """A configuration with settings in place of those that are sound."""
    return {CONFIG: json.dumps({**BERT, **settings})}


def module(kind: str, path: str = "") -> str:
    return json.dumps([{"idx": 0, "name": "0", "path": path, "type": kind}])


ROUTER = "router_config.json"
ROUTES = json.dumps(
    {
        "types": {"query_0_Dense": "sentence_transformers.models.Dense"},
        "structure": {"query": ["query_0_Dense"]},
        "parameters": {},
    }
)
FOLDERS: dict[str, tuple[dict[str, Content | None], Refusal]] = {
    "no tensors": ({}, (Malformed, "embeddings.LayerNorm.bias")),
    "no weights": ({WEIGHTS: None}, (Missing, "model.safetensors")),
    "no config": ({CONFIG: None}, (Missing, "config.json")),
    "no vocabulary": ({VOCABULARY: None}, (Missing, "tokenizer.json")),
    "an empty vocabulary": ({VOCABULARY: ""}, (Malformed, "embeddings.LayerNorm.bias")),
    "only pickles": ({WEIGHTS: None, "pytorch_model.bin": b"x"}, (Unsafe, "pytorch_model.bin")),
    "weights that are empty": ({WEIGHTS: b""}, (Malformed,)),
    "weights that break off": ({WEIGHTS: b"\xff\0\0\0\0\0\0\0{"}, (Malformed,)),
    "weights with a header of a terabyte": ({WEIGHTS: b"\0\0\0\0\0\x01\0\0{}"}, (Malformed,)),
    "weights that are text": ({WEIGHTS: "version https://git-lfs.github.com/spec/v1\n"}, (Malformed,)),
    "weights that are a folder": ({WEIGHTS: Path.mkdir}, (Missing,)),
    "weights that are a pipe": ({WEIGHTS: os.mkfifo}, (Inaccessible, "model.safetensors")),
    "weights that are a link to themselves": ({WEIGHTS: LOOP}, (Inaccessible, "model.safetensors")),
    "a pipe that is never opened": ({"more.safetensors": os.mkfifo}, (Malformed, "embeddings.LayerNorm.bias")),
    "a link that is outside": ({"more.json": lambda p: p.symlink_to("/etc/passwd")}, (Unknown, "bow")),
    "a device": ({"more.json": lambda p: p.symlink_to("/dev/zero")}, (Unknown, "bow")),
    "a link to nothing": ({"more.json": lambda p: p.symlink_to("gone")}, (Malformed, "embeddings.LayerNorm.bias")),
    "a link to a folder": (
        {
            MODULES: module("sentence_transformers.models.Pooling", "1_Pooling"),
            "1_Pooling": lambda p: p.symlink_to(p.parent),
        },
        (Unsafe, "1_Pooling"),
    ),
    "a config that is a pipe": ({CONFIG: os.mkfifo}, (Inaccessible, "config.json")),
    "a config that is a folder": ({CONFIG: Path.mkdir}, (Missing, "config.json")),
    "a config that is empty": ({CONFIG: ""}, (Malformed, "config.json")),
    "a config that is a list": ({CONFIG: "[]"}, (Malformed, "config.json")),
    "a config that is null": ({CONFIG: "null"}, (Malformed, "config.json")),
    "a config that is deep": ({CONFIG: DEEP}, (Malformed, "config.json")),
    "a config that says nothing": ({CONFIG: "{}"}, (Unsafe, "model_type", "None")),
    "a kind of network that there is not": (configure(model_type="x"), (Unsafe, "model_type", "x")),
    "a kind that is a list": (configure(model_type=[]), (Unsafe, "model_type")),
    "layers below zero": (configure(num_hidden_layers=-1), (Malformed, "embeddings.LayerNorm.bias")),
    "layers in words": (configure(num_hidden_layers="x"), (Malformed, "num_hidden_layers", "x")),
    "no heads": (configure(num_attention_heads=0), (Malformed,)),
    "heads that do not divide": (configure(num_attention_heads=3), (Malformed,)),
    "a width of a billion": (configure(hidden_size=10**9), (Malformed, "0 KiB")),
    "words without end": (configure(vocab_size=10**15), (Malformed, "0 KiB")),
    "a width below zero": (configure(hidden_size=-8), (Malformed,)),
    "an activation that there is not": (configure(hidden_act="x"), (Malformed, "x")),
    "an adapter": ({"adapter_config.json": "{}"}, (Malformed, "adapter_config.json")),
    "an index of numbers": ({INDEX: json.dumps({"weight_map": {"a": 1}})}, (Unsafe, 1)),
    "an index of nothing": ({INDEX: "{}"}, (Malformed, "weight_map")),
    "an index that is deep": ({INDEX: DEEP}, (Malformed, "index.json")),
    "an index that is a list": ({INDEX: '{"weight_map": []}'}, (Malformed, "weight_map")),
    "modules that are deep": ({MODULES: DEEP}, (Malformed, "modules.json")),
    "modules that break off": ({MODULES: "[{"}, (Malformed, "modules.json")),
    "modules that are a map": ({MODULES: '{"path": ""}'}, (Malformed, "modules.json")),
    "modules that are numbers": ({MODULES: "[1]"}, (Malformed, "modules.json")),
    "modules that are a pipe": ({MODULES: os.mkfifo}, (Inaccessible, "modules.json")),
    "foreign code": ({MODULES: module("custom_code.Model")}, (Unsafe, "modules.json", "custom_code.Model")),
    "the system's code": ({MODULES: module("os.system")}, (Unsafe, "os.system")),
    "a module that there is not": ({MODULES: module("sentence_transformers.models.Nonsense")}, (Unsafe, "Nonsense")),
    "a class that is no module": ({MODULES: module("sentence_transformers.util.http_get")}, (Unsafe, "http_get")),
    "a module without a folder": (
        {MODULES: module("sentence_transformers.models.Dense", "2_Dense")},
        (Missing, "2_Dense/model.safetensors"),
    ),
    "pickles of a module": (
        {
            MODULES: module("sentence_transformers.models.Dense", "2_Dense"),
            "2_Dense/pytorch_model.bin": b"x",
            "2_Dense/decoy.safetensors": HEADER,
        },
        (Unsafe, "2_Dense/pytorch_model.bin"),
    ),
    "pickles of a router's part": (
        {
            MODULES: module("sentence_transformers.models.Router"),
            ROUTER: ROUTES,
            "query_0_Dense/pytorch_model.bin": b"x",
        },
        (Unsafe, "query_0_Dense/pytorch_model.bin"),
    ),
    "weights in another format": (
        {"sentence_bert_config.json": '{"model_args": {"gguf_file": "x.gguf"}}'},
        (Invalid, "sentence_bert_config.json", "model_args"),
    ),
    "a kind of model that is a list": (
        {"config_sentence_transformers.json": '{"model_type": []}'},
        (Invalid, "model_type"),
    ),
    "a precision that there is not": ({"checkpoint.json": '{"precision": "fp8"}'}, (Unknown, "bow")),
}


def _folders() -> Iterator[Case]:
    for name, (changes, refusal) in FOLDERS.items():
        files = {
            f"checkpoints/bad/{path}": content for path, content in {**FOLDER, **changes}.items() if content is not None
        }
        yield Case(f"folder: {name}", files, ("cluster", "{root}/notes.txt", "-m", "bad"), (*refusal, "bad"))


# command lines

COMMANDS: list[tuple[str, Refusal]] = [
    ("run --seed -1", (SystemExit, 0)),
    ("run --seed 4294967296", (SystemExit, 4_294_967_295)),
    ("run --seed 1e3", (SystemExit, "--seed")),
    ("run --task wordz --dry-run", (Unknown, "wordz", "words")),
    ("run --task ../words --dry-run", (Missing, "words")),
    (f"run --task {LONG} --dry-run", (Unknown,)),
    ("run --model boww --dry-run", (Unknown, "boww")),
    ("run --model ../bow --dry-run", (Missing, "../bow")),
    (f"run --model {LONG} --dry-run", (Unknown, "bow")),
    ("run --model [/b]x --dry-run", (Unknown, "[/b]x")),
    ("run --method kmean", (Unknown, "kmeans")),
    ("run --method none/kmean", (Unknown, "kmeans")),
    ("run --method non/kmeans", (Unknown, "none")),
    ("run --method /", (Unknown, "pca", "umap")),
    ("run --method none/kmeans/x", (Unknown, "kmeans/x")),
    ("run --protocol tinny", (Unknown, "tinny", "tiny")),
    ("run --task tenkgnad_p2p", (Unavailable,)),
    ("run --nonsense", (SystemExit, "--nonsense", "--seed")),
    ("run wrods", (Unknown, "wrods", "words")),
    ("run words.tsv", (Missing, "words.tsv")),
    ("run --text body", (Invalid, "--text", "--labels")),
    ("leaderboard --metric v_measur", (Unknown, "v_measur")),
    ("leaderboard --task words", (Unknown, "words")),
    ("leaderboard --model bow", (Unknown, "bow")),
    ("leaderboard --protocol x", (Unknown, "x")),
    ("provenance words bow", (Unknown, "words")),
    ("provenance", (SystemExit, "task")),
    ("compare bow tfidff", (Unknown, "tfidff")),
    ("compare bow tfidf --task wordz", (Missing, "wordz", "words")),
    ("compare bow tfidf --metric nmii", (Unknown, "nmii")),
    ("compare bow", (SystemExit, "b")),
    ("leaderboard --format latx", (SystemExit, "latx", "table", "markdown", "latex", "csv", "json")),
    ("leaderboard --figure x.svg", (Invalid, "--figure", "--over-tasks")),
    ("leaderboard --over-tasks", (TooFew, 0)),
    ("export -p pape", (Unknown, "pape")),
    ("export", (Missing, "traube run")),
    ("export --method kmeans", (Missing, "traube run --method kmeans")),
    ("import {root}/gone", (Malformed,)),
    ("import", (SystemExit, "path")),
    ("cluster {root}/gone.txt", (Missing,)),
    ("cluster {root}/notes.txt -m boww", (Unknown, "boww")),
    ("cluster {root}/notes.txt -m bow --method kmean", (Unknown, "kmean", "kmeans")),
    ("cluster {root}/notes.txt -m bow --method none/kmean", (Unknown, "kmean")),
    ("cluster {root}/notes.txt -m bow --method pca/hdbscan -k 3", (Conflict,)),
    ("cluster {root}/notes.txt -m bow -k 0", (TooFew,)),
    ("cluster {root}/notes.txt -m bow -k 1000", (TooFew, 1000)),
    ("cluster {root}/notes.txt -m bow -k x", (SystemExit, "-k")),
    ("cluster {root}/notes.txt -m bow --seed -1", (SystemExit, 0)),
    ("cluster {root}/notes.txt -m bow --seed 4294967296", (SystemExit, 4_294_967_295)),
    ("cluster {root}/cards/words.csv -m bow --text body", (Unknown, "body")),
    ("cluster {root}/notes.txt -m bow --like {root}/gone.csv", (Missing,)),
    ("cluster {root}/notes.txt -m bow --group body --like {root}/cards/words.csv", (Unknown, "body")),
    ("cluster {root}/notes.txt -m bow --group text --like {root}/cards/words.csv", (Malformed, "texts")),
    ("cluster {root}/notes.txt --champion wrods", (Unknown, "wrods")),
    ("cluster {root}/notes.txt --champion words -k 3", (Conflict, "-k")),
    ("cluster {root}/notes.txt -m bow --precision fp8", (SystemExit, "fp8")),
    ("cluster {root}/notes.txt -m bow -o {root}/gone/x.csv", (Missing,)),
    ("cluster {root}/notes.txt -m bow --map {root}/gone/x.html", (Missing,)),
    ("promote wrods", (Unknown, "wrods")),
    ("rollback wrods", (Unknown, "wrods")),
    ("reproduce abc", (Unknown, "traube provenance")),
    ("reproduce ../../x", (Unknown, "traube provenance")),
    ("retry nothing", (Unknown, "nothing")),
    ("train wwmm words", (Unknown, "wwmm")),
    ("train wwm wordz", (Unknown, "wordz")),
    ("train wwm words --set epochs", (Invalid, "--set", "epochs=3")),
    ("train wwm words --set =3", (Unknown, "batch")),
    ("train wwm words --set epoch=3", (Unknown, "epochs")),
    ("train wwm words --set epochs=-1", (Invalid, "wwm", "epochs", 0)),
    ("train cob words", (Unsupported, "cob")),
    ("tune cob words", (Unsupported, "cob")),
    ("tune wwmm words", (Unknown, "wwmm")),
    ("tune cob newsgroups --set epoch=3", (Unknown, "epochs")),
    ("tune cob words --trials 0", (SystemExit, 1)),
    ("nonsense", (SystemExit, "nonsense")),
]


def _commands() -> Iterator[Case]:
    for line, refusal in COMMANDS:
        yield Case(f"command: {line[:60]}", {}, tuple(line.split(" ")), refusal)
