"""Bounds of what the steps of a foreign tokenizer make of a text: each kind of step is on a list, with its growth.

A tokenizer.json of a few kilobytes may list steps that make a text twice as long, sixty times over. Lengths are in
characters, but for post-processors, which count tokens. Normal forms count as no growth: they lengthen what a text
itself holds, once; what a step inserts is counted in its longest form.
"""

import base64
import binascii
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from traube._core.config import SHOWN
from traube.models import _allowed as allowed

LARGEST_GROWTH = 128  # normal forms of sentencepiece have 18, and ALBERT's other steps double that twice
MOST_STEPS = 100
MOST_ADDED_TO_TEXT = 100  # tokens
MOST_WORDS = 1_000_000
MOST_ADDED = 100_000  # tokens beside the vocabulary
MOST_PARTS, LONGEST_TEXT = 200, 4_000  # entries of a list, and characters, in a tokenizer's settings
LONGEST_PADDED = 100_000  # tokens
LONGEST_WORD = 1_000  # characters that WordPiece looks for words in, with the square of their number
LONGEST_AFFIX = 64  # characters that a vocabulary's words have before or after them
DEEPEST = 20  # levels
# Square of the length of each word, summed: what splitting all words at each place takes. Large vocabularies have 10**8.
MOST_SQUARES = 10**9

Step = Mapping[str, Any]
# The key under which a sequence of steps lists them, by the part of the tokenizer.
INSIDE = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
BYTES = 8  # a character has up to 4 bytes, each becomes one, and normal forms of some of these have two
AROUND = 3  # a blank on either side of each Chinese character


def find_fault(tokenizer: Mapping[str, Any]) -> str:
    """Return why a tokenizer, as the library tokenizers writes it, is not loaded; empty if nothing speaks against it."""
    model = tokenizer.get("model")
    settings = dict(tokenizer)
    if isinstance(model, dict):  # its words are data
        settings["model"] = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    faults = [_find_unknown_key(tokenizer, allowed.TOKENIZER_FILE)]
    for key, value in settings.items():
        faults.append(_find_fault_of_settings(value, DEEPEST, most=MOST_ADDED if key == "added_tokens" else MOST_PARTS))
    if fault := next(filter(None, faults), ""):
        return fault
    checks = (_find_fault_of_model, _find_fault_of_steps, _find_fault_of_lengths)
    return next(filter(None, (check(tokenizer) for check in checks)), "")


def measure_words(words: Any) -> int:
    """Return the sum of the squares of the lengths of a vocabulary's words: a mapping, or a list of words with scores."""
    firsts = (word[0] if isinstance(word, list) and word else word for word in words)
    return sum(len(word) ** 2 for word in firsts if isinstance(word, str))


def _find_unknown_key(held: Mapping[str, Any], known: frozenset[str]) -> str:
    unknown = next((key for key in held if key not in known), None)
    return "" if unknown is None else f"{unknown[:SHOWN]}: no setting of a tokenizer that Traube knows"


def _find_fault_of_settings(value: Any, deepest: int, *, names: bool = False, most: int = MOST_PARTS) -> str:
    """Return what is on no list, but for names of special tokens, or too much, at every depth."""
    if not deepest:
        return f"nested deeper than {DEEPEST} levels"
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"a text of {len(value):,} characters; {LONGEST_TEXT:,} at most"
    if isinstance(value, list):
        if len(value) > most:
            return f"a list of {len(value):,} parts; {most} at most"
        return next(filter(None, (_find_fault_of_settings(inside, deepest - 1) for inside in value)), "")
    if not isinstance(value, dict):
        return ""
    if not names and (fault := _find_unknown_key(value, allowed.TOKENIZER_KEYS)):
        return fault
    parts = ((key, inside) for key, inside in value.items() if key != "precompiled_charsmap")
    faults = (
        _find_fault_of_settings(inside, deepest - 1, names=key == "special_tokens" and not names)
        for key, inside in parts
    )
    return next(filter(None, faults), "")


def _find_fault_of_model(tokenizer: Mapping[str, Any]) -> str:
    model = tokenizer.get("model")
    if not isinstance(model, dict):
        return "model: expected an object of settings"
    kind = model.get("type")
    if kind not in (None, *allowed.TOKENIZER_MODELS):  # older files do not say it
        return f"model: {str(kind)[:SHOWN]!r} is no kind of vocabulary that Traube loads"
    if model.get("dropout"):
        return "dropout: a text would have other tokens each time; set it to null"
    longest = model.get("max_input_chars_per_word") or 0
    if not isinstance(longest, int) or longest > LONGEST_WORD:
        return f"max_input_chars_per_word: {str(longest)[:SHOWN]} is more than {LONGEST_WORD}"
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if len(str(model.get(key) or "")) > LONGEST_AFFIX:
            return f"{key}: more than {LONGEST_AFFIX} characters"
    words = model.get("vocab") or ()
    if not isinstance(words, dict | list | tuple) or len(words) > MOST_WORDS:
        return f"its vocabulary is no list of at most {MOST_WORDS:,} words"
    return "its words are too long" if measure_words(words) > MOST_SQUARES else ""


def _find_fault_of_lengths(tokenizer: Mapping[str, Any]) -> str:
    """Return why what is padded or cut is too long."""
    padding, truncation = tokenizer.get("padding") or {}, tokenizer.get("truncation") or {}
    if not isinstance(padding, dict) or not isinstance(truncation, dict):
        return "padding, truncation: expected objects of settings"
    strategy = padding.get("strategy")
    padded = (strategy.get("Fixed") if isinstance(strategy, dict) else 0, padding.get("pad_to_multiple_of"))
    for length in padded:
        if length is not None and (not isinstance(length, int) or length > LONGEST_PADDED):
            return f"padding: to {str(length)[:SHOWN]} tokens; {LONGEST_PADDED:,} at most"
    stride, longest = truncation.get("stride") or 0, truncation.get("max_length") or 0
    if not isinstance(stride, int) or not isinstance(longest, int) or 2 * stride > longest:
        return "truncation: stride: at most half of max_length, or each token would be in many pieces"
    return ""


def _find_fault_of_steps(tokenizer: Mapping[str, Any]) -> str:
    """Return which kind of step is on no list, or that the steps make too much of a text."""
    growth = {}
    for part, kinds in STEPS.items():
        steps = list(_list_steps(tokenizer.get(part), INSIDE[part]))
        for step in steps:
            kind = step.get("type")
            if not isinstance(kind, str) or kind not in kinds:
                return f"{part}: {str(kind)[:SHOWN]!r} is no kind of step that Traube knows"
        if len(steps) > MOST_STEPS:
            return f"{part}: {len(steps):,} steps; {MOST_STEPS} at most"
        growth[part] = math.prod(kinds[step["type"]](step) for step in steps)
    growth["normalizer and pre_tokenizer"] = growth.pop("normalizer") * growth.pop("pre_tokenizer")
    for part, times in growth.items():
        if times > LARGEST_GROWTH:
            return f"{part}: such steps can make a text more than {LARGEST_GROWTH} times as long"
    steps = list(_list_steps(tokenizer.get("post_processor"), INSIDE["post_processor"]))
    if sum(map(_count_added, steps)) > MOST_ADDED_TO_TEXT:
        return f"post_processor: adds more than {MOST_ADDED_TO_TEXT} tokens to each text"
    return ""


def _list_steps(step: Any, inside: str) -> Iterator[Step]:
    """Yield a step, or those of a sequence in their order; what is no object is a step of no kind."""
    if step is None:
        return
    if not isinstance(step, dict):
        yield {"type": step}
    elif step.get("type") != "Sequence":
        yield step
    else:
        listed = step.get(inside)
        for each in listed if isinstance(listed, list) else [str(listed)]:
            yield from _list_steps(each, inside)


def _length(text: Any) -> int:
    """Return the number of characters of the longest form of a text."""
    string = str(text)
    return max(len(form) for form in (string, unicodedata.normalize("NFKD", string), string.lower()))


def _growth_of_replace(step: Step) -> int:
    pattern = step.get("pattern")
    literal = pattern.get("String") if isinstance(pattern, dict) else None
    content = _length(step.get("content", ""))
    # an expression may match the empty text before each character
    return max(1, -(-content // len(literal))) if isinstance(literal, str) and literal else 1 + content


def _growth_of_precompiled(step: Step) -> int:
    """Return the length of the longest text by which a map of sentencepiece replaces a character."""
    try:
        content = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
    except (ValueError, TypeError, binascii.Error):
        return LARGEST_GROWTH + 1
    # a trie, after its size; then the texts, which zeros end
    texts = content[4 + int.from_bytes(content[:4], "little") :].decode(errors="replace")
    return max(1, *map(_length, texts.split("\0")))


def _growth_of_template(step: Step) -> int:
    """Return how often a template holds a text."""
    return max(1, *(sum("Sequence" in piece for piece in _pieces(step, key)) for key in ("single", "pair")))


def _count_added(step: Step) -> int:
    """Return how many tokens a post-processor adds to a text, or to two."""
    special = step.get("special_tokens")
    tokens = special if isinstance(special, dict) else {}

    def count(piece: Step) -> int:
        name = piece["SpecialToken"].get("id") if isinstance(piece.get("SpecialToken"), dict) else None
        token = tokens.get(name) if isinstance(name, str) else None
        return len(token.get("ids") or ()) if isinstance(token, dict) else 1

    added = {
        key: sum(count(piece) for piece in _pieces(step, key) if "Sequence" not in piece) for key in ("single", "pair")
    }
    return max(added.values())


def _pieces(step: Step, key: str) -> list[Step]:
    listed = step.get(key)
    return [piece for piece in listed if isinstance(piece, dict)] if isinstance(listed, list) else []


def _always(growth: int) -> Callable[[Step], int]:
    return lambda _step: growth


# How many times as long each kind of step makes a text at most, by the part of a tokenizer in which it stands.
STEPS: dict[str, dict[Any, Callable[[Step], int]]] = {
    "normalizer": {
        **dict.fromkeys(("Strip", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt"), _always(1)),
        "BertNormalizer": _always(AROUND),
        "ByteLevel": _always(BYTES),
        "Prepend": lambda step: 1 + _length(step.get("prepend", "")),
        "Replace": _growth_of_replace,
        "Precompiled": _growth_of_precompiled,
    },
    "pre_tokenizer": {
        **dict.fromkeys(("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit"), _always(1)),
        **dict.fromkeys(("Split", "Punctuation", "Digits", "UnicodeScripts"), _always(1)),
        "Metaspace": _always(2),  # a mark before a piece of one character
        "ByteLevel": _always(BYTES),
    },
    "post_processor": {
        **dict.fromkeys(("BertProcessing", "RobertaProcessing", "ByteLevel"), _always(1)),
        "TemplateProcessing": _growth_of_template,
    },
    "decoder": {
        **dict.fromkeys(("ByteFallback", "Fuse", "Strip", "ByteLevel", "CTC", "BPEDecoder", "Metaspace"), _always(1)),
        "WordPiece": _always(2),  # a blank before a token of one character
        "Replace": _growth_of_replace,
    },
}
