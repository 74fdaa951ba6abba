"""The table of bad inputs: files, command, and message."""

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

from tests.inputs.case import Case, Content

LONG = "x" * 5000
DEEP = "[" * 100_000


def cases() -> list[Case]:
    return [*_task_cards(), *_model_cards(), *_params(), *_data(), *_imports(), *_folders(), *_commands(), *_recipes()]


# cards of tasks


TASK_CARDS: dict[str, tuple[str, str]] = {
    "a user that there is not": ("file: ~nosuchuser/x.csv\ntext: t\n", "line 1: file: .*no path"),
    "a NUL in the path": ('file: "a\\0b"\ntext: t\n', "line 1: file: .*no path .*null byte"),
    "a path of 5,000 characters": (f"file: {LONG}\ntext: t\n", "line 1: file: .*is too long for a path"),
    "a path of 3,000 folders": (f"file: {'a/' * 3000}x.csv\ntext: t\n", "line 1: file: .*is too long for a path"),
    "half a character in the path": ('file: "a\\ud800b"\ntext: t\n', "line 1: (file|not valid YAML)"),
    "an empty path": ("file: ''\ntext: t\n", "is not there"),
    "a folder": ("file: .\ntext: t\n", "is not there"),
    "a file that is not there": ("file: none.csv\ntext: t\n", "is not there"),
    "a device": ("file: /dev/zero\ntext: t\n", "is not there"),
    "a URL": ("file: https://example.org/x.csv\ntext: t\n", "is not there"),
    "a path that is a number": ("file: 17\ntext: t\n", "line 1: file: Input should be a valid string"),
    "a path that is a date": ("file: 2024-01-01\ntext: t\n", "line 1: file: Input should be a valid string"),
    "a path that is a list": ("file: [a.csv]\ntext: t\n", "line 1: file: Input should be a valid string"),
    "a path that is null": ("file:\ntext: t\n", "line 1: file: Input should be a valid string"),
    "no column of texts": ("file: words.csv\n", "line 1: text: Field required"),
    "a column that is a number": ("file: words.csv\ntext: 1\n", "line 2: text: Input should be a valid string"),
    "a misspelled key": ("file: words.csv\ntxt: text\n", "line 2: txt: unknown key 'txt': did you mean text"),
    "a key of 5,000 characters": (f"file: words.csv\ntext: text\n? {LONG}\n: 1\n", "unknown key 'x+'"),
    "a number as key": ("file: words.csv\ntext: text\n1: 2\n", "1: "),
    "a date as key": ("file: words.csv\ntext: text\n2024-01-01: 2\n", "2024"),
    "null as key": ("file: words.csv\ntext: text\n~: 2\n", "None"),
    "bytes as key": ("file: words.csv\ntext: text\n? !!binary aGVsbG8=\n: 2\n", "hello"),
    "a map under a value's tag": ("file: words.csv\ntext: text\n? !!str {=: x}\n: y\n", "unknown key 'x'"),
    "labels that are a map": ("file: words.csv\ntext: text\nlabels: {a: b}\n", "line 3: labels: "),
    "labels that are numbers": (
        "file: words.csv\ntext: text\nlabels: [1, 2]\n",
        "line 3: labels.0: Input should be a valid string",
    ),
    "a column of labels twice": ("file: words.csv\ntext: text\nlabels: [a, a]\n", "a column is named twice"),
    "two separators": (
        "file: words.csv\ntext: text\nseparator: '::'\n",
        "line 3: separator: String should have at most",
    ),
    "no separator": ("file: words.csv\ntext: text\nseparator: ''\n", "line 3: separator: String should have at least"),
    "one cluster": ("file: words.csv\ntext: text\nclusters: 1\n", "line 3: clusters: .* greater than or equal to 2"),
    "infinitely many clusters": ("file: words.csv\ntext: text\nclusters: .inf\n", "line 3: clusters: "),
    "clusters that are no number": ("file: words.csv\ntext: text\nclusters: many\n", "line 3: clusters: "),
    "a family with a blank": ("file: words.csv\ntext: text\nfamily: my own\n", "line 3: family: String should match"),
    "a metric that there is not": (
        "file: words.csv\ntext: text\nmain_metric: v_measur\n",
        "line 3: main_metric: unknown metric",
    ),
    "a metric that is a list": ("file: words.csv\ntext: text\nmain_metric: [v_measure]\n", "line 3: main_metric"),
    "a check that there is not": ("file: words.csv\ntext: text\nblocking: [speed]\n", "line 3: blocking.0: "),
    "a check in no list": ("file: words.csv\ntext: text\nblocking: texts_once\n", "line 3: blocking: expected a list"),
    "sizes that are texts": ("file: words.csv\ntext: text\ndeclared: {splits: a}\n", "line 3: declared.splits: "),
    "no splits declared": ("file: words.csv\ntext: text\ndeclared: {splits: 0}\n", "line 3: declared.splits: "),
    "another name": ("name: other\nfile: words.csv\ntext: text\n", "line 1: name: 'other' is not the name of the card"),
    "a name that is a list": ("name: [a]\nfile: words.csv\ntext: text\n", "is not the name of the card"),
    "no kind of task": ("language: de\n", "bad.yaml: line 1: expected one of the keys `dataset`, `file`, "),
    "rows and a data set": ("rows: a.jsonl\ndataset: a/b\n", "give either `rows` or `dataset`"),
    "rows of nobody": ("rows: ~nosuchuser/x.jsonl\n", "line 1: rows: .*no path"),
    "rows with a NUL": ('rows: "a\\0b"\n', "line 1: rows: .*no path"),
    "rows of 5,000 characters": (f"rows: {LONG}\n", "line 1: rows: .*is too long for a path"),
    "a data set that is no id": ("dataset: nothing\n", "line 1: dataset: String should match"),
    "a data set that leads elsewhere": ("dataset: ../../etc\n", "line 1: dataset: String should match"),
    "a revision that is a branch": ("dataset: a/b\nrevision: main\n", "line 2: revision: String should match"),
    "pages of nobody": ("markdown: ~nosuchuser/x\n", "line 1: markdown: .*no path"),
    "pages with a NUL": ('markdown: "a\\0b"\n', "line 1: markdown: .*no path"),
    "pages of 5,000 characters": (f"markdown: {LONG}\n", "line 1: markdown: .*is too long for a path"),
    "pages without a folder": ("markdown:\n", "line 1: markdown: "),
    "no page to score": ("markdown: a\ntrain: 1\n", "line 2: train: .* less than 1"),
    "sections of no kind": ("markdown: a\nsections: deep\n", "line 2: sections: Input should be 'flat' or 'hier'"),
    "a column of rows": ("rows: a.jsonl\ntext: body\n", "line 2: text: unknown key 'text'"),
    "all pages to be trained on": (
        "markdown: a\ntrain: 0.7\nvalidation: 0.3\n",
        "bad.yaml: .*`train` and `validation` leave no page to be scored",
    ),
    "a misspelled key of pages": ("markdown: a\nsection: flat\n", "line 2: section: unknown key 'section'"),
    "docstrings of no kind": ("pydocs: both\n", "line 1: pydocs: Input should be 's2s' or 'p2p'"),
    "docstrings of no size": ("pydocs: s2s\nsize: huge\n", "line 2: size: Input should be 'small' or 'full'"),
}


def _placed(said: str, path: str) -> str:
    """Return a message with the file before the line that it names."""
    return f"{path}: {said}" if said.startswith("line") else said


def _task_cards() -> Iterator[Case]:
    for name, (content, said) in TASK_CARDS.items():
        yield Case(
            f"task card: {name}",
            {"cards/bad.yaml": content},
            ("run", "--task", "bad", "--dry-run"),
            _placed(said, "bad.yaml"),
        )


# cards of models

MODEL_CARDS: dict[str, tuple[str, str]] = {
    "of nobody": ("model: ~nosuchuser/x\n", "line 1: model: .*no path"),
    "with a NUL": ('model: "a\\0b"\n', "line 1: model: .*no path"),
    "of 5,000 characters": (f"model: {LONG}\n", "line 1: model: .*is too long for a path"),
    "null as a model": ("model:\n", "line 1: model: expected a Hugging Face id or a local folder"),
    "a number as a model": ("model: 17\n", "line 1: model: Input should be a valid string"),
    "a list as a model": ("model: [a/b]\n", "line 1: model: Input should be a valid string"),
    "a date as a model": ("model: 2024-01-01\n", "line 1: model: Input should be a valid string"),
    "a folder that is not there": ("model: ./gone\n", "there is no folder"),
    "a file": ("model: ./words.csv\n", "there is no folder"),
    "an empty folder": ("model: .\n", "no weights; expected model.safetensors|only pickled"),
    "a misspelled key": ("model: ./x\npromt: a\n", "line 2: promt: unknown key 'promt': did you mean prompt"),
    "a key twice as another": ("model: ./x\nname: Other Name\n", "line 2: name: String should match"),
    "no pooling": ("model: ./x\npooling: sum\n", "line 2: pooling: Input should be"),
    "no precision": ("model: ./x\nprecision: fp8\n", "line 2: precision: Input should be"),
    "no length": ("model: ./x\nmax_length: 3\n", "line 2: max_length: .*greater than or equal to 4"),
    "a length of 1e99": ("model: ./x\nmax_length: 1.0e+99\n", "line 2: max_length: "),
    "a length in words": ("model: ./x\nmax_length: long\n", "line 2: max_length: "),
    "a prompt that is a list": ("model: ./x\nprompt: [a]\n", "line 2: prompt: Input should be a valid string"),
    "another kind": ("model: ./x\nkind: bow\n", "line 2: kind: a card's model is a transformer"),
    "no kind": ("model: ./x\nkind: net\n", "line 2: kind: Input should be"),
    "a branch": ("model: a/b\nrevision: main\n", "line 2: revision: String should match"),
    "a wrong checksum": ("model: ./x\nsha256: abc\n", "line 2: sha256: String should match"),
    "of the hub, not here": ("model: nobody/no-such-model\n", "not on this machine|cannot be downloaded"),
    "no id of the hub": ("model: a/b/c/d\n", "not on this machine|cannot be downloaded"),
}


def _model_cards() -> Iterator[Case]:
    for name, (content, said) in MODEL_CARDS.items():
        yield Case(
            f"model card: {name}",
            {"cards/bad.yaml": content},
            ("cluster", "{root}/notes.txt", "-m", "bad"),
            _placed(said, "bad.yaml"),
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
CHANGES: dict[str, tuple[str, str, str]] = {
    "no protocol": ("protocol: tiny\n", "", "protocol: Field required"),
    "a merged protocol": ("protocol: tiny", "<<: {protocol: x}", "line 1: protocol: unknown protocol 'x'"),
    "a protocol that is a list": (
        "protocol: tiny",
        "protocol: [tiny]",
        "line 1: protocol: Input should be a valid string",
    ),
    "a protocol with markup": ("protocol: tiny", "protocol: 'a[/b]c'", r"unknown protocol 'a\[/b\]c'"),
    "tasks that are a text": ("tasks: [words]", "tasks: words", "line 2: tasks: expected a list"),
    "tasks that are numbers": ("tasks: [words]", "tasks: [1]", "line 2: tasks.0: "),
    "tasks in a map": ("tasks: [words]", "tasks: {words: 1}", "line 2: tasks: "),
    "a task that there is not": ("tasks: [words]", "tasks: [wordz]", "unknown task 'wordz': did you mean words"),
    "no models": ("models: [bow]", "models: []", "line 3: models: "),
    "models that are null": ("models: [bow]", "models:", "line 3: models: expected a list"),
    "a model that there is not": ("models: [bow]", "models: [boww]", "unknown model 'boww': did you mean bow"),
    "a model with a NUL": ("models: [bow]", 'models: ["a\\0b"]', "unknown model"),
    "protocols in a list": ("protocols:\n  tiny:", "protocols:\n- tiny:", "not valid YAML|protocols: "),
    "no protocols": (
        PARAMS[PARAMS.index("protocols:") :],
        "protocols: {}\n",
        "unknown protocol 'tiny': there are none",
    ),
    "a protocol of nothing": (PARAMS[PARAMS.index("  tiny:") :], "  tiny:\n", "protocols.tiny: "),
    "no reducers": ("[none, pca]", "[]", "line 6: protocols.tiny.reducers: "),
    "a clusterer as reducer": ("[none, pca]", "[kmeans]", "unknown reducer 'kmeans'"),
    "a reducer that is null": ("[none, pca]", "[~]", "line 6: protocols.tiny.reducers.0: "),
    "no clusterers": ("[kmeans, hdbscan]", "[]", "line 7: protocols.tiny.clusterers: "),
    "a seed below zero": ("seeds: [1]", "seeds: [-1]", "line 8: protocols.tiny.seeds.0: .*greater than or equal to 0"),
    "a seed that is too large": ("seeds: [1]", "seeds: [4294967296]", "protocols.tiny.seeds.0: .*less than 4294967296"),
    "a seed of 400 digits": ("seeds: [1]", f"seeds: [{'9' * 400}]", "protocols.tiny.seeds.0: "),
    "a seed and a half": ("seeds: [1]", "seeds: [1.5]", "protocols.tiny.seeds.0: "),
    "a seed in words": ("seeds: [1]", "seeds: [one]", "protocols.tiny.seeds.0: "),
    "a seed alone": ("seeds: [1]", "seeds: 1", "protocols.tiny.seeds: expected a list"),
    "no metric": ("seeds: [1]", "main_metric: x", "protocols.tiny.main_metric: unknown metric"),
    "a date as description": (
        "seeds: [1]",
        "description: 2024-01-01",
        "protocols.tiny.description: Input should be a valid",
    ),
    "starts below zero": (
        "n_init: 1",
        "n_init: -1",
        "line 10: protocols.tiny.parameters.kmeans: kmeans: n_init cannot be '-1'",
    ),
    "starts in words": ("n_init: 1", "n_init: many", "kmeans: n_init cannot be 'many'"),
    "starts that are a list": ("n_init: 1", "n_init: [1]", "protocols.tiny.parameters.kmeans.n_init"),
    "an infinite tolerance": ("n_init: 1", "tol: .inf", "kmeans: parameters must be numbers"),
    "an init that there is not": ("n_init: 1", "init: zero", "kmeans: init cannot be 'zero'"),
    "no components": ("n_components: 2", "n_components: 0", "pca: n_components cannot be '0'"),
    "components in words": ("n_components: 2", "n_components: all", "pca: n_components cannot be 'all'"),
    "no samples": ("kmeans: {n_init: 1}", "hdbscan: {min_samples: 0}", "hdbscan: min_samples cannot be '0'"),
    "no way to select": (
        "kmeans: {n_init: 1}",
        "hdbscan: {cluster_selection_method: x}",
        "cluster_selection_method cannot",
    ),
    "a distance below zero": ("kmeans: {n_init: 1}", "umap: {min_dist: -0.1}", "umap: min_dist cannot be '-0.1'"),
    "no spread": ("kmeans: {n_init: 1}", "umap: {spread: 0}", "umap: spread cannot be '0.0'"),
    "a neighbor search that there is not": (
        "kmeans: {n_init: 1}",
        "umap: {knn: guessed}",
        "umap: knn cannot be 'guessed'",
    ),
    "a linkage that there is not": ("kmeans: {n_init: 1}", "agglomerative: {linkage: x}", "linkage cannot be 'x'"),
    "no night": ("models: [bow]", "models: [bow]\nnightly: {cron: never}", "nightly.cron: .*no cron expression"),
    "a 25th hour": (
        "models: [bow]",
        "models: [bow]\nnightly: {cron: 0 25 * * *}",
        "nightly.cron: .*no cron expression",
    ),
    "no time zone": (
        "models: [bow]",
        "models: [bow]\nnightly: {timezone: Mars/Base}",
        "nightly.timezone: .*no time zone",
    ),
    "a budget below zero": ("models: [bow]", "models: [bow]\nnightly: {budget: -1}", "nightly.budget: "),
    "a zone outside": ("models: [bow]", "models: [bow]\nnightly: {timezone: ../../etc/passwd}", "no time zone"),
    "a zone with a NUL": ("models: [bow]", 'models: [bow]\nnightly: {timezone: "a\\0"}', "no time zone"),
    "a level of one": ("models: [bow]", "models: [bow]\npromotion: {level: 1}", "promotion.level: .*less than 1"),
    "a level of NaN": ("models: [bow]", "models: [bow]\npromotion: {level: .nan}", "promotion.level: "),
    "a watch of a text": ("models: [bow]", "models: [bow]\nwatch: {hub: a/b}", "watch.hub: expected a list"),
}


def _params() -> Iterator[Case]:
    for name, (old, new, said) in CHANGES.items():
        assert PARAMS.count(old) == 1, name
        yield Case(
            f"params.yaml: {name}",
            {"params.yaml": PARAMS.replace(old, new)},
            ("run", "--dry-run"),
            _placed(said, "params.yaml"),
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
DATA: dict[str, tuple[Content, str]] = {
    "empty.txt": (b"", "the file is empty"),
    "blank.txt": ("\n \n\t\n", "the file is empty"),
    "utf16.txt": ("one\ntwo\n".encode("utf-16")[:-1], "utf16.txt:2: byte .* is not utf-16; save the file as UTF-8"),
    "zip.txt": (b"PK\x03\x04\x14\0\0\0\x08\0\xff\xfe", "zip.txt:1: no text in UTF-8 or another usual encoding"),
    "pipe.txt": (os.mkfifo, "pipe.txt: is a pipe, not a file"),
    "folder.txt": (Path.mkdir, "folder.txt: is a folder, not a file"),
    "loop.txt": (lambda path: path.symlink_to(path), "loop.txt: cannot be read|there is no such file"),
    "device.txt": (lambda path: path.symlink_to("/dev/zero"), "device.txt: is a device, not a file"),
    "gone.txt": (lambda path: path.symlink_to("nowhere"), "there is no such file"),
    "texts.xlsx": (b"PK", "texts.xlsx: not a readable .xlsx file"),
    "empty.xlsx": (b"", "empty.xlsx: not a readable .xlsx file"),
    "folder.xlsx": (Path.mkdir, "folder.xlsx: is a folder, not a file"),
    "sheet.xlsx": (excel([]), "sheet.xlsx: sheet 'Sheet' is empty"),
    "header.xlsx": (excel([["text", "area"]]), "header.xlsx: there are no rows"),
    "bomb.xlsx": (zipped(b"0" * 2**27), "bomb.xlsx: holds more than the 64 MiB that are read of such a file"),
    "texts.xls": (b"\xd0\xcf", "texts.xls: not a readable .xls file"),
    "texts": (b"a\nb\n", "unknown format"),
    "texts.gz": (PACKED, "unknown format"),
    "texts.json": ("[]", "texts.json: there are no rows"),
    "object.json": ('{"text": "a"}', "object.json: expected a list .* of objects or texts, .* not dict"),
    "numbers.json": ("[1]", "numbers.json: element 0: expected an object"),
    "torn.json": ('[{"text"', "torn.json: not JSON"),
    "texts.pickle": (b"\x80\x04N.", "unknown format"),
    "torn.txt.gz": (PACKED[:-20], "not a readable gzip file"),
    "flipped.txt.gz": (flipped(PACKED, 200), "not a readable gzip file"),
    "sum.txt.gz": (flipped(PACKED, len(PACKED) - 6), "not a readable gzip file .CRC"),
    "plain.txt.gz": (b"no gzip at all\n", "not a readable gzip file"),
    "bomb.txt.gz": (BOMB, "holds more than the 64 MiB that are read of such a file"),
    "bomb.jsonl.gz": (BOMB, "holds more than the 64 MiB that are read of such a file"),
    "bomb.csv.gz": (BOMB, "holds more than the 64 MiB that are read of such a file"),
    "huge.txt": (lambda path: os.truncate(path.touch() or path, 2**40), "is more than the 4,096 MiB that are read"),
    "huge.parquet": (lambda path: os.truncate(path.touch() or path, 2**40), "huge.parquet: "),
    "other.csv": (
        "a,b\nc,d\n",
        r"which column holds the texts is not clear; name it with --text COLUMN .columns: a, b",
    ),
    "lines.csv": ("\x0bext,\x85,\x1b[31m\na,b,c\n", r"is not clear; .*\(columns: .x0bext, .x85, .x1b"),
    "none.csv": ("", "the file is empty"),
    "header.csv": ("text\n", "there are no rows"),
    "ragged.csv": ("text,label\na,b\nc\n", "ragged.csv:3: 1 field instead of 2"),
    "more.csv": ("text\na,b\nc,d\ne,f\n", "more.csv:2: 2 fields instead of 1"),
    "open.csv": ('text,label\n"a\n,b\n', "open.csv:2: "),
    "quote.csv": ('text,label\n"a"b,c,d\n', "quote.csv:2: "),
    "packed.csv.zip": (b"PK", "packed.csv.zip: is packed; unpack it first"),
    "other.tsv": ("a\tb\nc\td\n", "which column holds the texts is not clear"),
    "ragged.tsv": ("text\tlabel\na\n", "ragged.tsv:2: 1 field instead of 2"),
    "deep.jsonl": (DEEP + "\n", "deep.jsonl:1: not JSON: nested too deep"),
    "deep_value.jsonl": ('{"text": ' + DEEP + "\n", "deep_value.jsonl:1: not JSON: nested too deep"),
    "deep_map.jsonl": ('{"text": ' * 100_000 + "\n", "deep_map.jsonl:1: not JSON: nested too deep"),
    "digits.jsonl": ('{"text": ' + "9" * 5000 + "}\n", "digits.jsonl:1: not JSON: "),
    "torn.jsonl": ('{"text": "a"}\n{"text": "b\n', "torn.jsonl:2: not JSON: "),
    "list.jsonl": ('["a", 1]\n', "list.jsonl:1: expected an object"),
    "text.jsonl": ('"a"\n', "text.jsonl:1: expected an object"),
    "null.jsonl": ("null\n", "null.jsonl:1: expected an object"),
    "other.jsonl": ('{"a": 1, "b": 2}\n', "which column holds the texts is not clear"),
    "lists.jsonl": ('{"text": ["a"]}\n', "column 'text' holds a list, not a single value"),
    "lfs.csv": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a pointer of Git LFS"),
    "quotes.jsonl": ("{'text': 'a'}\n", "quotes.jsonl:1: not JSON: Expecting property name"),
    "comma.jsonl": ('{"text": "a",}\n', "comma.jsonl:1: not JSON: "),
    "empty.jsonl": ("\n\n", "the file is empty"),
    "torn.parquet": (SOUND[:-30], "not a readable parquet file"),
    "text.parquet": ("text\na\n", "not a readable parquet file"),
    "empty.parquet": (b"", "not a readable parquet file"),
    "other.parquet": (parquet(a=[1], b=[2]), "which column holds the texts is not clear"),
    "none.parquet": (parquet(text=pa.array([], pa.string())), "there are no rows"),
    "nothing.parquet": (parquet(), "there are no rows"),
    "lists.parquet": (parquet(text=[["a"], ["b"]]), "column 'text' holds a list, not a single value"),
    "maps.parquet": (parquet(text=[{"a": 1}]), "column 'text' holds a dict, not a single value"),
    "bytes.parquet": (parquet(text=[b"\xff\xfe"]), "column 'text' holds bytes that are not UTF-8 text"),
    "time.parquet": (far_away(), "not a readable parquet file .*"),
    "utf8.parquet": (not_utf8(), "not a readable parquet file .*"),
    "pipe.parquet": (os.mkfifo, "pipe.parquet: is a pipe, not a file"),
    "folder.parquet": (Path.mkdir, "folder.parquet: is a folder, not a file"),
}


def _data() -> Iterator[Case]:
    for name, (content, said) in DATA.items():
        yield Case(f"data: {name}", {name: content}, ("cluster", f"{{root}}/{name}", "-m", "bow"), said)


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
WRONG: dict[str, tuple[Any, str]] = {
    "v_measure": ([float("nan"), 150.0, -1, "0.5", None, True, [0.5], 10**400], "v_measure: "),
    "v_measure_std": ([-0.1, 2, "a", float("inf")], "v_measure_std: "),
    "v_measures": ([0.5, [2], [-1], ["a"], {"Level 0": [2]}, {"Level 0": 1}, [float("nan")]], "v_measures"),
    "task": ([{}, None, ""], "task: "),
    "model": ([1, None, ""], "model: "),
    "model_revision": ([{}], "model_revision: "),
    "dataset_revision": ([{}], "dataset_revision: "),
    "mteb_version": ([1], "mteb_version: "),
}
RESULTS: dict[str, tuple[Content, str]] = {
    "empty.jsonl": ("", "holds no clustering results in MTEB's form"),
    "blank.jsonl": ("\n\n", "holds no clustering results in MTEB's form"),
    "deep.jsonl": (DEEP, r"deep.jsonl: line 1: not a result in MTEB's form \(nested too deep"),
    "torn.jsonl": ('{"task"', "torn.jsonl: line 1: not a result in MTEB's form"),
    "list.jsonl": ("[]\n", "list.jsonl: line 1: not a result"),
    "number.jsonl": ("1\n", "number.jsonl: line 1: not a result"),
    "digits.jsonl": ('{"v_measure": ' + "9" * 5000 + "}", "digits.jsonl: line 1: not a result"),
    "latin.jsonl": (json.dumps({**ROW, "task": "ä"}, ensure_ascii=False).encode("latin-1"), "line 1: not a result"),
    "surrogates.jsonl": (json.dumps({**ROW, "mteb_version": "\ud800"}), "mteb_version: "),
    "surrogate.jsonl": (json.dumps({**ROW, "task": "\ud800"}), "task: "),
    "bomb.jsonl.gz": (BOMB, "holds more than the 64 MiB that are read of such a file"),
    "torn.jsonl.gz": (PACKED[:-20], "not a readable gzip file"),
    "flipped.jsonl.gz": (flipped(PACKED, 200), "not a readable gzip file"),
    "plain.jsonl.gz": (b"{}", "not a readable gzip file"),
    "pipe.jsonl": (os.mkfifo, "pipe.jsonl: is a pipe, not a file"),
    "folder.jsonl": (Path.mkdir, "folder.jsonl: holds no clustering results in MTEB's form"),
    "gone.jsonl": (lambda path: None, "gone.jsonl: there is no such file"),
    "gone.json": (lambda path: None, "gone.json: there is no such file"),
    "results": (Path.mkdir, "results: holds no clustering results in MTEB's form"),
    "deep.json": (DEEP, r"deep.json: not a result in MTEB's form \(nested too deep"),
    "list.json": ("[1]", "list.json: not a result"),
    "pairs.json": ('[["scores", 1]]', "pairs.json: not a result"),
    "text.json": ("hello", "text.json: not a result"),
    "empty.json": ("", "empty.json: not a result"),
    "no_scores.json": (json.dumps({"task_name": "X"}), "no_scores.json: not a result"),
    "scores.json": (json.dumps({**FILE, "scores": 1}), "scores.json: not a result"),
    "test.json": (json.dumps({**FILE, "scores": {"test": 1}}), "test.json: not a result"),
    "entries.json": (json.dumps({**FILE, "scores": {"test": [1]}}), "entries.json: not a result"),
    "words.json": (json.dumps({**FILE, "scores": {"test": ["v_measure"]}}), "words.json: not a result"),
    "score.json": (json.dumps({**FILE, "scores": {"test": [{"v_measure": 150}]}}), "v_measure: "),
    "units.json": (
        json.dumps({**FILE, "scores": {"test": [{"v_measure": 50, "main_score": 0.5}]}}),
        "units.json: not a result .*percent, or shares",
    ),
    "task.json": (json.dumps({**FILE, "task_name": {}}), "task: "),
    "version.json": (json.dumps({**FILE, "mteb_version": {}}), "mteb_version: "),
    "pipe.json": (os.mkfifo, "pipe.json: is a pipe, not a file"),
    "results/pipe.json": (os.mkfifo, "pipe.json: is a pipe, not a file"),
}


def _imports() -> Iterator[Case]:
    for key, (values, said) in WRONG.items():
        for i, value in enumerate(values):
            files = {"x.jsonl": json.dumps({**ROW, key: value})}
            name = f"import: {key} {i}, {str(value)[:20]}"
            yield Case(
                name, files, ("import", "{root}/x.jsonl"), f"x.jsonl: line 1: not a result in MTEB's form .{said}"
            )
    for key, said in {"task": "not a result", "model": "not a result", "v_measure": "no V-measure"}.items():
        line = json.dumps({k: v for k, v in ROW.items() if k != key})
        yield Case(f"import: no {key}", {"x.jsonl": line}, ("import", "{root}/x.jsonl"), f"line 1: {said}")
    for name, (content, said) in RESULTS.items():
        top = name.partition("/")[0]
        yield Case(f"import: {name}", {name: content}, ("import", f"{{root}}/{top}"), said)


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
LACK = "its weights lack embeddings.LayerNorm.bias"
FOLDERS: dict[str, tuple[dict[str, Content | None], str]] = {
    "no tensors": ({}, LACK),
    "no weights": ({WEIGHTS: None}, "no weights; expected model.safetensors"),
    "no config": ({CONFIG: None}, "no config.json"),
    "no vocabulary": ({VOCABULARY: None}, "no vocabulary; expected tokenizer.json"),
    "an empty vocabulary": ({VOCABULARY: ""}, f"vocabulary|{LACK}"),
    "only pickles": (
        {WEIGHTS: None, "pytorch_model.bin": b"x"},
        "only pickled weights .pytorch_model.bin., which can run code",
    ),
    "weights that are empty": ({WEIGHTS: b""}, "cannot be loaded"),
    "weights that break off": ({WEIGHTS: b"\xff\0\0\0\0\0\0\0{"}, "cannot be loaded"),
    "weights with a header of a terabyte": ({WEIGHTS: b"\0\0\0\0\0\x01\0\0{}"}, "cannot be loaded"),
    "weights that are text": ({WEIGHTS: "version https://git-lfs.github.com/spec/v1\n"}, "cannot be loaded"),
    "weights that are a folder": ({WEIGHTS: Path.mkdir}, "no weights"),
    "weights that are a pipe": ({WEIGHTS: os.mkfifo}, "model.safetensors: is a pipe, not a file"),
    "weights that are a link to themselves": ({WEIGHTS: LOOP}, "model.safetensors: cannot be read .Too many levels"),
    "a pipe that is never opened": ({"more.safetensors": os.mkfifo}, LACK),
    "a link that is outside": ({"more.json": lambda p: p.symlink_to("/etc/passwd")}, "leads out of|unknown model"),
    "a device": ({"more.json": lambda p: p.symlink_to("/dev/zero")}, "leads out of|unknown model"),
    "a link to nothing": ({"more.json": lambda p: p.symlink_to("gone")}, LACK),
    "a link to a folder": (
        {
            MODULES: module("sentence_transformers.models.Pooling", "1_Pooling"),
            "1_Pooling": lambda p: p.symlink_to(p.parent),
        },
        "1_Pooling is a link to a folder",
    ),
    "a config that is a pipe": ({CONFIG: os.mkfifo}, "config.json: is a pipe, not a file"),
    "a config that is a folder": ({CONFIG: Path.mkdir}, "no config.json"),
    "a config that is empty": ({CONFIG: ""}, "config.json: broken json"),
    "a config that is a list": ({CONFIG: "[]"}, "config.json: expected an object of settings"),
    "a config that is null": ({CONFIG: "null"}, "config.json: expected an object of settings"),
    "a config that is deep": ({CONFIG: DEEP}, "config.json: broken json .nested too deep"),
    "a config that says nothing": ({CONFIG: "{}"}, "model_type: 'None' is no architecture"),
    "a kind of network that there is not": (
        {CONFIG: json.dumps({**BERT, "model_type": "x"})},
        "model_type: 'x' is no architecture",
    ),
    "a kind that is a list": ({CONFIG: json.dumps({**BERT, "model_type": []})}, "model_type: '.*' is no architecture"),
    "layers below zero": ({CONFIG: json.dumps({**BERT, "num_hidden_layers": -1})}, f"cannot be loaded|{LACK}"),
    "layers in words": ({CONFIG: json.dumps({**BERT, "num_hidden_layers": "x"})}, "cannot be loaded"),
    "no heads": ({CONFIG: json.dumps({**BERT, "num_attention_heads": 0})}, "cannot be loaded"),
    "heads that do not divide": ({CONFIG: json.dumps({**BERT, "num_attention_heads": 3})}, "cannot be loaded"),
    "a width of a billion": (
        {CONFIG: json.dumps({**BERT, "hidden_size": 10**9})},
        "its network has .* MiB, and its weights 0 KiB",
    ),
    "words without end": (
        {CONFIG: json.dumps({**BERT, "vocab_size": 10**15})},
        "its network has .* MiB, and its weights 0 KiB",
    ),
    "a width below zero": ({CONFIG: json.dumps({**BERT, "hidden_size": -8})}, "cannot be loaded"),
    "an activation that there is not": ({CONFIG: json.dumps({**BERT, "hidden_act": "x"})}, "cannot be loaded"),
    "an adapter": ({"adapter_config.json": "{}"}, "an adapter is no whole model; merge it into its base model"),
    "an index of numbers": ({INDEX: json.dumps({"weight_map": {"a": 1}})}, "only safetensors beside it are opened"),
    "an index of nothing": ({INDEX: "{}"}, "expected a weight_map of tensors and files"),
    "an index that is deep": ({INDEX: DEEP}, "index.json: broken json .nested too deep"),
    "an index that is a list": ({INDEX: '{"weight_map": []}'}, "expected a weight_map of tensors and files"),
    "modules that are deep": ({MODULES: DEEP}, "modules.json: broken json"),
    "modules that break off": ({MODULES: "[{"}, "modules.json: broken json"),
    "modules that are a map": ({MODULES: '{"path": ""}'}, "modules.json: expected a list of modules"),
    "modules that are numbers": ({MODULES: "[1]"}, "modules.json: expected a list of modules"),
    "modules that are a pipe": ({MODULES: os.mkfifo}, "modules.json: is a pipe, not a file"),
    "foreign code": (
        {MODULES: module("custom_code.Model")},
        "modules.json: asks for the code of 'custom_code.Model'; the modules that are loaded are ",
    ),
    "the system's code": ({MODULES: module("os.system")}, "asks for the code of 'os.system'"),
    "a module that there is not": (
        {MODULES: module("sentence_transformers.models.Nonsense")},
        "asks for the code of .*Nonsense",
    ),
    "a class that is no module": (
        {MODULES: module("sentence_transformers.util.http_get")},
        "asks for the code of .*http_get",
    ),
    "a module without a folder": (
        {MODULES: module("sentence_transformers.models.Dense", "2_Dense")},
        "no weights; expected 2_Dense/model.safetensors",
    ),
    "pickles of a module": (
        {
            MODULES: module("sentence_transformers.models.Dense", "2_Dense"),
            "2_Dense/pytorch_model.bin": b"x",
            "2_Dense/decoy.safetensors": HEADER,
        },
        "only pickled weights .2_Dense/pytorch_model.bin",
    ),
    "pickles of a router's part": (
        {
            MODULES: module("sentence_transformers.models.Router"),
            ROUTER: ROUTES,
            "query_0_Dense/pytorch_model.bin": b"x",
        },
        "only pickled weights .query_0_Dense/pytorch_model.bin",
    ),
    "weights in another format": (
        {"sentence_bert_config.json": '{"model_args": {"gguf_file": "x.gguf"}}'},
        "sentence_bert_config.json: model_args: arguments for a library's loader are not allowed",
    ),
    "a kind of model that is a list": (
        {"config_sentence_transformers.json": '{"model_type": []}'},
        "model_type: Input should be a valid string",
    ),
    "a precision that there is not": ({"checkpoint.json": '{"precision": "fp8"}'}, "unknown model|is none of"),
}


def _folders() -> Iterator[Case]:
    for name, (changes, said) in FOLDERS.items():
        files = {
            f"checkpoints/bad/{path}": content for path, content in {**FOLDER, **changes}.items() if content is not None
        }
        yield Case(f"folder: {name}", files, ("cluster", "{root}/notes.txt", "-m", "bad"), f"(?=.*bad).*(?:{said})")


# command lines

COMMANDS: list[tuple[str, str]] = [
    ("run --seed -1", "greater than or equal to 0"),
    ("run --seed 4294967296", "less than or equal to 4294967295"),
    ("run --seed 1e3", "should be a valid integer"),
    ("run --task wordz --dry-run", "unknown task 'wordz': did you mean words"),
    ("run --task ../words --dry-run", "words: there is no such file"),
    (f"run --task {LONG} --dry-run", "unknown task"),
    ("run --model boww --dry-run", "unknown model 'boww': did you mean bow"),
    ("run --model ../bow --dry-run", "model '../bow': there is no folder"),
    (f"run --model {LONG} --dry-run", "unknown model"),
    ("run --model [/b]x --dry-run", r"unknown model '\[/b\]x'"),
    ("run --method kmean", "'kmean' is no method: write a clusterer .kmeans.*, or reducer/clusterer"),
    ("run --method none/kmean", "unknown clusterer 'kmean': did you mean kmeans"),
    ("run --method non/kmeans", "unknown reducer 'non': did you mean none"),
    ("run --method /", "unknown reducer ''"),
    ("run --method none/kmeans/x", "unknown clusterer 'kmeans/x'"),
    ("run --protocol tinny", "unknown protocol 'tinny': did you mean tiny"),
    ("run --task tenkgnad_p2p", "is not there; get it from https://"),
    ("run --nonsense", "No such option"),
    ("run wrods", "unknown task 'wrods': did you mean words"),
    ("run words.tsv", "words.tsv: there is no such file"),
    ("run --text body", "--text and --labels name columns of a FILE"),
    ("leaderboard --metric v_measur", "unknown metric 'v_measur': did you mean"),
    ("leaderboard --task words", "unknown scored task 'words'"),
    ("leaderboard --model bow", "unknown scored model 'bow'"),
    ("leaderboard --protocol x", "unknown scored protocol 'x'"),
    ("provenance words bow", "unknown scored task 'words'"),
    ("provenance", "Missing argument"),
    ("compare bow tfidff", "unknown model 'tfidff': did you mean tfidf"),
    ("compare bow tfidf --task wordz", "unknown task 'wordz': did you mean words"),
    ("compare bow tfidf --metric nmii", "unknown metric 'nmii': did you mean nmi"),
    ("compare bow", "Missing argument"),
    ("leaderboard --format latx", "'latx' is not one of 'table', 'markdown', 'latex', 'csv', 'json'"),
    ("leaderboard --figure x.svg", "--figure draws mean ranks over tasks: add --over-tasks"),
    ("leaderboard --over-tasks", "0 of 0 models are scored on the same 0 tasks; two of each are needed"),
    ("export -p pape", "unknown protocol 'pape'"),
    ("export", "no labeled task is scored yet: `traube run`"),
    ("export --method kmeans", "no labeled task is scored by kmeans yet: `traube run --method kmeans`"),
    ("import {root}/gone", "there is no such file"),
    ("import", "Missing argument"),
    ("cluster {root}/gone.txt", "there is no such file"),
    ("cluster {root}/notes.txt -m boww", "unknown model 'boww'"),
    ("cluster {root}/notes.txt -m bow --method kmean", "write a clusterer"),
    ("cluster {root}/notes.txt -m bow --method none/kmean", "unknown clusterer 'kmean'"),
    ("cluster {root}/notes.txt -m bow --method pca/hdbscan -k 3", "finds the number of clusters by itself"),
    ("cluster {root}/notes.txt -m bow -k 0", "(clusters|x>=)"),
    ("cluster {root}/notes.txt -m bow -k 1000", "1000 clusters cannot be made of"),
    ("cluster {root}/notes.txt -m bow -k x", "should be a valid integer"),
    ("cluster {root}/notes.txt -m bow --seed -1", "greater than or equal to 0"),
    ("cluster {root}/notes.txt -m bow --seed 4294967296", "less than or equal to 4294967295"),
    ("cluster {root}/cards/words.csv -m bow --text body", "unknown column 'body'"),
    ("cluster {root}/notes.txt -m bow --like {root}/gone.csv", "there is no such file"),
    ("cluster {root}/notes.txt -m bow --group body --like {root}/cards/words.csv", "unknown column 'body'"),
    ("cluster {root}/notes.txt -m bow --group text --like {root}/cards/words.csv", "texts"),
    ("cluster {root}/notes.txt --champion wrods", "unknown task 'wrods'"),
    ("cluster {root}/notes.txt --champion words -k 3", "leave out -k"),
    ("cluster {root}/notes.txt -m bow --precision fp8", "fp8"),
    ("cluster {root}/notes.txt -m bow -o {root}/gone/x.csv", "there is no such folder"),
    ("cluster {root}/notes.txt -m bow --map {root}/gone/x.html", "there is no such folder"),
    ("promote wrods", "unknown task 'wrods': did you mean words?"),
    ("rollback wrods", "unknown task 'wrods': did you mean words?"),
    ("reproduce abc", "`traube provenance` shows the ids of cells"),
    ("reproduce ../../x", "`traube provenance` shows the ids of cells"),
    ("retry nothing", "unknown checkpoint 'nothing'"),
    ("train wwmm words", "unknown trainer 'wwmm': did you mean wwm"),
    ("train wwm wordz", "unknown task 'wordz'"),
    ("train cob words", "words has no labeled splits for training and for validation, which cob learns from"),
    ("tune cob words", "words has no labeled splits for training and for validation, which cob learns from"),
    ("tune wwmm words", "unknown trainer with a study 'wwmm'"),
    ("tune cob newsgroups --set epoch=3", "unknown value of cob's recipe 'epoch': did you mean epochs"),
    ("tune cob words --trials 0", "greater than or equal to 1"),
    ("nonsense", "No such command 'nonsense'"),
]


def _commands() -> Iterator[Case]:
    for line, said in COMMANDS:
        words = tuple(word if word != "''" else "" for word in line.split(" "))
        yield Case(f"command: {line[:60]}", {}, words, said)


# recipes


def _recipes() -> Iterator[Case]:
    for given, said in (
        ("epochs", "--set epochs: write a name and a value, like epochs=3"),
        ("=3", "unknown value"),
        ("epoch=3", "unknown value of wwm's recipe 'epoch': did you mean epochs"),
        ("epochs=-1", "wwm: epochs: Input should be greater than or equal to 0"),
    ):
        yield Case(f"recipe: {given}", {}, ("train", "wwm", "words", "--set", given), said)
