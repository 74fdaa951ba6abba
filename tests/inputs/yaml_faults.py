"""YAML that is wrong wherever it stands: in a task's card, in a model's, in params.yaml; and how it is refused."""

from tests.errors import Refusal
from tests.inputs.case import Content
from traube._core.errors import Invalid, Malformed, TooLarge

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
CHAIN = "k0: &k0 [x]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 700))
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 10)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
# the value of a key, or a whole file
FAULTS: dict[str, tuple[Content, Refusal]] = {
    "a date that is none": ("description: 2024-13-45\n", (Malformed, "2024-13-45")),
    "a time that is none": ("description: 2024-01-01 25:61:61\n", (Malformed,)),
    "a wrong int": ("description: !!int abc\n", (Malformed, "line 1", "abc")),
    "an empty int": ("description: !!int ''\n", (Malformed,)),
    "a wrong float": ("description: !!float abc\n", (Malformed, "abc")),
    "a wrong bool": ("description: !!bool maybe\n", (Malformed, "maybe")),
    "a wrong timestamp": ("description: !!timestamp abc\n", (Malformed, "abc")),
    "wrong base64": ("description: !!binary a\n", (Malformed, "base64")),
    "base64 that is no ASCII": ("description: !!binary ä\n", (Malformed,)),
    "an integer of 5,000 digits": (f"description: {'9' * 5000}\n", (Malformed,)),
    "a float in sixties": (f"description: {':'.join(['1'] * 400)}.5\n", (Malformed,)),
    "a python object": ("description: !!python/object:os.system x\n", (Malformed,)),
    "a python call": ("description: !!python/object/apply:os.system [ls]\n", (Malformed,)),
    "a tag of its own": ("description: !mine x\n", (Malformed,)),
    "an alias inside itself": ("description: &a [*a]\n", (Malformed,)),
    "a key inside itself": ("&a ? *a : b\n", (Malformed,)),
    "a map inside itself": ("description: &a {x: *a}\n", (Malformed,)),
    "an alias of nothing": ("description: *nothing\n", (Malformed,)),
    "700 lists": ("description: " + "[" * 700, (Malformed, 40)),
    "700 closed lists": ("description: " + "[" * 700 + "]" * 700, (Malformed, 40)),
    "100,000 lists": ("description: " + "[" * 100_000, (Malformed,)),  # PyYAML itself refuses so many from 6.0.4 on
    "700 maps": ("description: " + "{a: " * 700, (Malformed, 40)),
    "700 indents": ("".join(" " * i + "a:\n" for i in range(700)), (Malformed, 40)),
    "700 dashes": ("description:\n  " + "- " * 700 + "x\n", (Malformed, 40)),
    "700 question marks": ("? " * 700 + "x\n", (Malformed, 40)),
    "aliases that explode": (BOMB, (Malformed, 10_000)),
    "aliases in a chain": (CHAIN, (Malformed, 40)),
    "merges that explode": (MERGED, (Malformed, 10_000)),
    "12,000 values": ("description: [" + "x," * 12_000 + "]\n", (Malformed, 10_000)),
    "12,000 keys": ("".join(f"k{i}: x\n" for i in range(12_000)), (Malformed,)),
    "a megabyte": ("description: " + "x" * 2**20 + "\n", (TooLarge, "1 MiB", "256 KiB")),
    "a megabyte of comments": ("# x\n" * 2**18, (TooLarge, "1 MiB", "256 KiB")),
    "a merge of a text": ("<<: x\n", (Malformed,)),
    "a merge of a list of texts": ("<<: [x]\n", (Malformed,)),
    "a list as key": ("? [a, b]\n: c\n", (Malformed,)),
    "a map as key": ("? {a: b}\n: c\n", (Malformed,)),
    "an open list": ("description: [\n", (Malformed,)),
    "an open quote": ("description: 'x\n", (Malformed,)),
    "a tab": ("description:\n\t- x\n", (Malformed,)),
    "two documents": ("description: a\n---\ndescription: b\n", (Malformed,)),
    "a directive": ("%YAML 9.9\n---\na: b\n", (Malformed,)),
    "a control character": ("description: \x07\n", (Malformed,)),
    "a NUL": ("description: \0\n", (Malformed,)),
    "no UTF-8": (b"description: Stra\xdfe\n", (Malformed, 17)),
    "UTF-16": ("description: x\n".encode("utf-16"), (Malformed, 0)),
    "random bytes": (bytes(range(256)) * 8, (Malformed, 128)),
    "nothing": ("", (Malformed, "key: value")),
    "a comment": ("# nothing\n", (Malformed, "key: value")),
    "null": ("null\n", (Malformed, "key: value")),
    "a text": ("hello\n", (Malformed, "key: value")),
    "a number": ("17\n", (Malformed, "key: value")),
    "a list": ("- a\n- b\n", (Malformed, "key: value")),
    "a set": ("!!set {a, b}\n", (Malformed, "key: value")),
    "pairs": ("!!omap [a: b]\n", (Malformed, "key: value")),
    "a date": ("2024-01-01\n", (Malformed, "key: value")),
    "JSON that breaks off": ('{"file": "a.csv", "text"', (Malformed,)),
    "HTML": ("<html><body>404: not found</body></html>\n", (Invalid, 404)),
    "a merge conflict": ("<<<<<<< HEAD\nfile: a\n=======\nfile: b\n>>>>>>> x\n", (Malformed,)),
}
