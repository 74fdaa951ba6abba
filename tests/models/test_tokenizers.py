"""Foreign tokenizers: what each kind of step makes of a text is bounded, and hard texts are tried in a process of its own."""

import base64
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as tokenizers_library

from tests.errors import refused
from tests.models.test_hostile_folders import SOUND, edited, outcome, vectors
from traube._core.errors import Unsafe
from traube.models import _allowed as allowed
from traube.models import _tokenizers as tokenizers
from traube.models._tokenizer_steps import (
    LARGEST_GROWTH,
    LONGEST_AFFIX,
    LONGEST_PADDED,
    LONGEST_WORD,
    MOST_ADDED_TO_TEXT,
    MOST_STEPS,
    find_fault,
)
from traube.models.language import load_language_model

WORDS = {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3}
Step = dict[str, Any]


def tokenizer(**parts: Any) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model, **parts}


def sequence(key: str, *steps: Step) -> Step:
    return {"type": "Sequence", key: list(steps)}


def replace(pattern: dict[str, str], content: str) -> Step:
    return {"type": "Replace", "pattern": pattern, "content": content}


def charsmap(*texts: str) -> Step:
    """A map of sentencepiece with an empty trie."""
    content = (4).to_bytes(4, "little") + bytes(4) + b"".join(text.encode() + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


def template(*pieces: str, ids: int = 1) -> Step:
    """A template of texts, A, and of a special token, S."""
    made = [{("Sequence" if p == "A" else "SpecialToken"): {"id": p, "type_id": 0}} for p in pieces]
    special = {"S": {"id": "S", "ids": [1] * ids, "tokens": ["[UNK]"] * ids}}
    return {"type": "TemplateProcessing", "single": made, "pair": [], "special_tokens": special}


def normalizers(*steps: Step) -> Step:
    return {"normalizer": sequence("normalizers", *steps)}


def pretokenizers(*steps: Step) -> Step:
    return {"pre_tokenizer": sequence("pretokenizers", *steps)}


def processors(*steps: Step) -> Step:
    return {"post_processor": sequence("processors", *steps)}


def decoders(*steps: Step) -> Step:
    return {"decoder": sequence("decoders", *steps)}


BYTES, SPACE = {"type": "ByteLevel"}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"}
A, EMPTY = {"String": "a"}, {"Regex": ""}
LIGATURE = "\ufdfa"  # one character, of which NFKC makes 18
# Parts of a tokenizer that is refused, and their neighbor that is let through.
BOUNDS: dict[str, tuple[Step, Step]] = {
    "replace": (
        {"normalizer": replace(A, "a" * (LARGEST_GROWTH + 1))},
        {"normalizer": replace(A, "a" * LARGEST_GROWTH)},
    ),
    "replace, again": (normalizers(*[replace(A, "aa")] * 8), normalizers(*[replace(A, "aa")] * 7)),
    "replace by as much": (normalizers(*[replace(A, "bb")] * 60), normalizers(*[replace({"String": "aa"}, "bb")] * 60)),
    "replace nothing": (
        {"normalizer": replace(EMPTY, "a" * LARGEST_GROWTH)},
        {"normalizer": replace(EMPTY, "a" * (LARGEST_GROWTH - 1))},
    ),
    "replace by what NFKC lengthens": (
        normalizers(replace(A, LIGATURE * 8), {"type": "NFKC"}),
        normalizers(replace(A, LIGATURE * 7), {"type": "NFKC"}),
    ),
    "prepend": (
        normalizers(*[{"type": "Prepend", "prepend": "a"}] * 8),
        normalizers({"type": "Prepend", "prepend": "a"}),
    ),
    "bytes": (normalizers(*[BYTES] * 3), normalizers(*[BYTES] * 2)),
    "bytes in two parts": (
        {**normalizers(BYTES), **pretokenizers(BYTES, BYTES)},
        {**normalizers(BYTES), **pretokenizers(BYTES)},
    ),
    "Chinese characters": (
        normalizers(*[{"type": "BertNormalizer"}] * 5),
        normalizers(*[{"type": "BertNormalizer"}] * 4),
    ),
    "normal forms": (
        normalizers(*[{"type": "NFKD"}] * (MOST_STEPS + 1)),
        normalizers(*[{"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "Lowercase")]),
    ),
    "charsmap": ({"normalizer": charsmap("x", "a" * (LARGEST_GROWTH + 1))}, {"normalizer": charsmap("x", "a" * 18)}),
    "charsmap of nothing": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}},
        {"normalizer": charsmap()},
    ),
    "nested": (
        normalizers(*[sequence("normalizers", *[replace(A, "aa")] * 4)] * 2),
        normalizers(*[sequence("normalizers", *[replace(A, "aa")] * 3)] * 2),
    ),
    "bytes of pieces": (
        pretokenizers(*[BYTES] * 60),
        pretokenizers({"type": "Split", "pattern": A, "behavior": "Isolated"}, BYTES),
    ),
    "marks": (pretokenizers(*[SPACE] * 8), pretokenizers({"type": "WhitespaceSplit"}, SPACE)),
    "splits": (
        pretokenizers(*[{"type": "Digits"}] * (MOST_STEPS + 1)),
        pretokenizers(*[{"type": "Digits"}] * MOST_STEPS),
    ),
    "template": (
        {"post_processor": template(*"A" * (LARGEST_GROWTH + 1))},
        {"post_processor": template("S", "A", "S")},
    ),
    "templates": (processors(*[template(*"A" * 10)] * 3), processors(*[template("A", "S")] * 3, BYTES)),
    "tokens of a template": (
        {"post_processor": template("A", *"S" * (MOST_ADDED_TO_TEXT + 1))},
        {"post_processor": template("A", *"S" * MOST_ADDED_TO_TEXT)},
    ),
    "tokens of a token": (
        {"post_processor": template("A", "S", ids=MOST_ADDED_TO_TEXT + 1)},
        {"post_processor": template("A", "S", ids=MOST_ADDED_TO_TEXT)},
    ),
    "decoder": (decoders(*[replace(A, "aa")] * 8), decoders(replace({"String": "_"}, " "), {"type": "ByteFallback"})),
    "padding": (
        {"padding": {"strategy": {"Fixed": LONGEST_PADDED + 1}}},
        {"padding": {"strategy": {"Fixed": LONGEST_PADDED}}},
    ),
    "padding to multiples": (
        {"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 2**40}},
        {"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 8}},
    ),
    "overlap": ({"truncation": {"max_length": 9, "stride": 5}}, {"truncation": {"max_length": 10, "stride": 5}}),
    "long words": (
        {"model": {"type": "WordPiece", "vocab": WORDS, "max_input_chars_per_word": LONGEST_WORD + 1}},
        {"model": {"type": "WordPiece", "vocab": WORDS, "max_input_chars_per_word": LONGEST_WORD}},
    ),
    "long affixes": (
        {"model": {"type": "BPE", "vocab": WORDS, "merges": [], "end_of_word_suffix": "a" * (LONGEST_AFFIX + 1)}},
        {"model": {"type": "BPE", "vocab": WORDS, "merges": [], "end_of_word_suffix": "</w>"}},
    ),
    "words": ({"model": {"vocab": {"a" * 40_000: 0}}}, {"model": {"vocab": {"a" * 4_000: 0}}}),
    "draws": ({"model": {"vocab": WORDS, "dropout": 0.1}}, {"model": {"vocab": WORDS, "dropout": None}}),
    **{
        f"unknown {part}": ({part: {"type": "Script", "content": "a"}}, {part: None})
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    },
    "no kind": ({"normalizer": {"content": "aa"}}, {"normalizer": {"type": "Strip"}}),
    "no object": ({"normalizer": [1]}, {"normalizer": sequence("normalizers")}),
    "unknown vocabulary": ({"model": {"type": "Script", "vocab": {}}}, {"model": {"vocab": WORDS}}),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_each_kind_of_step_has_a_bound(what: str) -> None:
    refused, let_through = BOUNDS[what]
    assert find_fault(tokenizer(**refused))
    assert not find_fault(tokenizer(**let_through))


def test_the_longest_sequence_that_well_known_models_have_is_let_through() -> None:
    """As ALBERT's, with sentencepiece's own normal forms, of which one has 18 characters."""
    steps = [
        *(replace({"String": "``"}, '"'), replace({"String": "''"}, '"'), {"type": "NFKD"}, {"type": "StripAccents"}),
        *({"type": "Lowercase"}, charsmap(LIGATURE, "a" * 18), replace({"Regex": " {2,}"}, " ")),
    ]
    assert not find_fault(tokenizer(**normalizers(*steps), **pretokenizers({"type": "WhitespaceSplit"}, SPACE)))


def built(name: str) -> Any:
    """A tokenizer of transformers with a few words, in whichever form its class takes them; None if it needs a file."""
    import transformers

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<pad>", "<unk>", "<mask>")
    words = {word: i for i, word in enumerate([*special, "a", "b"])}
    scored = [(word, -float(i)) for word, i in words.items()]
    kind = getattr(transformers, name, None)
    for arguments in (
        {"vocab": words, "merges": []},
        {"vocab": words},
        {"vocab": scored},
        {"vocab": scored, "unk_id": 1},
    ):
        try:
            return kind and kind(**arguments)
        except Exception:
            continue
    return None


def test_the_steps_of_every_class_on_the_list_are_let_through() -> None:
    made = {name: built(name) for name in sorted(allowed.TOKENIZERS)}
    steps = {name: json.loads(each.backend_tokenizer.to_str()) for name, each in made.items() if each is not None}
    assert len(steps) > 50
    assert {name: fault for name, held in steps.items() if (fault := find_fault(held))} == {}


# trials


def written(folder: Path, **parts: Any) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(tokenizer(**parts)))
    return path


def split(expression: str) -> Step:
    pattern = {"Regex": expression}
    return {"pre_tokenizer": {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}}


# Expressions that are slow by themselves, or that the library gives up; and what well-known models have.
SLOW = {"slow": r"(.*)(.*)\2\1[^\s\S]", "given up": "(a+)+$"}
QUICK = {
    "words": r"\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+",
    "contractions": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++",
}


@pytest.mark.parametrize("name", [*SLOW, *QUICK])
def test_an_expression_that_backtracks_for_ever_is_stopped(tmp_path: Path, name: str) -> None:
    fault = tokenizers.run_trial(written(tmp_path, **split({**SLOW, **QUICK}[name])), seconds=1)
    assert bool(fault) == (name in SLOW)


def test_a_trial_has_bounded_memory(tmp_path: Path) -> None:
    path = written(tmp_path, **normalizers(BYTES, BYTES))
    assert tokenizers.run_trial(path, mebibytes=1) and not tokenizers.run_trial(path)


def test_a_node_may_have_lower_limits_of_its_own(tmp_path: Path) -> None:
    def lower() -> None:
        for kind, most in ((resource.RLIMIT_AS, 2**30), (resource.RLIMIT_CPU, 5), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(kind, (most, most))

    packages = str(Path(str(tokenizers_library.__file__)).parents[1])
    command = [sys.executable, "-I", str(tokenizers.TRIAL), packages, str(written(tmp_path)), "10", "4096"]
    assert subprocess.run(command, preexec_fn=lower, check=False).returncode == 0


def test_words_that_a_vocabulary_lacks_are_no_fault_of_it(tmp_path: Path) -> None:
    assert not tokenizers.run_trial(written(tmp_path, model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}))


def test_what_has_passed_is_tried_once(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, **normalizers({"type": "Strip"}))
    assert not tokenizers.try_tokenizer(path)
    tokenizers._find_fault.cache_clear()  # as in the next process
    monkeypatch.setattr(tokenizers, "TRIAL", tmp_path / "none.py")  # every trial fails
    assert not tokenizers.try_tokenizer(path)
    written(tmp_path, **normalizers({"type": "Strip"}, {"type": "NFC"}))
    assert tokenizers.try_tokenizer(path)
    tokenizers._find_fault.cache_clear()
    assert len((home / tokenizers.PASSED).read_text().split()) == 1


# Whole settings of steps, as a folder has them: one that is refused before a trial, one in it, and one that is sound.
WHOLE_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}
WHOLE: dict[str, tuple[Step, bool]] = {
    "bytes": (pretokenizers(*[WHOLE_BYTES] * 60), False),
    "expression": (split("(a+)+$"), False),
    "sound": ({**split(r"\s+"), "post_processor": template("A", "S")}, True),
}


@pytest.mark.parametrize("kind", ["plain", "static"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_folder_with_such_a_tokenizer_is_refused(tiny_bert: Path, tmp_path: Path, kind: str, name: str) -> None:
    parts, is_sound = WHOLE[name]
    folder = SOUND[kind](tiny_bert, tmp_path / "model")
    edited("tokenizer.json", **parts)(folder, tmp_path)
    edited("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder, tmp_path)
    found, error = outcome(lambda: vectors(folder))
    assert bool(error) != is_sound and "\n" not in error
    assert np.isfinite(found).all() if is_sound else "tokenizer.json: " in error


# tokenizers that transformers builds of other files


LOADERS: dict[str, Callable[[Path], object]] = {
    "encoder": vectors,
    "language model": lambda folder: load_language_model(folder, "masked"),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_a_tokenizer_of_other_files_is_tried_as_it_was_built(
    tiny_bert: Path, masked_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str
) -> None:
    """As of sentencepiece's, whose maps of characters no list can judge before transformers has read them."""
    source = tiny_bert if loader == "encoder" else masked_model
    folder = Path(shutil.copytree(source, tmp_path / "model"))
    words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(words, key=words.get)) + "\n")
    (folder / "tokenizer.json").unlink()
    LOADERS[loader](folder)
    monkeypatch.setattr(tokenizers, "find_fault", lambda _held: "makes too much of a text")
    with refused(Unsafe, folder):
        LOADERS[loader](folder)
    LOADERS[loader](source)  # whose tokenizer.json was judged as it lies there
