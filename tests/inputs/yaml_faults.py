"""YAML that is wrong wherever it stands: in a task's card, in a model's, in params.yaml; and what is said of it."""

from tests.inputs.case import Content

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
CHAIN = "k0: &k0 [x]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 700))
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 10)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
NOT_YAML = "not valid YAML"
# the value of a key, or a whole file
FAULTS: dict[str, tuple[Content, str]] = {
    "a date that is none": ("description: 2024-13-45\n", "'2024-13-45' is no timestamp; put it in quotes"),
    "a time that is none": ("description: 2024-01-01 25:61:61\n", "is no timestamp"),
    "a wrong int": ("description: !!int abc\n", "line 1: not valid YAML: 'abc' is no int"),
    "an empty int": ("description: !!int ''\n", "is no int"),
    "a wrong float": ("description: !!float abc\n", "'abc' is no float"),
    "a wrong bool": ("description: !!bool maybe\n", "'maybe' is no bool"),
    "a wrong timestamp": ("description: !!timestamp abc\n", "'abc' is no timestamp"),
    "wrong base64": ("description: !!binary a\n", "failed to decode base64 data"),
    "base64 that is no ASCII": ("description: !!binary ä\n", NOT_YAML),
    "an integer of 5,000 digits": (f"description: {'9' * 5000}\n", "is no int"),
    "a float in sixties": (f"description: {':'.join(['1'] * 400)}.5\n", NOT_YAML),
    "a python object": ("description: !!python/object:os.system x\n", "could not determine a constructor"),
    "a python call": ("description: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    "a tag of its own": ("description: !mine x\n", "could not determine a constructor"),
    "an alias inside itself": ("description: &a [*a]\n", "an alias inside of what it stands for"),
    "a key inside itself": ("&a ? *a : b\n", NOT_YAML),
    "a map inside itself": ("description: &a {x: *a}\n", "an alias inside of what it stands for"),
    "an alias of nothing": ("description: *nothing\n", "found undefined alias"),
    "700 lists": ("description: " + "[" * 700, "nested deeper than 40 levels"),
    "700 closed lists": ("description: " + "[" * 700 + "]" * 700, "nested deeper than 40 levels"),
    "100,000 lists": ("description: " + "[" * 100_000, "nest"),  # PyYAML itself refuses so many from 6.0.4 on
    "700 maps": ("description: " + "{a: " * 700, "nested deeper than 40 levels"),
    "700 indents": ("".join(" " * i + "a:\n" for i in range(700)), "nested deeper than 40 levels"),
    "700 dashes": ("description:\n  " + "- " * 700 + "x\n", "nested deeper than 40 levels"),
    "700 question marks": ("? " * 700 + "x\n", "nested deeper than 40 levels"),
    "aliases that explode": (BOMB, "more than 10,000 keys and values"),
    "aliases in a chain": (CHAIN, "nested deeper than 40 levels"),
    "merges that explode": (MERGED, "more than 10,000 keys and values"),
    "12,000 values": ("description: [" + "x," * 12_000 + "]\n", "more than 10,000 keys and values"),
    "12,000 keys": ("".join(f"k{i}: x\n" for i in range(12_000)), "(more than|read of such a file)"),
    "a megabyte": ("description: " + "x" * 2**20 + "\n", "1 MiB is more than the 256 KiB that are read of such a file"),
    "a megabyte of comments": ("# x\n" * 2**18, "1 MiB is more than the 256 KiB"),
    "a merge of a text": ("<<: x\n", "expected a mapping or list of mappings for merging"),
    "a merge of a list of texts": ("<<: [x]\n", "expected a mapping for merging"),
    "a list as key": ("? [a, b]\n: c\n", "found unhashable key"),
    "a map as key": ("? {a: b}\n: c\n", "found unhashable key"),
    "an open list": ("description: [\n", "expected node content"),
    "an open quote": ("description: 'x\n", "found unexpected end of stream"),
    "a tab": ("description:\n\t- x\n", "found character that cannot start any token"),
    "two documents": ("description: a\n---\ndescription: b\n", NOT_YAML),
    "a directive": ("%YAML 9.9\n---\na: b\n", "found incompatible YAML document"),
    "a control character": ("description: \x07\n", "characters are not allowed"),
    "a NUL": ("description: \0\n", "characters are not allowed"),
    "no UTF-8": (b"description: Stra\xdfe\n", r"not UTF-8 \(byte 17\)"),
    "UTF-16": ("description: x\n".encode("utf-16"), r"not UTF-8 \(byte 0\)"),
    "random bytes": (bytes(range(256)) * 8, r"not UTF-8 \(byte 128\)"),
    "nothing": ("", "expected `key: value` lines"),
    "a comment": ("# nothing\n", "expected `key: value` lines"),
    "null": ("null\n", "expected `key: value` lines"),
    "a text": ("hello\n", "expected `key: value` lines"),
    "a number": ("17\n", "expected `key: value` lines"),
    "a list": ("- a\n- b\n", "expected `key: value` lines"),
    "a set": ("!!set {a, b}\n", "expected `key: value` lines"),
    "pairs": ("!!omap [a: b]\n", "expected `key: value` lines"),
    "a date": ("2024-01-01\n", "expected `key: value` lines"),
    "JSON that breaks off": ('{"file": "a.csv", "text"', NOT_YAML),
    "HTML": ("<html><body>404: not found</body></html>\n", "unknown key|expected one of the keys"),
    "a merge conflict": ("<<<<<<< HEAD\nfile: a\n=======\nfile: b\n>>>>>>> x\n", NOT_YAML),
}
